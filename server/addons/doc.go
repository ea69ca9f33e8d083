// Package addons makes the controllers that a server has besides upstream's, and that
// --disable leaves out.
//
// Invariant: nothing here knows of tenants, nor of the other servers of a cluster.
//
// server may import it.
package addons
