// Package nodeadmin drains nodes, whose pods may be of several tenant partitions.
//
// Invariants: a node is cordoned where it is registered, and every tenant partition
// knows it, before a pod is evicted; nothing is evicted if the pods of one partition
// cannot be listed, or some of them may not be evicted.
//
// Package cmd may import it. It imports no code of servers.
package nodeadmin
