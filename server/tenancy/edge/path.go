package edge

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	endpoints "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// resourceRequest is what a request for a resource asks for, by its short path.
type resourceRequest struct {
	group, version string
	resource, name string // name is native
	namespace      string // native
	subresource    string
	kind           kinds.Kind
	known          bool   // kind is filled in
	builtIn        bool   // the resource is not a custom one
	verb           string // as upstream calls it
	// namespaceAt and nameAt are the places in the path, 0 when absent.
	segments            []string
	slash               string // the trailing slash, which proxied servers may care for
	namespaceAt, nameAt int
}

// requests reads requests as the API server behind the edge does, which takes
// these prefixes for those of APIs.
var requests = endpoints.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// parsePath is parse for a path of an OpenAPI document, which is no request.
func parsePath(path string) (r resourceRequest, ok bool) {
	return parse(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
}

// parse reads a request on a short path. Upstream's own code decides what the parts
// of the path are and what the query means: an edge that took a watch for a list
// would show events of one space to another. ok is false for non-resource requests:
// discovery, OpenAPI, health, version.
func parse(req *http.Request) (r resourceRequest, ok bool) {
	r.segments = strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if len(req.URL.Path) > 1 && strings.HasSuffix(req.URL.Path, "/") {
		r.slash = "/"
	}
	info, err := requestInfo(req)
	if err != nil || !info.IsResourceRequest {
		return r, false
	}
	r.group, r.version, r.verb = info.APIGroup, info.APIVersion, info.Verb
	// Before the resource are the prefix, the group, the version, a special verb,
	// and the namespace with its word.
	at := len(r.segments) - len(info.Parts)
	before := 3
	if requests.GrouplessAPIPrefixes.Has(info.APIPrefix) {
		before = 2
	}
	if at >= before+2 {
		r.namespace, r.namespaceAt = r.segments[at-1], at-1
	}
	r.resource, r.subresource = info.Resource, info.Subresource
	if len(info.Parts) > 1 {
		// Not info.Name, which may come from a field selector.
		r.name, r.nameAt = info.Parts[1], at+1
	}
	return r, true
}

// requestInfo is what upstream makes of a request. It reads the selectors of a list, which
// takes ten milliseconds for a query of half a megabyte: what boundQuery refuses is told by
// its path alone.
func requestInfo(req *http.Request) (*endpoints.RequestInfo, error) {
	if len(req.URL.RawQuery) > longestQuery {
		path := *req.URL
		path.RawQuery = ""
		bare := *req
		bare.URL = &path
		info, err := requests.NewRequestInfo(&bare)
		if err != nil || selects(info.Verb) {
			return info, err
		}
	}
	return requests.NewRequestInfo(req)
}

// composed is the path with composite names.
func (r *resourceRequest) composed(tenant string, composeName bool) string {
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

// isNamespace reports whether the request is about Namespace objects.
func (r *resourceRequest) isNamespace() bool { return r.group == "" && r.resource == "namespaces" }

// ownName reports whether the request names a cluster-scoped object of the tenant.
// Such names are composed.
func (r *resourceRequest) ownName() bool {
	if r.name == "" || r.kind.Namespaced || r.kind.Class != kinds.Tenant || kinds.IsReview(r.group) {
		return false
	}
	return !r.sharedRole()
}

// sharedRole reports whether the request is about one of the ClusterRoles that
// all spaces share.
func (r *resourceRequest) sharedRole() bool {
	return r.group == rbacGroup && r.resource == "clusterroles" && kinds.SharedClusterRole(r.name)
}

// apiObject reports whether the request is about the Service or the endpoints of the
// API server, which all spaces show.
func (r *resourceRequest) apiObject() bool {
	return kinds.OfAPI(r.group, r.resource) && r.namespace == metav1.NamespaceDefault && r.name == kinds.APIObject
}

// streams reports whether the subresource carries bytes of containers.
func (r *resourceRequest) streams() bool {
	switch r.subresource {
	case "exec", "attach", "portforward", "proxy", "log":
		return r.group == ""
	}
	return false
}

// proxies reports whether a proxied server answers.
func (r *resourceRequest) proxies() bool { return r.subresource == "proxy" && r.group == "" }

// proxyRoot is the part of the path as the client sent it before the path of the
// proxied server.
func (r *resourceRequest) proxyRoot(asked string) string {
	behind := strings.Join(r.segments[r.nameAt+2:], "/")
	return path.Clean(strings.TrimSuffix(strings.TrimRight(asked, "/"), behind))
}

// watches reports whether the answer is a stream of events.
func (r *resourceRequest) watches() bool { return r.verb == "watch" }

// selects reports whether upstream reads selectors of the query.
func (r *resourceRequest) selects() bool { return selects(r.verb) }

func selects(verb string) bool {
	switch verb {
	case "list", "watch", "deletecollection":
		return true
	}
	return false
}

// describe is the verb of a request for limits and metrics, and whether it lasts as
// long as the client likes. asked is nil for a non-resource request.
func describe(method string, asked *resourceRequest) (verb string, long bool) {
	switch {
	case asked == nil && method == http.MethodGet:
		return "get", false
	case asked == nil:
		return "other", false
	case asked.streams():
		return "connect", true
	}
	switch asked.verb {
	case "get", "list", "create", "update", "patch", "delete", "deletecollection":
		return asked.verb, false
	case "watch":
		return asked.verb, true
	}
	return "other", false
}

// writes reports whether a method changes objects.
func writes(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return true
}

// wire describes the resource for the translation of bodies.
func (r *resourceRequest) wire() wire.Resource {
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
