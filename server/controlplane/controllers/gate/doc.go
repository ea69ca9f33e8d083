// Package gate holds a tenant's events back in front of a controller's queue, so
// that the keys of one tenant do not fill it and its syncs do not take all workers.
//
// Upstream's controllers have one queue each, first come, first served, and few
// workers. A sync can make 500 pods. Without a gate the key of one tenant waits
// behind thousands of another's (docs/developing/adr/0050-tenants-take-turns-before-the-controllers.md).
//
// Invariants: the order of the events of an object is kept for each handler.
// Nothing is lost; of updates that wait, only the first old and the last new object are
// told, unless labels or owners changed in between. Events of the system space and of the
// first list pass at once. Handlers lag behind caches with upstream's informers as well, so
// a controller cannot tell.
//
// Only server/controlplane/controllers may import it.
package gate
