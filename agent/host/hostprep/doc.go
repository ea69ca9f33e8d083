// Package hostprep prepares the machine for pods: kernel modules and sysctls.
//
// Invariants: before anything changes a sysctl, its value is recorded once per
// boot, so that Restore can put it back; the record covers what a4s sets and
// what kubelet, kube-proxy and the CNI plugins set on their own. A value that
// is right already is not written.
//
// Packages of agent may import it. It imports no Kubernetes code.
package hostprep
