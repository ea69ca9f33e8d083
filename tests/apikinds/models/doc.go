// Package models tests the OpenAPI models of all kinds that a4s adds to the API.
//
// Invariants: a model has a property for each field of its Go type, and no other.
//
// Nothing imports it. It imports the registries of the kinds, and so the server code of
// Kubernetes.
package models
