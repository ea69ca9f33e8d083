// Package sharing lets the objects that caches keep share what they have in
// common: one process has the same object in the cache of the API server, in
// its own informers and in those of the controllers, and the default objects
// of all tenants say the same.
//
// A Pool remembers the values that it has seen last, in a fixed number of
// places, so that it does not grow: a value that comes often finds itself
// there, and one that comes in all caches at about the same time, as names and
// UIDs do, too. While lists fill caches, one after the other, it remembers all
// that it sees for some minutes. Schemas of definitions are shared as a whole
// and not kept: the pool knows them as long as a cache has them.
//
// Invariants: only what nobody changes is shared: strings, small maps of
// strings, short slices, the bytes of managed fields, schemas, and of what
// informers keep the whole object. Whoever has an object from a cache must not
// change it and copies it first, which all of Kubernetes depends on. A shared
// slice has no room behind its end, so that who appends to one gets another.
// An object equals itself before and after. It is looked at before a cache has
// it, never after, and what others might have already is not written to.
//
// server and what is below it may import it.
package interning
