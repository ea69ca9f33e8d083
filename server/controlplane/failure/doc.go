// Package failure answers requests with errors in place of the API server, in front of its
// chain of handlers: with the headers that this gives every answer. Without them clients
// keep an error where they would not keep one of upstream's, as kubectl does in its cache of
// discovery.
//
// Invariants: whoever refuses a request in front of the chain does it through Write; behind
// its beginning the headers are there already, and upstream's own writers are used.
//
// Only server may import it. It knows nothing of tenants and partitions.
package failure
