// Package apiproto encodes the kinds that a4s adds to the core group in protobuf, as
// Kubernetes' serializer asks for it.
//
// Messages are encoded forwards into a growing buffer: our objects are small and
// rarely written, so the sizes that generated code computes beforehand are not worth
// their code.
//
// Invariants: what is false, empty or nil is not written; unknown fields are skipped,
// as encoders of later versions may write them.
//
// The packages of our API types import it, and it imports nothing of Kubernetes.
package apiproto
