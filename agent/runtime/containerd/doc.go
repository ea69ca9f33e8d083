// Package containerd runs containerd as a child process of a4s: it writes
// containerd's configuration, starts the same binary again under the name
// "containerd", and supervises it.
//
// Invariants: the child is not in a4s' process group and dies with a4s,
// however a4s ends; shims and the pods below them survive both. Everything
// containerd keeps is under the data directory and the state directory. At
// most one containerd runs on a data directory: a leftover of a killed a4s is
// ended first, one that belongs to a running a4s is a failed precondition.
//
// Packages under agent/ and cmd may import it. It imports no Kubernetes
// server code, and it does not import containerd's daemon: that is
// embedded/containerd.
package containerd
