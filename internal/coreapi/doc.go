// Package coreapi has what the kinds that a4s adds to the core group have in common:
// their encoding in protobuf, as Kubernetes' serializer asks for it, and typed clients.
//
// The encoding follows the protobuf tags of the fields, which a type says by reflection
// once. It is not generated: upstream's generator has a message around each quantity,
// where ours are text in what datastores hold, and has no way to leave it out.
//
// Invariants: what is false, empty or nil is not written; unknown fields are skipped,
// as encoders of later versions may write them; clients prefer protobuf, and each has a
// scheme with its own kinds only.
//
// The packages of our API types import it, and it imports nothing of Kubernetes' server.
package coreapi
