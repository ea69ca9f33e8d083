// Package openid starts a real provider of OpenID Connect for tests, and logs users of it in: the certified
// one of zitadel/oidc, as a process.
//
// Invariants: the provider is built from the module tests/oidcserver, ends with the test, and listens with the
// socket that the test gives it, so that the test says in which network it is. A login is the flow with a code
// by which a browser gets a token.
//
// Only tests may import it.
package openid
