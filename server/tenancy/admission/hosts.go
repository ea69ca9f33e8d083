package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/kubernetes/pkg/apis/networking"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// checkHosts keeps an Ingress to the hosts that the tenant may have, whatever class it is of. What it had
// before stays. Without a list everything goes here: who gets a host is decided by the controller of the class.
func (g permits) checkHosts(ctx context.Context, tenant string, ingress, old *networking.Ingress) error {
	allowed, err := g.tenants.Hosts(ctx, tenant)
	if err != nil || len(allowed) == 0 || slices.Contains(allowed, tenantapi.Everything) {
		return err
	}
	had := hostsOf(old)
	for _, host := range hostsOf(ingress) {
		if slices.ContainsFunc(had, func(h hostOf) bool { return h.name == host.name }) ||
			allowsHost(allowed, host.name) {
			continue
		}
		what := fmt.Sprintf("%s is %q", host.field, host.name)
		if host.name == "" {
			what = host.field + " is not set, which is every host"
		}
		return fmt.Errorf("%s: Ingresses of this space have hosts of %s", what, strings.Join(allowed, ", "))
	}
	return nil
}

// allowsHost reports whether an entry of a list allows a host.
func allowsHost(allowed []string, host string) bool {
	for entry := range tenantapi.HostEntries(host) {
		if slices.Contains(allowed, entry) {
			return true
		}
	}
	return false
}

// hostOf is a host with the field that names it.
type hostOf struct{ field, name string }

// hostsOf are those of all rules and certificates of an Ingress, which may be nil. The default backend is for
// every host if there is no rule.
func hostsOf(ingress *networking.Ingress) (out []hostOf) {
	if ingress == nil {
		return nil
	}
	for i := range ingress.Spec.Rules {
		out = append(out, hostOf{fmt.Sprintf("spec.rules[%d].host", i), ingress.Spec.Rules[i].Host})
	}
	for i := range ingress.Spec.TLS {
		for j, host := range ingress.Spec.TLS[i].Hosts {
			out = append(out, hostOf{fmt.Sprintf("spec.tls[%d].hosts[%d]", i, j), host})
		}
	}
	if len(ingress.Spec.Rules) == 0 && ingress.Spec.DefaultBackend != nil {
		out = append(out, hostOf{"spec.rules[0].host", ""})
	}
	return out
}
