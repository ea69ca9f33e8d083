// Package proxy sends a request on to the partition that has what it is about.
//
// What stands behind it trusts this server by its front-proxy certificate, whose CA all
// partitions share. The user is said in the headers of a front proxy, a tenant's and the
// system's alike, and bearer tokens that only the other partition can judge pass through.
//
// Invariants: no header of a client that says who asks gets through, whatever it is called
// in the Connection header; the mark of a request that was sent on counts only on a
// connection with a front-proxy certificate, and such a request is never sent on again; the
// certificate of a former tenant is not good for a new one of its name, which the UID says
// that goes with a request.
//
// Only server may import it.
package proxy
