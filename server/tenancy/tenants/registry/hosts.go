package registry

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// mostHosts bounds what each host of an Ingress is compared with.
const mostHosts = 64

// validateHosts checks the hosts that Ingresses of a tenant may have. tenant is empty for a template, in
// which names have placeholders.
func validateHosts(tenant string, hosts []string, path *field.Path) (errs field.ErrorList) {
	if n := len(hosts); n > mostHosts {
		return field.ErrorList{field.TooMany(path, n, mostHosts)}
	}
	if len(hosts) == 1 && hosts[0] == tenantapi.Everything {
		if tenant == space.System {
			return field.ErrorList{field.Forbidden(path, "Ingresses of the system space may have every host that is "+
				"free; names here are kept for it")}
		}
		return nil
	}
	seen := map[string]bool{}
	for i, host := range hosts {
		name := strings.TrimPrefix(host, "*.")
		if tenant == "" {
			name = strings.ReplaceAll(name, tenantapi.TenantName, "tenant")
		}
		switch {
		case seen[host]:
			errs = append(errs, field.Duplicate(path.Index(i), host))
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			errs = append(errs, field.Invalid(path.Index(i), host, "want a name in lower case, or all names below "+
				"one: shop.example.com, *.team.example.com; * stands alone, for every host"))
		}
		seen[host] = true
	}
	return errs
}
