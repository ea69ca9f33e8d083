package crd

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// A tenant sees the CRDs of the system that serve it next to its own
// (server/tenancy/crd/registry). Which these are changes with the CRDs, and with the
// policy and labels of the tenant. The Tenant is another resource, so a watch of CRDs
// from a version cannot know whether it changed since. The horizon knows.

// horizon is the version from which on a watch misses no change.
type horizon struct {
	// returned is the latest version that a client got: a later change was not in
	// it, whatever version the change has.
	returned uint64
	// all is the horizon of every tenant, of that of one tenant.
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
	return max(before, h.returned)
}

// Returned notes that a client got CRDs as of a version.
func (c *Catalog) Returned(resourceVersion string) {
	v := versionOf(resourceVersion)
	c.mu.RLock()
	known := c.horizon.returned >= v
	c.mu.RUnlock()
	if known {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.horizon.returned = max(c.horizon.returned, v)
}

// Misses reports whether the CRDs of the system that a tenant sees may have changed
// since a version.
func (c *Catalog) Misses(tenant, resourceVersion string) bool {
	v := versionOf(resourceVersion)
	c.mu.RLock()
	defer c.mu.RUnlock()
	return v > 0 && v <= max(c.horizon.all, c.horizon.of[tenant])
}

// Shows reports whether a tenant sees the CRD of the system of this name, and not its
// own, if it has one. Its own need not be established yet: a client that creates a
// CRD waits for that.
func (c *served) Shows(tenant, name string, own bool) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.system[schema.ParseGroupResource(name)]
	return s != nil && s.crd.Name == name && c.shows(tenant, s, own)
}

func (c *served) shows(tenant string, s *shared, own bool) bool {
	if !s.sharing.Shared || !established(s.crd) || space.IsSystem(tenant) {
		return false
	}
	var policy tenantapi.CRDPolicy
	var labels map[string]string
	if t := c.tenants.Known(tenant); t != nil {
		policy, labels = t.Spec.CRDPolicy, t.Labels
	}
	return Match(policy,
		Candidates{Local: own, Forced: s.sharing.Forced, Applicable: s.sharing.Covers(tenant, labels)}) == System
}

// Shown are the names of the CRDs of the system that a tenant sees if it has no CRD of
// the name itself.
func (c *served) Shown(tenant string) []string {
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
