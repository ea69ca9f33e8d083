package tenancy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// request is what a short path asks for.
type request struct {
	group, version string
	resource, name string // name is native
	namespace      string // native
	subresource    string
	kind           kinds.Kind
	known          bool // kind is filled in
	watch          bool // by the old /watch/ paths or the query
	// namespaceAt and nameAt are the places in the path, 0 when absent.
	segments            []string
	slash               string // the trailing slash, which proxied servers may care for
	namespaceAt, nameAt int
}

// parsePath reads a short path. ok is false for what is not a resource:
// discovery, OpenAPI, health, version.
func parsePath(path string) (r request, ok bool) {
	r.segments = strings.Split(strings.Trim(path, "/"), "/")
	if len(path) > 1 && strings.HasSuffix(path, "/") {
		r.slash = "/"
	}
	s := r.segments
	var i int
	switch {
	case len(s) > 2 && s[0] == "api":
		r.version, i = s[1], 2
	case len(s) > 3 && s[0] == "apis":
		r.group, r.version, i = s[1], s[2], 3
	default:
		return r, false
	}
	if s[i] == "watch" {
		r.watch = true
		i++
	}
	if i >= len(s) {
		return r, false
	}
	// /namespaces/<ns>/<resource>, but not the Namespace's own subresources.
	if s[i] == "namespaces" && i+2 < len(s) && (r.group != "" || (s[i+2] != "status" && s[i+2] != "finalize")) {
		r.namespace, r.namespaceAt = s[i+1], i+1
		i += 2
	}
	r.resource = s[i]
	if i+1 < len(s) {
		r.name, r.nameAt = s[i+1], i+1
	}
	if i+2 < len(s) {
		r.subresource = s[i+2]
	}
	return r, true
}

// composed is the path with composite names.
func (r *request) composed(tenant string, composeName bool) string {
	s := slices.Clone(r.segments)
	if r.namespaceAt > 0 {
		s[r.namespaceAt] = space.Namespace(tenant, r.namespace)
	}
	if r.nameAt > 0 && composeName {
		if r.isNamespace() {
			s[r.nameAt] = space.Namespace(tenant, r.name)
		} else {
			s[r.nameAt] = space.ClusterName(tenant, r.name)
		}
	}
	return "/" + strings.Join(s, "/") + r.slash
}

// isNamespace tells whether the request is about Namespace objects.
func (r *request) isNamespace() bool { return r.group == "" && r.resource == "namespaces" }

// ownName tells whether the name of the request is one of a cluster-scoped
// object of the tenant, and so is composed.
func (r *request) ownName() bool {
	if r.name == "" || r.kind.Namespaced || r.kind.Class != kinds.Tenant || kinds.IsReview(r.group) {
		return false
	}
	return !r.sharedRole()
}

// sharedRole tells whether the request is about one of the ClusterRoles that
// all spaces share.
func (r *request) sharedRole() bool {
	return r.group == rbacGroup && r.resource == "clusterroles" && kinds.SharedClusterRole(r.name)
}

// streams tells the subresources that carry bytes of containers.
func (r *request) streams() bool {
	switch r.subresource {
	case "exec", "attach", "portforward", "proxy", "log":
		return r.group == ""
	}
	return false
}

// describe is the verb of a request, as upstream calls it, and whether it lasts
// as long as the client likes.
func describe(req *http.Request, path string) (verb string, long bool) {
	r, ok := parsePath(path)
	switch {
	case !ok && req.Method == http.MethodGet:
		return "get", false
	case !ok:
		return "other", false
	case r.streams():
		return "connect", true
	}
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		switch {
		case r.watch || (r.name == "" && strings.Contains(req.URL.RawQuery, "watch=") && isTrue(req.URL.Query().Get("watch"))):
			return "watch", true
		case r.name == "":
			return "list", false
		}
		return "get", false
	case http.MethodPost:
		return "create", false
	case http.MethodPut:
		return "update", false
	case http.MethodPatch:
		return "patch", false
	case http.MethodDelete:
		if r.name == "" {
			return "deletecollection", false
		}
		return "delete", false
	}
	return "other", false
}

// writes tells whether the request changes something.
func writes(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return true
}

// wire describes the resource for the translation of bodies.
func (r *request) wire() wire.Resource {
	return wire.Resource{
		Group: r.group, Version: r.version, Resource: r.resource, Kind: r.kind.Kind, Namespaced: r.kind.Namespaced,
		MayBeSystem: r.kind.Class != kinds.Tenant || (r.group == rbacGroup && r.resource == "clusterroles"),
	}
}

const rbacGroup = "rbac.authorization.k8s.io"
