// Package serving serves custom resources, each space by the CRDs that
// the catalog says are its.
//
// Upstream's CRD server serves those of the system space, shared ones included.
// Beside it stands, for every tenant that has CRDs, an instance of
// upstream's handler for custom resources with the tenant's CRDs under
// their native names and a storage that reaches the tenant's objects only; for
// system users, who see all spaces at once, one more stands for what tenants
// have defined. Tenants whose CRDs are equal have one handler for these in
// common, with a storage for each tenant (commons). The controllers that look
// after CRDs run once for all tenants, but for the one that gives out names,
// which runs per tenant.
//
// Invariants: a request reaches an instance after authentication,
// authorization and audit, with composite names; which instance is decided
// once, by the catalog; when that decision changes, the tenant's watches of the
// resource end with 410, so that clients list again; a handler in common stores
// by the share of the tenant that is in the context, and nothing without one,
// and is gone with its last share and the requests that hold one; a tenant
// without CRDs has nothing here.
//
// It may be imported by server/ only.
package serving
