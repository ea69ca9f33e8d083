// +k8s:deepcopy-gen=package

// Package partitionapi has the Go types of the DataPartitionConfig API, which a4s adds
// to the core group, version v1, and a typed client of it (seed: data-partition, "API
// Changes"), and those of Partition and TenantPlacement, the directory of a cluster of
// several tenant and resource partitions.
//
// Invariants: field names and numbers of protobuf fields are the seed's, are stored in
// etcd and never change their meaning; one Go type serves as the stored, the versioned
// and the internal form; unknown fields of protobuf are skipped.
//
// Everything may import it. It imports k8s.io/apimachinery, client-go and nothing of
// Kubernetes' server.
package partitionapi
