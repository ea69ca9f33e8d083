// Command hostile measures what a tenant has to wait for while another does
// something that is much work for the control plane. `make bench-hostile` runs it, as
// root; docs/developing/benchmarks.md says what its numbers mean.
//
// A trial is one way to be hostile, on a server of a4s from an empty data directory,
// with one hollow node. Its neighbour gets an object every 25 ms and has a ReplicaSet
// made every second, an administrator gets an object every 50 ms: alone first, then
// beside the attack. In the row partition a second server is started, of a partition that has
// neither tenant: the attacker, the neighbour and the administrator ask it, and it sends all
// of that on to the first one, their home.
//
// Invariants: an attack is a process of its own, which has only the processor time that
// nobody else wants, and the administrator of a tenant with the limits that tenants have
// by default; an answer is never a reason to fail, a number neither.
package main
