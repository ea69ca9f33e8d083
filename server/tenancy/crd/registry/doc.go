// Package registry stores the CRDs of all spaces.
//
// It is upstream's storage of CustomResourceDefinitions, with three differences:
// the rules of upstream see a tenant's CRD under its native name, no
// tenant touches a CRD that has the name of one that the system forces on
// everybody, and a tenant reads the CRDs of the system that serve it
// beside its own. All are wrappers; what is stored is what upstream stores, under
// the keys of server/tenancy/storage.
//
// Invariant: of a CRD of the system nothing gets to a tenant that project
// does not put there.
//
// It may be imported by server/tenancy/crd/serving.
package registry
