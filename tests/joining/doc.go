// Package joining tests both halves of a join together: the agent's client
// against the supervisor's handler, over real TLS, with Secrets in memory.
//
// It is a package of its own because server and agent never import each
// other. Nothing may import it.
package joining
