package crd

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// A tenant is shown the definitions of the system that serve it beside its own
// (server/tenancy/crd/registry). Which these are changes with the definitions,
// and with the policy and labels of the tenant, which are objects of another
// resource: a watch of definitions that begins at a version cannot know what
// changed since. So it is known here since when nothing has.

// horizon is from which versions on watches miss nothing of what is shown.
type horizon struct {
	// told is the latest version that anybody was handed out: what changes
	// later was not in it, whatever version the change has.
	told uint64
	// all is for what concerns every tenant, of for one tenant.
	all uint64
	of  map[string]uint64
}

// versionOf reads a resource version; 0 is for none that can be compared.
func versionOf(s string) uint64 {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// changed is the horizon after a change of this version.
func (h *horizon) changed(meta *metav1.ObjectMeta) uint64 {
	before := versionOf(meta.ResourceVersion)
	if before > 0 {
		before--
	}
	return max(before, h.told)
}

// Told says that definitions were shown to a tenant as of a version.
func (c *Catalog) Told(resourceVersion string) {
	v := versionOf(resourceVersion)
	c.mu.RLock()
	known := c.horizon.told >= v
	c.mu.RUnlock()
	if known {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.horizon.told = max(c.horizon.told, v)
}

// Misses tells whether something may have changed in what a tenant is shown of
// the system's definitions since a version.
func (c *Catalog) Misses(tenant, resourceVersion string) bool {
	v := versionOf(resourceVersion)
	c.mu.RLock()
	defer c.mu.RUnlock()
	return v > 0 && v <= max(c.horizon.all, c.horizon.of[tenant])
}

// Shows tells whether a tenant is shown the definition of the system of this
// name, and not its own, if it has one. That need not serve yet: who makes a
// definition waits for it to be established.
func (c *Catalog) Shows(tenant, name string, own bool) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.system[schema.ParseGroupResource(name)]
	return s != nil && s.crd.Name == name && c.shows(tenant, s, own)
}

func (c *Catalog) shows(tenant string, s *shared, own bool) bool {
	if !s.sharing.Shared || !established(s.crd) || space.IsSystem(tenant) {
		return false
	}
	var policy tenantapi.CRDPolicy
	var labels map[string]string
	if t := c.tenants.Known(tenant); t != nil {
		policy, labels = t.Spec.CRDPolicy, t.Labels
	}
	return Match(policy, Candidates{Local: own, Forced: s.sharing.Forced, Applicable: s.sharing.Covers(tenant, labels)}) == System
}

// Shown are the names of the definitions of the system that a tenant is shown
// if it has none of its own of the name.
func (c *Catalog) Shown(tenant string) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var names []string
	for _, s := range c.system {
		if c.shows(tenant, s, false) {
			names = append(names, s.crd.Name)
		}
	}
	slices.Sort(names)
	return names
}
