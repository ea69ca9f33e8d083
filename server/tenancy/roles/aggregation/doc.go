// Package aggregation runs upstream's controller of aggregated ClusterRoles
// twice: once for the system and once for tenants. It selects by label across
// all ClusterRoles, so a single one would give the rules of a tenant's role to
// the default roles that all spaces share.
//
// Invariants: the system's instance never sees a role of a tenant; the
// selectors of a tenant's aggregated role carry the tenant's label, which the
// edge adds, so that they find roles of that tenant, and the default ones that all
// spaces share, as these are in the space of the tenant.
//
// Only server may import it.
package aggregation
