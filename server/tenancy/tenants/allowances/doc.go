// Package allowances reads what administrators of the cluster give a tenant beyond what
// strangers get, or leave it of that: kinds of volumes, ports of nodes, classes. A Tenant says it in spec.podSecurity
// and spec.allow, or by annotations, which are older; its template says it where the Tenant does not. What cannot be
// read allows nothing, and is refused when it is written.
//
// Invariant: Effective alone decides which of them holds, so nobody reads a field or an annotation by itself.
//
// It knows no object of Kubernetes but Tenants and their templates, and the names of volume sources. The admission of
// tenants, their directory and the registry of Tenants import it.
package allowances
