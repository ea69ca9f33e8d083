// Package hostprep prepares the machine for pods: kernel modules, sysctls and the
// limits of the kernel that all pods share.
//
// Invariants: before anything changes a sysctl, its value is recorded once per
// boot, so that Restore can put it back; the record covers what a4s sets and
// what kubelet, kube-proxy and the CNI plugins set on their own. A value that
// is right already is not written, and a limit is only ever raised.
//
// Packages of agent may import it. It imports no Kubernetes code.
package hostprep
