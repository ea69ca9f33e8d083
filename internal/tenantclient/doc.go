// Package tenantclient is the typed client of the Tenant API, in the shape of
// client-go's own clients.
//
// Invariants: it speaks protobuf where the server does; it has no state and no
// rate limit but those of the configuration it gets.
//
// Everything may import it. It imports client-go and nothing of Kubernetes'
// server.
package tenantclient
