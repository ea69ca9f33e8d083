// Package members removes the member of the datastore that belongs to a server
// whose Node is deleted.
//
// Invariants: a finalizer on the Node of each server keeps the Node until its
// member is gone, so that a deletion is never missed; the last member that
// votes is never removed.
//
// Only server may import it.
package members
