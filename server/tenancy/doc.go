// Package tenancy puts what makes the API server one of tenants into its seams: the
// edge, admission, storage, limits, roles and the CRDs of tenants.
//
// Invariant: it wires, and decides nothing: what a rule of tenancy is stands in the
// package below it that has the rule's subject.
//
// server may import it.
package tenancy
