// Package roles says what an aggregated ClusterRole gives in one space.
//
// The default roles view, edit and admin are stored once, in the system space,
// and are shown in every space. What upstream's controller stores in them is
// collected from the roles of the system space, so it holds there only. In every
// other space they give what the roles of that space give which they select: its
// own, and the default ones that all spaces share.
//
// Invariant: it is a function of the roles of one space. Nothing is stored.
//
// Only server/tenancy and the packages below it may import it.
package roles
