// Package registry stores the definitions of custom resources of all spaces.
//
// It is upstream's storage of CustomResourceDefinitions, with two differences:
// the rules of upstream see a tenant's definition under its native name, and
// no tenant touches a definition that has the name of one that the system
// forces on everybody. Both are wrappers; what is stored is what upstream
// stores, under the keys of server/storage.
//
// It may be imported by server/definitions/serving.
package registry
