// Package upstreamflags renders the flags of an upstream component: a4s'
// defaults first, then what the user passed with --<component>-arg, which
// wins by name.
//
// Invariants: a user's value replaces ours of the same name, it is never
// appended to it; an unknown name or a bad value is a *problem.Input that
// names the a4s flag it came through.
//
// server, agent and cmd/tenantadmin may import it. It imports pflag and no Kubernetes server
// code.
package upstreamflags
