// Command scale measures one server of a4s beside upstream's etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler, with many nodes,
// spaces and pods. `make bench-scale` runs it, as root; docs/developing/benchmarks.md says
// what its numbers mean.
//
// A trial is one side, from an empty data directory: hollow nodes register,
// spaces are made, users of the spaces make Deployments as fast as they can and
// later at a pace, while a user next door reads. A round has a trial of every
// side, one after the other, and each round begins with another side.
//
// Invariants: every side gets the same load from the same clients, and nothing
// of an earlier trial is left when one begins; a number is never a reason to
// fail, but a load that comes to a stand is. The programs of a side are in a
// cgroup of their own, beside the clients.
package main
