// Package join is the wire contract between an agent that joins and the
// supervisor of a server: paths, bodies and headers, shared by both sides.
//
// Invariants: private keys never travel, an agent sends certificate signing
// requests; every path below the prefix needs a credential; types here only
// gain optional fields, so that servers and agents of neighbouring versions
// understand each other.
//
// server/nodeapi, agent and cmd may import it. It imports only the
// standard library.
package joinapi
