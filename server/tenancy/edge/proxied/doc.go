// Package proxied is what the edge and the proxies of pods and Services have to
// tell each other about one request: by which path the client asked, which
// upstream's proxy shows to the client and to the proxied server, and whether
// that server, and not the API server, has answered.
//
// Invariant: what is shown of a path is what the client sent, never a composite
// name.
package proxied
