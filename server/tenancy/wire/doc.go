// Package wire translates API objects between the native form that a tenant
// sees and the composite form that everything inside works with, on the wire:
// JSON, YAML and protobuf, without decoding whole objects.
//
// internal/references says which field of which kind holds what (one row each), view.go
// what the native and the composite form of each is, json*.go and proto*.go
// apply the one to the other.
//
// Invariants: project(compose(x)) == x; what is not in the table is passed
// byte by byte; an object of another tenant is an error, never output; memory
// does not grow with the number of objects in a list or a watch.
//
// Only server/tenancy/edge and its tests, and scripts/gendocs for the documentation,
// may import it. It imports k8s.io/api and k8s.io/apimachinery, never
// k8s.io/kubernetes.
package wire
