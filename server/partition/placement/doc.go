// Package placement makes and removes tenants in a cluster of several partitions.
//
// The home partition takes a name by making its TenantPlacement, then has the Tenant made in
// the partition, and then says that it is there; it removes a tenant in the reverse order.
// Servers of other partitions hand both on to home. What was interrupted is resumed by
// home's controller, which also gives a placement to tenants that have none: of the time before
// there were other partitions, or of a partition that home forgot. A name that another one
// has by then is reported, and both tenants stay.
//
// Invariants: a Tenant is made only where its placement says; a placement goes only when
// there is no Tenant; what a step finds done is as good as doing it; nothing is begun that
// cannot be asked of the partition at that moment.
//
// Only server may import it.
package placement
