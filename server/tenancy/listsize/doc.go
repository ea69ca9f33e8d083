// Package listsize tells the edge how large a list is before it is written: protobuf has
// the length of a list before its items, which get longer by what the edge adds.
//
// Invariants: it is a hint. Whoever changes a list after it came from the storage notes
// it again; a list that is larger than was noted is still complete.
//
// Only the edge and the storage of server/tenancy may import it.
package listsize
