// Package version holds what this build of a4s says about itself.
//
// Invariants: a4s has its own version, stamped from git at link time;
// Kubernetes and containerd keep theirs, read from go.mod at build time and
// stamped into their own packages. Nothing here is changed at run time.
//
// Any package may import it. It imports only the standard library.
package version
