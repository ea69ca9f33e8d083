// Package admission lets the webhooks and admission policies of a tenant see
// the objects of that tenant, and nothing else, under native names; those of
// the system see every object, under composite ones.
//
// Upstream's plugins stay as they are and serve the system: their informers
// are narrowed to the system's configurations (informers.go). For a tenant
// that has configurations a second set of the same plugins is run, which lives
// wholly in the tenant's native view (instance.go): its client goes through
// the tenant's prefix, and the attributes it is asked about are translated
// (attributes.go). A tenant without configurations costs nothing.
//
// Invariants: a configuration of a tenant is never asked about an object of
// another space; what a mutating plugin changes in the native copy is composed
// back into the object.
//
// Only server may import it.
package admission
