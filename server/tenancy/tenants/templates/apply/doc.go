// Package apply keeps in the spaces of tenants what their templates say.
//
// A tenant is worked on when its space is made, when its Tenant or one of its objects changes, and
// when it is its turn in the roll-out of a changed template. The objects are applied by server-side
// apply in the tenant's own space, in native form, as the request of a system user there would: no
// name in a template leads out of it, and limits and quotas hold. The status of the Tenant names the
// objects. It is the record by which those that fall out of the template are deleted, and by which
// admission refuses their changes to users of the tenant: so it is written before an object is made
// and after one is deleted. It has the UID of each object that was made: one of another UID is somebody's,
// and is made anew or, in a deletion, left alone.
//
// A roll-out has no state of its own. Those of its tenants whose status has another generation are
// behind; the first of them by name, a few at a time, are worked on, and none as long as the status of
// one says that it failed. Limits of templates are no matter of this package: they hold as soon as
// servers know them.
//
// Changes of objects are watched in one watch for each kind, of the objects with the label of package
// templates, and of their metadata alone. Nothing is kept of them but which fields the last
// application had: who changes one of these takes it away from our manager, so that the status of a
// quota, for instance, which changes often, is no reason to work.
//
// Secrets are copies of Secrets of the system space that have a label for it. What is in those is read each time
// and kept nowhere; their metadata is watched, and a change is copied to all that have one, whatever waves there
// are, and whether they can have the rest of the template or not.
//
// Accesses are TenantAccesses in the system space, whose owner is the Tenant: only one that has it as its owner is
// changed or deleted. What a tenant has of them waits for no turn and nothing in its space. Dormant tenants
// whose template has some are awakened.
//
// Invariants: every step can be repeated, by the process of another server too; no objects are made for dormant
// tenants and those that are being deleted; a Namespace is never deleted, nor a ServiceAccount default;
// every failure stands in the status, because one that does not holds up all others; what stands in the way of
// a template stands in the condition of the Tenant, in text that has nothing in it which a terminal
// acts on.
//
// Only server may import it. It imports client-go and nothing of Kubernetes' server.
package apply
