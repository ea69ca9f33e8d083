package kinds

import "strings"

// OpenPath tells the paths of the API server, besides those of objects, that
// tenants may be allowed. What is not among them says of the cluster:
// metrics, logs, profiles, and the single checks behind health.
func OpenPath(path string) bool {
	switch path {
	case "/", "/api", "/apis", "/openapi", "/version", "/version/", "/healthz", "/livez", "/readyz",
		"/.well-known/openid-configuration", "/openid/v1/jwks":
		return true
	}
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/") ||
		strings.HasPrefix(path, "/openapi/")
}
