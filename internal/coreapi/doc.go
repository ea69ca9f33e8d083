// Package coreapi has what the kinds that a4s adds to the core group have in common:
// their encoding in protobuf, as Kubernetes' serializer asks for it, and typed clients.
//
// Messages are encoded forwards into a growing buffer: our objects are small and
// rarely written, so the sizes that generated code computes beforehand are not worth
// their code.
//
// Invariants: what is false, empty or nil is not written; unknown fields are skipped,
// as encoders of later versions may write them; clients prefer protobuf, and each has a
// scheme with its own kinds only.
//
// The packages of our API types import it, and it imports nothing of Kubernetes' server.
package coreapi
