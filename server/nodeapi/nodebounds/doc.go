// Package nodebounds keeps nodes to what they may say of themselves and of their pods. Whoever
// takes over a machine has the credential of its node, and what a node says decides where
// others send packets: its range of pods, its addresses and those of its pods.
//
// Upstream's plugin NodeRestriction keeps a node to objects of its own, and says little of
// what stands in them. Here is the rest: tables over all fields of a Node and of the status of
// a Pod (fields.go), the addresses in them (addresses.go, flannel.go), and, for every writer,
// the ranges of pods (ranges.go): one that the controller of ranges cannot have would end the
// controllers at their next start, for ever.
//
// Invariants: a field that is not in its table is not a node's to change; a range lies in the
// cluster's, has the size that all have, and is apart from those of all other nodes; what is
// not known yet is refused; who impersonates a node is judged as one; the guard hangs on a
// plugin that cannot be turned off.
//
// Only server may import it.
package nodebounds
