// Package authz decides what users of tenants may do, and by which roles.
//
//   - A user of tenant A who asks for another space is refused before any role
//     is looked at, whatever there is. So is a request of theirs that is addressed
//     to no space, and a question of theirs about a user who is not of their tenant.
//   - Inside their space, resources of the system are refused with the reason
//     from the table of kinds, shared ones can be read, and everything else is
//     for the RBAC of the tenant: upstream's, with roles and bindings of that
//     tenant and the default roles that all spaces share.
//   - A user of the system is judged by the upstream authorizers and by the
//     RBAC of the system space, for every space. Bindings of tenants say nothing
//     about users of the system: RBAC must not be among the authorization modes
//     that upstream is started with, or a ClusterRoleBinding that a tenant makes
//     for User "bob" makes the system's bob an administrator of the cluster.
//
// Names in rules are native; the names that the authorizer is asked about are
// composite and translated here. Namespaces and subjects are composite on both
// sides. A question in native words, of a review or of a tenant's policy, is made
// the one that the request itself would be, and then judged as that (Question).
//
// Invariants: fails closed; an authorization looks at objects of one space
// only, however many others there are; a reason never has a name of another
// space in it.
//
// The wiring of the API server imports it, and server/tenancy/admission for the
// questions that a tenant's policies ask.
package authz
