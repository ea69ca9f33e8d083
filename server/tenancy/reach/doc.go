// Package reach decides which addresses the API server connects to because a
// tenant says so: for webhooks, conversions, and the proxies of pods and
// Services. The API server stands behind the walls between tenants, on a
// machine whose own services trust it, so whoever chooses where it connects to
// would stand there as well.
//
// Invariants: an address is judged after its name was resolved, and the
// connection goes to the very address that was judged; inside the cluster, which
// is that of all partitions and their nodes and servers, it is that of a living
// pod of the tenant, which no living pod of another has; what is not known yet is
// refused; redirects are never followed, and no proxy of the environment is used.
// What a tenant writes into endpoints is judged in the same way.
//
// Only server and server/tenancy/admission may import it.
package reach
