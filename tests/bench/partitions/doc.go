// Command partitions measures clusters of several tenant partitions (TP) and resource
// partitions (RP) beside each other: what a pod costs a TP and an RP, how many pods a TP
// starts, how long pods and changes of nodes take, and what grows with the nodes of the
// whole cluster. `make bench-partitions` runs it, as root; docs/scale/scale.md says what its
// numbers mean.
//
// A trial is one layout, from empty data directories: so many TPs and as many RPs, each a
// server process of its own, or home alone. Home is the first TP of a layout; it has no
// nodes there, so what a TP does and what an RP does is told apart by process. A round has
// a trial of every layout, and each round begins with another one. After the rounds one TP
// and one RP are given more and more nodes.
//
// Invariants: every layout has the same number of nodes in all, and the same load for each
// TP; processor time is that of a process without what it needs idle. A number is never a
// reason to fail, but a load that comes to a stand is.
package main
