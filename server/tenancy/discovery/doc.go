// Package documents says what definitions of custom resources look like to
// clients: discovery, aggregated and not, and OpenAPI versions 2 and 3.
//
// A Set is made of the definitions that serve one space, with native names.
// What it says is what upstream's controllers for discovery and OpenAPI say of
// the same definitions; the models themselves come from upstream's builder.
// The Merge functions add it to a document of upstream.
//
// Invariants: nothing is kept between calls, and the definitions are never
// changed; in a merge, what is there already stays as it is; two sets with the
// same digest say the same.
//
// Only server/tenancy/edge may import it.
package discovery
