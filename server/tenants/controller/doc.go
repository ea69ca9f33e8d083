// Package controller makes the space of every new tenant and empties that of
// every deleted one.
//
// A new space gets, in composite form on short paths, the namespaces default,
// kube-system and kube-public, an administrator's role and its binding, and
// the Service by which pods find the API. A deleted one is emptied through the
// tenant's own view, /tenants/<name>: what that view shows is by construction
// exactly what lies under the tenant's prefixes in the datastore. So the
// finalizer, and with it the Tenant, goes when every resource of the view is
// an empty list: then the datastore has no key of the tenant.
//
// Invariants: every step can be repeated, by this process after a crash or by
// that of another server at the same time; what users delete of a space after
// it was made stays deleted, but for the namespace default; what a deletion
// waits for stands in the conditions of the Tenant.
//
// Only server may import it. It imports client-go and nothing of Kubernetes'
// server.
package controller
