// Package interning keeps one copy of equal values in the caches of a process.
// The same object is in the cache of the API server, in its own informers and
// in those of the controllers, and default objects of all tenants are alike.
//
// A Pool remembers recent values in tables of a fixed size, so that it does not
// grow: frequent values stay in them, and names and UIDs reach all caches
// within milliseconds. Schemas of CRDs and objects of informers are interned as a whole;
// the pool has weak references to them, so they live as long as a cache has them. After a
// start informers list one after the other, and what they list has long left a table.
//
// Invariants: only values that nobody changes are interned: strings, small maps
// of strings, managed fields, schemas, and whole objects of informers. Whoever
// gets an object from a cache copies it before changing it, which all of
// Kubernetes depends on. An object is equal to itself before and after. The
// pool interns an object before a cache has it, never after, and does not write
// to values that others may have already.
//
// server and its packages may import it.
package interning
