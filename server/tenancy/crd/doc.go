// Package crd knows which CustomResourceDefinition serves which tenant.
//
// A CustomResourceDefinition belongs to a space. Two tenants may define the
// same group and resource differently, and the system may share CRDs of its
// own with tenants (multi-tenancy seed, "CRD Support"). Match is the rule
// of the seed (GetMatchingCRD); the Catalog applies it to the existing CRDs and
// tenants, and notifies when an answer changes.
//
// Invariants: the Catalog reads CRDs of tenants with composite names
// (foos.example.com.t1.tenant) and returns them with native ones; a returned CRD
// is never changed; a CRD is found by group and plural name, whatever the version.
//
// It may be imported by server/ and its parts, and imports no server of
// upstream: server/tenancy/crd/serving serves requests,
// server/tenancy/crd/registry stores CRDs, and server/tenancy/discovery describes
// them to clients.
package crd
