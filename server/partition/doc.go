// Package partition is the wing of tenant and resource partitions. Each has its own servers and datastore, for some
// tenants or some nodes or both; together they are one cluster.
//
//   - Own is the partition that a server is of: membership, what its controllers do
//   - Set are all partitions: directory and placement of tenants, connect and proxy to the others
//   - Nodes are those of all partitions: nodecopies, allocations and shares, nodeidentity, nodewrites, kubelets,
//     notready, partial
//   - checks and overview say how the partitions are, registry stores what home knows of them
//
// Invariants: a server of the only partition does nothing for others; what there is to do with them begins, without a
// restart, when the directory shows the second one. Nothing here knows tenancy or service groups. tests/architecture
// holds that.
//
// Only the wiring of the server imports this package.
package partition
