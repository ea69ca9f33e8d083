package ingress

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
)

const (
	// claimsNamespace has a ConfigMap for each space that has hosts, with claimsLabel, whose value is the tenant.
	claimsNamespace = metav1.NamespaceSystem
	claimsLabel     = "a4s.io/ingress-hosts"
	claimsPrefix    = "ingress-hosts."
	// star stands for the wildcard in keys of a ConfigMap, which no name of a host has.
	star = "_"
)

// claims are the hosts that one space holds, and since when.
type claims map[string]time.Time

// claimsIn reads what is written down, and whose it is; the tenant is empty if it is nobody's.
func claimsIn(stored *corev1.ConfigMap) (tenant string, out claims) {
	tenant = stored.Labels[claimsLabel]
	if tenant == "" || stored.Name != claimsPrefix+tenant {
		return "", nil // somebody else's: the name says the tenant, so there is one
	}
	out = claims{}
	for key, text := range stored.Data {
		since, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			since = stored.CreationTimestamp.Time // whoever changed it did not mean to take the host away
		}
		out[hostOf(key)] = since
	}
	return tenant, out
}

// stored is how claims are written down.
func (c claims) stored(tenant, version string) *corev1.ConfigMap {
	out := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: claimsNamespace, Name: claimsPrefix + tenant,
			ResourceVersion: version, Labels: map[string]string{claimsLabel: tenant}},
		Data: map[string]string{},
	}
	for host, since := range c {
		out.Data[keyOf(host)] = since.UTC().Format(time.RFC3339Nano)
	}
	return out
}

func keyOf(host string) string {
	if host == anyHost {
		return star
	}
	return strings.Replace(host, "*", star, 1)
}

func hostOf(key string) string {
	if key == star {
		return anyHost
	}
	return strings.Replace(key, star, "*", 1)
}

// holders are the claims of all spaces.
type holders struct {
	by map[string]claims          // by tenant
	of map[string]map[string]bool // the tenants that say that they have a host; one, but for a moment
}

func newHolders() *holders {
	return &holders{by: map[string]claims{}, of: map[string]map[string]bool{}}
}

// set replaces what a tenant holds, and returns the hosts that it gave up.
func (h *holders) set(tenant string, now claims) (freed []string) {
	for host := range h.by[tenant] {
		if delete(h.of[host], tenant); len(h.of[host]) == 0 {
			delete(h.of, host)
		}
		if _, kept := now[host]; !kept {
			freed = append(freed, host)
		}
	}
	if h.by[tenant] = now; len(now) == 0 {
		delete(h.by, tenant)
	}
	for host := range now {
		if h.of[host] == nil {
			h.of[host] = map[string]bool{}
		}
		h.of[host][tenant] = true
	}
	return freed
}

// holder is the tenant that has a host, "" for none. Two can say so while the server changes that writes
// claims: the first one has it.
func (h *holders) holder(host string) string {
	tenants := slices.Collect(maps.Keys(h.of[host]))
	if len(tenants) == 0 {
		return ""
	}
	return slices.MinFunc(tenants, func(a, b string) int {
		return cmp.Or(h.by[a][host].Compare(h.by[b][host]), cmp.Compare(a, b))
	})
}

// takenFrom is the tenant other than this one because of which it does not get a host, "" for none, and by which host
// that one has it. A wildcard of others keeps new hosts below it, unless spec.hosts names them.
func (h *holders) takenFrom(tenant, host string, p *policy) (who, by string) {
	switch holder := h.holder(host); {
	case holder == tenant:
		return "", ""
	case holder != "":
		return holder, host
	}
	if p.names(tenant, host) {
		return "", ""
	}
	for _, over := range wildcardsOver(host) {
		if holder := h.holder(over); holder != "" {
			if holder == tenant {
				return "", ""
			}
			return holder, over
		}
	}
	return "", ""
}

// next is what a tenant holds when it wants these hosts: what it has of them, and what is free, up to
// mostHosts.
func (h *holders) next(tenant string, wants []string, p *policy, now time.Time) (out claims, changed bool) {
	out, had := claims{}, h.by[tenant]
	for _, host := range wants {
		if since, ok := had[host]; ok && h.holder(host) == tenant {
			out[host] = since
		}
	}
	for _, host := range wants {
		if _, ok := out[host]; ok || len(out) >= mostHosts {
			continue
		}
		if who, _ := h.takenFrom(tenant, host, p); who != "" {
			continue
		}
		out[host], changed = now, true
	}
	return out, changed || len(out) != len(had)
}

// about names who has a host as far as a space may know of it.
func about(viewer, holder string) string {
	if space.IsSystem(viewer) && !space.IsSystem(holder) {
		return "tenant " + holder + " has it"
	}
	return "another space has it"
}
