// Package discovery describes CRDs to clients: as discovery, aggregated and legacy, and
// as OpenAPI versions 2 and 3.
//
// A Set is the CRDs that serve one space, with native names. Its documents equal those
// that upstream's discovery and OpenAPI controllers build for the same CRDs; the models
// come from upstream's builder. The Merge functions add them to a document of upstream.
//
// Invariants: nothing is kept between calls, and CRDs are never changed; a merge keeps
// every existing entry; two sets with the same digest have the same documents.
//
// Only server/tenancy/edge may import it, and server/tenancy/crd for OnlyGet.
package discovery
