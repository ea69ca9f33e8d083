// +k8s:deepcopy-gen=package

// Package tenantapi has the Go types of the Tenant API, which a4s adds to the
// core group, version v1, and a typed client of it in the shape of client-go's
// own: what a client imports to work with tenants.
//
// Invariants: field names, numbers of protobuf fields and the finalizer are
// stored in etcd and never change their meaning; one Go type serves as the
// stored, the versioned and the internal form, so there is nothing to convert;
// unknown fields of protobuf are skipped as encoders of later versions may
// write them. The client speaks protobuf where the server does, and has no state
// and no rate limit but those of the configuration it gets.
//
// Everything may import it. It imports k8s.io/api, apimachinery, client-go and nothing
// of Kubernetes' server.
package tenantapi
