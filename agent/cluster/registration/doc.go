// Package registration puts the Node of this machine back when its partition was restored
// from a snapshot that is older than the Node. The kubelet registers once, so the node would
// be missing until its agent starts again, and other partitions would take its pods for lost.
//
// Invariants: a Node is made only after the servers have said that their partition was
// restored, never because somebody deleted it; it is what this machine saw last, with the
// same range of pod addresses, so its pods keep theirs; labels that a node may not give
// itself are left out.
//
// agent's wiring may import it. It imports no Kubernetes server code.
package registration
