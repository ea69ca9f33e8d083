// Package controller empties the space of every deleted tenant, and makes those of
// which package provision is not asked: of the system, and spaces
// that are damaged or that an older release did not finish.
//
// What a deleted one has is asked of the datastore, by its keys: a space has
// some ten resources with anything in them, of more than seventy. Each object
// is deleted through the API, in composite form too, so that finalizers, grace
// periods, addresses and the webhooks of the system get their due; in the order
// of empty.go. Custom resources go first, and what else operators of the tenant
// may have to finalize (finalize.go); those that cannot be read go unread
// (unread.go). Then namespaces are marked, which keeps everybody from making
// anything in them, and finalized here as soon as they are empty: upstream's
// controller would wait for five seconds and then list every resource of each.
// It still gets those that are not empty by then, and all of them where an API
// server that is not ours has a say (apis.go). The finalizer, and with it the
// Tenant, goes when the datastore has no key of the tenant.
//
// Tenants that are not done at the first try have workers of their own, so
// that nobody waits for them.
//
// Invariants: every step can be repeated, by this process after a crash or by
// that of another server at the same time; what users delete of a space after
// it was made stays deleted, but for the namespace default; what a deletion
// waits for longer than a second stands in the conditions of the Tenant, in text
// that has nothing in it which a terminal acts on; no finalizer is dropped of an
// object that can be read, and no webhook of a tenant is waited for for long.
//
// Only server may import it. It imports client-go and nothing of Kubernetes'
// server.
package controller
