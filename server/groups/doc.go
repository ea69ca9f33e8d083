// Package groups is the wing of service groups (seed: data-partition). Servers of one datastore are divided into
// groups; a DataPartitionConfig gives a group a range of tenants, which its servers cache. Wing is all that the wiring
// of the server asks for; that of a server without a group adds nothing.
//
//   - ranged: a client of etcd that lists and watches the ranges of a group
//   - serving: the storage above it, which answers for all tenants
//   - balance, load: what tenants ask for, and who should have them
//   - apiendpoints: the group in the endpoints of the API
//   - registry: DataPartitionConfigs in the API
//
// Beside it are internal/ownership, which says whose a tenant is, and internal/groupwatch, which makes one watch of
// those of all groups: nodes have them, too.
//
// Invariant: nothing here knows tenancy or the partitions of a cluster. tests/architecture holds that.
//
// Only the wiring of the server imports this package. The storage of tenants imports ranged and serving, cmd balance.
package groups
