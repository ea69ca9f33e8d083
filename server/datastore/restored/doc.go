// Package restored is the record of a server directory that it was made from a snapshot.
//
// The restore writes it into the new directory before that takes the place of the old one, so
// no server runs on restored data without it, whenever the restore or the server is killed.
// The part that has to be done once (what other partitions have of the nodes of this one is
// not known) is taken off when it is done.
//
// Only server may import it.
package restored
