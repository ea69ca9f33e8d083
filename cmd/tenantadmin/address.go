package tenantadmin

import (
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
)

const prefix = "/tenants/"

// Address is the URL of a tenant's space below that of a server.
func Address(server, tenant string) string {
	return strings.TrimRight(server, "/") + prefix + tenant
}

// SplitAddress is the inverse of Address; tenant is "" if server is the URL
// of a whole cluster.
func SplitAddress(server string) (cluster, tenant string) {
	server = strings.TrimRight(server, "/")
	i := strings.LastIndex(server, prefix)
	if i < 0 || strings.Contains(server[i+len(prefix):], "/") {
		return server, ""
	}
	return server[:i], server[i+len(prefix):]
}

// ServerURL is the URL that a client with this configuration talks to,
// without a slash at the end.
func ServerURL(cfg *rest.Config) (*url.URL, error) {
	u, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}
