// Package fairqueue limits how many requests compute at the same time, and is fair
// to flows: the flow that has used least has the next seat.
//
// Service time is measured, not guessed (start-time fair queueing): a request costs
// its flow the time for which it had a seat. A request that waits for its client or
// for the datastore has none: seats are taken from the oldest requests while
// processors are idle. No flow has all seats, so the first request of another one
// finds a seat at once; while others ask, a flow leaves a processor idle for them.
//
// Invariants: a flow has a bounded number of waiting requests; a seat that was
// granted is given back exactly once, whatever becomes of the request.
//
// server and server/tenancy/edge may import it. It imports the standard library only.
package fairqueue
