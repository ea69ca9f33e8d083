// Package definitions knows which definition of a custom resource serves whom.
//
// A CustomResourceDefinition belongs to a space. Two tenants may define the
// same group and resource differently, and the system may share definitions of
// its own with tenants (multi-tenancy seed, "CRD Support"). Match is the rule
// of the seed (GetMatchingCRD); the Catalog applies it to the definitions and
// tenants that there are, and tells when an answer changes.
//
// Invariants: definitions of tenants come in with composite names
// (foos.example.com.t1.tenant) and are handed out with native ones; nothing
// that is handed out is ever changed; for custom resources a definition is
// found by group and plural name, whatever the version.
//
// It may be imported by server/ and its parts, and imports no server of
// upstream: what serves requests is in server/tenancy/crd/serving, what stores
// definitions in server/tenancy/crd/registry, and what a space says of its
// definitions in server/tenancy/discovery.
package crd
