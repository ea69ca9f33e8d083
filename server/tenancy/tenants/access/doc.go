// Package access makes credentials for the spaces of tenants, as each TenantAccess says: a client
// certificate of a user or a token of a service account, in a Secret of the space that the access is
// in, renewed before it ends, and a binding of a role in the space.
//
// An access in the system space is to any tenant. One in the space of a tenant is to that, was made
// by its users, and is theirs in all it costs: they have workers of their own, each tenant has one at
// a time and rests after each access, and little is kept. That whoever made it has the rights which it
// gives, package registry has seen to. Which of both it is follows from its name inside alone.
//
// What is in the Secret decides whether there is something to do: its certificate is read, not
// what the status says of it. The binding has the UID of the access in its name, so that it is the
// one of nobody else; the status names it, with the UID of the tenant, before it is made.
//
// Credentials are renewed by the life that they were given, and once in a minute at most.
//
// Invariants: every step can be repeated, by the process of another server too; a Secret that the
// access does not own is neither read nor changed nor deleted; the certificate of a user is of the
// tenant with the UID that is there, of no other one of its name; nothing is signed for the system
// space, nor bound for a tenant that is placed in another partition; what a tenant does to the
// binding counts in its space alone, and holds up no deletion; messages of conditions have nothing
// in them which a terminal acts on.
//
// Only server may import it. It imports client-go, and of Kubernetes' server what package authn does.
package access
