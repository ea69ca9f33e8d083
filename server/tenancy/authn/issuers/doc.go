// Package issuers authenticates tokens of the providers of OpenID Connect that tenants have for
// themselves (spec.authentication), with upstream's authenticator of JSON web tokens.
//
// A provider belongs to a tenant that may be hostile: it answers what it likes, when it likes.
//
// Invariants: a token of a tenant's provider makes a user of that tenant, whatever its claims say, and is
// shown to no other provider; which provider it is, the issuer in the token and the tenant in the path say,
// and else its audience; a provider that the cluster's configuration has is none of a tenant's, and is
// never asked here. A provider is asked for its keys when a token of it comes, by one request at a time and
// not more often than once in ten seconds, over connections that the tenant may have; answers are bounded,
// redirects are not followed, and nothing that a token says is fetched. What waits for it says so, so that
// its seat is for others meanwhile. A tenant that has no provider, or a provider whose tokens nobody shows,
// costs no memory.
//
// Only server/tenancy and what validates Tenants may import it.
package issuers
