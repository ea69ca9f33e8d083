// Package fairqueue limits how many requests compute at the same time, and is fair
// to flows: the flow that has used least has the next seat.
//
// Service time is measured, not guessed (start-time fair queueing): a request costs
// its flow the time for which it had a seat and did not say that it waits. While it
// waits for its client, a hook or the datastore its seat can be another's; before it
// computes again it waits for one, first in its flow. No flow has all seats, so the
// first request of another one finds a seat at once; while others ask, a flow leaves
// a processor idle for them.
//
// Invariants: a flow has a bounded number of requests that wait to begin; a seat that
// was granted is given back exactly once, whatever becomes of the request; nothing
// keeps a seat for ever that others wait for.
//
// server and server/tenancy may import it. It imports the standard library only.
package fairqueue
