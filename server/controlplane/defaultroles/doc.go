// Package defaultroles gives a new cluster the default roles of RBAC as soon as
// its API answers.
//
// Upstream's own hook makes them a second later and one after another, and
// whoever has their rights by them, as the controllers and the scheduler do, would
// wait for it at the first start. The hook stays what decides: it runs in any
// case and brings the roles to what this version wants.
//
// Invariant: nothing is made in a cluster that has any of the roles.
//
// Only the server's wiring imports it.
package defaultroles
