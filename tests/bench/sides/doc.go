// Package sides starts what benchmarks compare, each on a host of its own: a4s,
// and upstream's etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler, with kubelet, kube-proxy and containerd if there is to be a
// node. Main and Rounds are what benchmarks that are programs have in common.
//
// Invariants: upstream's programs are configured as kubeadm does, but for what
// the machine does not allow and what only costs: nothing elects a leader, and
// credentials are made before anything starts. Shim, runc, CNI plugins and
// sandbox image are those that a4s carries, for both. All processes of a side,
// and nothing else, are in the process namespace of its host, and end with the
// process that made it.
//
// Only benchmarks import it.
package sides
