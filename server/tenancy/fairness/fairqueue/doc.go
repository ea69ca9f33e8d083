// Package fairqueue limits how many requests compute at the same time, and is
// fair to flows: whoever has used least lately has the next turn.
//
// Service time is measured, not guessed (start-time fair queueing): a request
// costs its flow the time for which it occupied a slot, and what it is charged
// for things that were done outside of it. A flow that has used
// clearly less than the busy ones does not wait for a slot at all, up to a
// bound; a busy one leaves a part of the slots free while there are others,
// because a request that computes is not interrupted for another. A flow without
// others may have more turns than there are slots, but not so many that the
// first of another flow would wait.
//
// Who is about to take the idle processors, as a collection of garbage does,
// has busy flows begin nothing meanwhile (Still), for a while.
//
// A slot stands for a processor. A request that waits for something itself (the
// datastore, a webhook, its client) must not occupy one, but nobody says that
// it waits. So while others wait for a turn it is looked, every millisecond,
// whether Go has idle processors: the slots of the oldest requests are then
// free. On a machine without idle processors a request keeps other flows from
// its slot for 100 ms at most, and its own flow for a second.
//
// Invariants: no request waits while there are idle processors for longer than
// a tick or two, unless only busy flows wait and what is free is left to
// others. A turn that was given is released exactly once, whatever is called
// how often. Waiting requests of a flow are bounded. Flows that do nothing are
// forgotten. It starts no goroutine but a timer while requests wait.
//
// Only server may import it.
package fairqueue
