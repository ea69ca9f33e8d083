// Package election lets one server of several run what only one may run: the
// controllers and the scheduler.
//
// Invariants: there is one election for all of it, so that an idle cluster
// writes little; who leads is the holder of a Lease in kube-system, under the
// name of its node, which a restart takes up at once; who cannot renew it ends
// what it runs before another begins.
//
// Only server may import it.
package election
