// Package apiendpoints keeps the endpoints of the API where servers have service groups
// (seed: data-partition, "API Changes"): Endpoints default/kubernetes has one subset for
// each group, and each group has an EndpointSlice of its own besides the one of all.
//
// Servers tell each other that they live by keys in the datastore that expire, the same
// as those of upstream's reconciler, with their group. Each server writes what all of
// them say, so it does not matter who does.
//
// Invariants: a server that does not renew its key for ten seconds is taken out; while a
// server without a group lives, whose reconciler is upstream's and wants one subset,
// Endpoints are as it wants them; nothing else in the namespace is touched.
//
// The wiring of the server imports it. It imports no k8s.io/kubernetes.
package apiendpoints
