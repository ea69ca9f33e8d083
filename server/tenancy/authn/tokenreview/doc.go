// Package tokenreview answers TokenReviews: inside the space of a tenant only
// about tokens of that tenant's own users.
//
// Upstream's storage asks its authenticator without the context of the request
// that it serves, so the tenant has to be known before.
//
// Invariants: a token of another tenant, of the system, and a token that does
// not exist get the same answer.
//
// The wiring of the API server imports it.
package tokenreview
