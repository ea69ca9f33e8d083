// Package health knows what can be wrong with a running a4s: a table of
// conditions, a registry of those that hold, and the checks that set and clear
// them. `a4s status`, `a4s doctor`, metrics and Events all tell of the same
// registry.
//
// Invariants: the table is fixed, and its codes are never reused, since people
// alert on them; a condition that is set is visible only after the time that
// its kind has, and not while one that explains it is set; a check that cannot
// find out changes nothing.
//
// main, server, agent and cmd may import it. It imports no Kubernetes server
// code.
package health
