package ingress

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// anyHost is the host of rules without one: every name that no other rule has.
const anyHost = ""

// spelled is a host in messages.
func spelled(host string) string {
	if host == anyHost {
		return "every host"
	}
	return fmt.Sprintf("host %q", host)
}

// wildcardOver is the host with a wildcard that covers a host, "" for none.
func wildcardOver(host string) string {
	label, rest, ok := strings.Cut(host, ".")
	if !ok || label == "*" {
		return ""
	}
	return "*." + rest
}

// wildcardsOver are the wildcards that cover a host by the Gateway API: for any number of labels.
func wildcardsOver(host string) (out []string) {
	for over := wildcardOver(host); over != ""; over = wildcardOver(strings.TrimPrefix(over, "*.")) {
		out = append(out, over)
	}
	return out
}

// policy says which hosts spaces may have, by spec.hosts of their tenants. An entry is a name, "*.example.com"
// for all names below example.com however many labels they have, or tenantapi.Everything.
type policy struct {
	of       map[string][]string        // by tenant, of those that have some
	reserved map[string]map[string]bool // the tenants that have an entry
}

func newPolicy() *policy {
	return &policy{of: map[string][]string{}, reserved: map[string]map[string]bool{}}
}

// set takes over what a tenant has, and reports whether that is news.
func (p *policy) set(tenant string, entries []string) bool {
	if slices.Equal(p.of[tenant], entries) {
		return false
	}
	for _, entry := range p.of[tenant] {
		if delete(p.reserved[entry], tenant); len(p.reserved[entry]) == 0 {
			delete(p.reserved, entry)
		}
	}
	delete(p.of, tenant)
	if len(entries) == 0 {
		return true
	}
	p.of[tenant] = slices.Clone(entries)
	for _, entry := range entries {
		if p.reserved[entry] == nil {
			p.reserved[entry] = map[string]bool{}
		}
		p.reserved[entry][tenant] = true
	}
	return true
}

// names reports whether a tenant's own entries name a host, and do not only allow everything.
func (p *policy) names(tenant, host string) bool {
	for entry := range tenantapi.HostEntries(host) {
		if p.reserved[entry][tenant] {
			return true
		}
	}
	return false
}

// refuse says why a space does not get a host; empty if it may have it.
func (p *policy) refuse(tenant, host string) string {
	if space.IsSystem(tenant) {
		return ""
	}
	entries := p.of[tenant]
	if slices.Contains(entries, tenantapi.Everything) || p.names(tenant, host) {
		return ""
	}
	if len(entries) > 0 {
		return fmt.Sprintf("this space may have hosts of %s: an administrator of the cluster says so in spec.hosts "+
			"of the tenant", strings.Join(entries[:min(len(entries), mostNamed)], ", "))
	}
	switch {
	case host == anyHost:
		return "an Ingress of a tenant names its host: requests for hosts that nobody has are the cluster's, unless " +
			"an administrator says otherwise in spec.hosts of the tenant"
	case strings.HasPrefix(host, "*."):
		return "a wildcard would take names from other spaces: an administrator of the cluster gives one by " +
			"spec.hosts of the tenant"
	}
	for entry := range tenantapi.HostEntries(host) {
		if len(p.reserved[entry]) > 0 {
			return "it is kept for another space"
		}
	}
	return ""
}

// mostNamed is how many entries a message names.
const mostNamed = 10

// hostsOf are the hosts of an Ingress, each once.
func hostsOf(ingress *networkingv1.Ingress) (out []string) {
	seen := map[string]bool{}
	for i := range ingress.Spec.Rules {
		if host := ingress.Spec.Rules[i].Host; !seen[host] {
			seen[host] = true
			out = append(out, host)
		}
	}
	if len(ingress.Spec.Rules) == 0 && ingress.Spec.DefaultBackend != nil {
		out = append(out, anyHost)
	}
	return out
}
