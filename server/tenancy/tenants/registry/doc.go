// Package registry serves tenants as a resource of the core group: storage,
// validation, life cycle, printer columns and OpenAPI.
//
// Invariants: a Tenant has the finalizer of its space from creation on, so it
// outlives everything in the space; the Tenant "system" is made by the server
// itself and cannot be deleted, and neither can one with spec.deletionProtection;
// status changes by the status subresource only, but for the phase, which
// deletion sets.
//
// Importing it makes the types known to legacyscheme, the scheme of the
// built-in APIs, once per process and before anything reads it. Only server
// may import it.
package registry
