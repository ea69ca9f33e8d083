// +k8s:deepcopy-gen=package

// Package allocations has the Go types of NodeAllocation, a kind of the core group that a
// resource partition has one object of for each node: what each tenant partition has on
// it. It is what schedulers of several tenant partitions commit to before they bind a
// pod (package shares).
//
// Invariants: the object has the name of its node, which owns it; a partition has at most
// one share of it; quantities are exact, not rounded; the numbers of the protobuf fields
// are stored in etcd and never change their meaning.
//
// Server, and commands about partitions, may import it. It imports nothing of
// Kubernetes' server.
package allocations
