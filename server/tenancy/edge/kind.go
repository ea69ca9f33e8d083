package edge

import (
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// projection is how each space sees objects.
type projection struct {
	kinds *kinds.Table
	table *wire.Table
	crds  CustomResources
}

// findKind is the step that looks up what the resource is. Comes in: a request with its space.
// Goes out: the kind that the resource has there. The view of the whole cluster has the resources
// of the system, but for tables: they show the objects of all spaces.
func (e *Edge) findKind(r *request) {
	if r.resource == nil || r.kindFound {
		return
	}
	of := r.space
	switch {
	case of == "" && r.table && !r.confined:
		of = space.All
	case of == "":
		of = space.System
	}
	e.find(of, r.resource)
	r.kindFound = true
}

// Projector translates for one tenant.
func (e *projection) Projector(tenant string) *wire.Projector {
	return &wire.Projector{View: e.view(tenant), Table: e.table}
}

// view is how tenant sees the cluster.
func (e *projection) view(tenant string) *wire.View {
	return &wire.View{
		Tenant:            tenant,
		ClusterScoped:     func(group, kind string) bool { return e.clusterScoped(tenant, group, kind) },
		GroupOf:           func(kind string) (string, bool) { return e.groupOf(tenant, kind) },
		SharedClusterRole: kinds.SharedClusterRole,
	}
}

// clusterScoped reports whether the names of a kind are composed.
func (e *projection) clusterScoped(tenant, group, kind string) bool {
	if kinds.IsReview(group) {
		return false
	}
	k, ok := e.kinds.Kind(group, kind)
	if !ok && e.crds != nil {
		k, ok = e.crds.Kind(tenant, group, kind)
	}
	return ok && !k.Namespaced && k.Class == kinds.Tenant
}

// groupOf finds the group of a kind by its name alone.
func (e *projection) groupOf(tenant, kind string) (string, bool) {
	group, ok := e.kinds.GroupOf(kind)
	if !ok && e.crds != nil {
		group, ok = e.crds.GroupOf(tenant, kind)
	}
	return group, ok
}

// find fills in what kind a request is about, as a tenant has it.
func (e *projection) find(tenant string, r *resourceRequest) {
	k, ok := e.kinds.Resource(r.group, r.resource)
	r.builtIn = ok
	if !ok && e.crds != nil {
		k, ok = e.crds.Resource(tenant, r.group, r.resource)
	}
	if r.known = ok; !ok {
		// It does not exist, or its CRD is being established. Whether the path has a
		// namespace decides how it is treated.
		k = kinds.Kind{Group: r.group, Resource: r.resource, Namespaced: r.namespaceAt > 0}
	}
	r.kind = k
	r.wire = r.described()
}

// described is the resource for the translation of bodies.
func (r *resourceRequest) described() wire.Resource {
	return wire.Resource{
		Group: r.group, Version: r.version, Resource: r.resource, Kind: r.kind.Kind, Namespaced: r.kind.Namespaced,
		Of:          r.namespace,
		Merges:      r.builtIn,
		MayBeSystem: r.kind.Class != kinds.Tenant || r.showsSystem(),
	}
}

// showsSystem reports whether tenants see objects of the system of this resource,
// too: default roles, and CRDs that serve them.
func (r *resourceRequest) showsSystem() bool {
	switch r.group {
	case rbacGroup:
		return r.resource == "clusterroles"
	case "apiextensions.k8s.io":
		return r.resource == "customresourcedefinitions"
	}
	return false
}

const rbacGroup = "rbac.authorization.k8s.io"
