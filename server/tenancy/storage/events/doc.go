// Package events lets upstream judge the events of a space by the names that
// their writers use. Upstream accepts an event about an object without a
// namespace in the namespaces default and kube-system, and compares with these
// words; inside, those of a tenant are called default.<tenant> and so on.
//
// Invariants: nothing is accepted for a tenant that upstream would not accept in
// a cluster of the tenant's own; an event about a namespaced object is in that
// object's namespace. What is stored is not changed.
//
// Only server may import it.
package events
