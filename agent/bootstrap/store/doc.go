// Package store keeps the bootstrap pods of a node: each in a file of its own,
// and all of them in memory.
//
// A pod begins as Local: only this node knows it. It becomes Persisted once
// the API server took it, and Seen once the server showed it to this node,
// from when on the server alone decides about it. The record of a pod that
// the server has stays until the pod is gone there.
//
// Invariants: a pod is in the store only after its file is complete on disk,
// and a failed creation leaves nothing behind; an Entry is never changed, a
// change makes a new one; a namespace and name has one entry; a damaged file
// is reported by its name and left alone.
//
// agent/bootstrap, agent/origin and agent's wiring may import it. It imports API
// types only.
package store
