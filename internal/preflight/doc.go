// Package preflight checks what the machine must offer before anything is
// started, so that a missing precondition is one clear line and not the
// failure of whatever part meets it first.
//
// Invariants: a check changes nothing and returns a *problem.Precondition
// that names the flag or directory to change.
//
// server, agent and main may import it.
package preflight
