package tenantapi

import (
	"strings"

	"k8s.io/client-go/rest"
)

// InSpace is a copy of a configuration whose requests are addressed to one
// space, by the prefix that a tenant's kubeconfig has in its server's URL.
func InSpace(config *rest.Config, tenant string) *rest.Config {
	out := rest.CopyConfig(config)
	out.Host = strings.TrimSuffix(config.Host, "/") + "/tenants/" + tenant
	return out
}
