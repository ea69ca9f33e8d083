package kinds

import (
	"slices"
	"strings"
)

// OpenPaths are the paths of the API server, besides those of objects, that
// tenants may be allowed, in the words of rules: a '*' at the end stands for
// everything below. What is not among them says of the cluster: metrics, logs,
// profiles, and the single checks behind health.
func OpenPaths() []string {
	return []string{"/", "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/",
		"/healthz", "/livez", "/readyz", "/.well-known/openid-configuration", "/.well-known/openid-configuration/",
		"/openid/v1/jwks", "/openid/v1/jwks/"}
}

// OpenPath reports whether a path is one of them.
func OpenPath(path string) bool {
	return slices.ContainsFunc(OpenPaths(), func(open string) bool {
		below, all := strings.CutSuffix(open, "*")
		return path == open && !all || all && strings.HasPrefix(path, below)
	})
}
