// Package tenantapi has the Go types of the Tenant API, which a4s adds to the
// core group, version v1: what a client imports to work with tenants.
//
// Invariants: field names, numbers of protobuf fields and the finalizer are
// stored in etcd and never change their meaning; one Go type serves as the
// stored, the versioned and the internal form, so there is nothing to convert;
// unknown fields of protobuf are skipped as encoders of later versions may
// write them.
//
// Everything may import it. It imports k8s.io/apimachinery and nothing of
// Kubernetes' server.
package tenantapi
