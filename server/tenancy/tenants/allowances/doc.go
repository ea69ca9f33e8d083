// Package allowances reads the annotations of a Tenant by which administrators of
// the cluster give a tenant more than strangers get: kinds of volumes, ports of
// nodes, classes. What cannot be read allows nothing, and is refused when the
// Tenant is written.
//
// It knows no object of Kubernetes but the names of volume sources. The admission
// of tenants and the registry of Tenants import it.
package allowances
