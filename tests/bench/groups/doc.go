// Command groups measures whole servers of a4s that share an etcd and split its tenants in
// service groups: the memory and the processor time of each, what a write of a pod costs
// all of them together, and how long it takes until a watch shows it. `make bench-groups`
// runs it, as root; docs/developing/benchmarks.md says what its numbers mean.
//
// One datastore is filled once, by one server: tenants, and pods on hollow nodes. A trial
// is one layout, so many groups of so many servers: its configurations are stored, all
// servers are stopped, and those of the layout start on the datastore as it is. A round has
// a trial of every layout, and each round begins with another one.
//
// Invariants: every layout has the same objects, nodes, watches and writes; each write goes
// to a server of the group that owns its tenant; etcd is a process on a host of its own and
// is counted by itself. A number is never a reason to fail, but an event that does not come
// is.
package main
