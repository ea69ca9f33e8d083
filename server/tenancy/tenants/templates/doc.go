// Package templates knows what stands in a TenantTemplate: which objects it can have, and what they
// are for one tenant once the placeholders in them have their values. It asks nothing of the API;
// package apply, below it, makes the objects.
//
// Invariants: an object of a template is in the tenant's own space, of a kind that is built in, and
// has nothing in its metadata but a name, a namespace, labels and annotations; its namespace is one
// that every space has or one of the template, so that nothing of the template goes with a namespace
// that a user of the tenant can delete; values of placeholders come from the Tenant, which only the
// system writes, and never become names of fields; what says who gets in, and which Secret of the system
// space a tenant has a copy of, has no value of it but its name.
//
// The registry and the admission of tenants import it, and apply.
package templates
