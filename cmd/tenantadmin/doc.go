// Package tenantadmin is what an administrator of the cluster does with
// tenants from outside: make and delete them, give people access to their
// spaces, move them between service groups, and take partitions and nodes out of
// use without losing what tenants have there.
//
// Invariants: it uses nothing but the API, with the rights of the
// configuration it gets; every wait ends with its context and says what it
// waited for; private keys are made here and never leave but by the caller.
//
// cmd and main import it. It imports client-go and nothing of Kubernetes'
// server.
package tenantadmin
