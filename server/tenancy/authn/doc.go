// Package authn gives every user of the API server their tenant, whatever they were
// authenticated by, and answers the edge before the handler chain is reached.
//
// Where a tenant comes from:
//
//   - Client certificate, new form: one organization "tenant:<t>", groups in
//     the organizational units, the user's name is the common name.
//   - Client certificate, old form: the common name is "<t>:<name>" or begins
//     with "tenant:<t>"; all of it is the user's name, groups are the
//     organizations. "system:..." are the users of Kubernetes itself.
//   - Service account: the tenant of its composite namespace.
//   - Token file: the column after the groups.
//   - Everything else (OIDC, structured authentication, webhook, front proxy):
//     the extra attribute a4s.io/tenant. Several values are the tenants of which
//     somebody is a member, between which the path of the request chooses
//     (members.go).
//
// Users that name no tenant are users of the system when they came with a
// certificate of the cluster, are service accounts of the system space,
// bootstrap tokens or nobody (anonymous); all others get the default tenant.
// The administrator who configured an authenticator is believed: "system", said
// explicitly, makes a user of the system.
//
// Invariants: a tenant's user has the extra attribute a4s.io/tenant with one
// value, a user of the system has none, and a member of several who has chosen none
// has them all, which is known to the edge alone and refused; two claims that differ,
// or one that is no tenant's name, fail the authentication; a user.Info that another
// package may have cached is never changed.
//
// Everything in server may import it. It imports nothing of k8s.io/kubernetes;
// what needs that is in the packages below it.
package authn
