// Package provision makes the default objects of spaces: in composite form on
// short paths the namespaces default, kube-system and kube-public, and an
// administrator's role and its binding. What pods need in the namespaces, a service account
// and a CA bundle, it makes when upstream's controllers are late with it.
//
// A new tenant is dormant: it costs its Tenant object and nothing more. Its space
// is made by the first request that may use it, which waits for it, and for a while for
// the objects of the tenant's template. It waits, too, where the controller of tenants has
// to make the space and has not yet. A user of the tenant may by being one; a user of
// the system may once the authorizer has allowed the request, so that nobody makes spaces
// by asking for them.
//
// Invariants: what is there already is left as it is, so every step can be repeated,
// by another server at the same time too; a server makes one space once at a time,
// and goes on when the client that waited for it is gone; a request goes on when
// this server judges by the roles that were made.
//
// The edge, the controller of tenants and what wires them may import it.
package provision
