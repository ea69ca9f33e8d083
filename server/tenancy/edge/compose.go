package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/edge/proxied"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// compose is the step that makes a request one of upstream's. Comes in: a request in native
// names, and its space. Goes out: one that is marked with the space, acts as a user of it, has
// composite names in its path, and asks for an answer that can be projected; or why there is no
// such request.
func (e *Edge) compose(req *http.Request, asked *request) (*http.Request, error) {
	tenant := asked.space
	req = cloneForSpace(req, tenant)
	if !space.IsSystem(asked.ofTenant) {
		if err := authn.RewriteImpersonation(req.Header, asked.ofTenant); err != nil {
			return nil, apierrors.NewForbidden(schema.GroupResource{}, "", err)
		}
	} else if err := authn.RewriteImpersonation(req.Header, tenant); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	r := asked.resource
	if r == nil {
		setPath(req, asked.path)
		return req, nil
	}
	if r.namespace == "." || r.namespace == ".." || r.name == "." || r.name == ".." {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the path %s has a segment that is not a name", asked.path))
	}
	if err := e.refuseInSpace(req, asked); err != nil {
		return nil, err
	}
	if r.proxies() {
		req = req.WithContext(proxied.With(req.Context(), r.proxyRoot(asked.sent)))
	}
	setPath(req, r.composed(tenant, r.ownName() && tenant != space.System))
	return req, nil
}

// refuseInSpace refuses what a tenant's space does not have, and what is not for it to change.
func (e *Edge) refuseInSpace(req *http.Request, asked *request) error {
	r := asked.resource
	switch {
	case asked.space == space.System:
	case !e.inSpaces(r):
		return apierrors.NewGenericServerResponse(http.StatusNotFound, req.Method, r.groupResource(), "", "", 0, false)
	case r.sharedRole() && writes(req.Method):
		return apierrors.NewForbidden(r.groupResource(), r.name, errors.New("the default roles are the same in all "+
			"spaces and are changed by the administrators of the cluster"))
	case r.apiObject() && writes(req.Method) && !r.streams:
		return apierrors.NewForbidden(r.groupResource(), r.name,
			errors.New("it is where the API is found, which is the same in all spaces and kept by the cluster"))
	}
	return nil
}

// unserved replaces media types that cannot be projected: the API server answers it as
// any unknown media type.
const unserved = "application/x-unserved"

// cloneForSpace prepares a request that will be changed: it is marked with the
// space, and asks for answers that can be projected.
func cloneForSpace(req *http.Request, tenant string) *http.Request {
	out := withoutEncoding(req.WithContext(space.WithTenant(req.Context(), tenant)))
	if accept := out.Header.Get("Accept"); strings.Contains(strings.ToLower(accept), "cbor") {
		parts := strings.Split(accept, ",")
		for i, part := range parts {
			if strings.Contains(strings.ToLower(part), "cbor") {
				parts[i] = unserved
			}
		}
		out.Header.Set("Accept", strings.Join(parts, ","))
	}
	return out
}

// withoutEncoding makes the API server answer uncompressed; the edge compresses after
// projecting.
func withoutEncoding(req *http.Request) *http.Request {
	out := req.WithContext(context.WithValue(req.Context(), encodingKey{}, req.Header.Get("Accept-Encoding")))
	out.Header = req.Header.Clone()
	out.Header.Set("Accept-Encoding", "identity")
	return out
}

// inSpaces reports whether tenants have a resource at all. They do not have custom
// resources whose CRD is not shared, nor resources of aggregated API servers without
// a namespace, such as the nodes of custom metrics: nothing tells whose these are.
// Built-in resources of the system are refused later, with a reason.
func (e *Edge) inSpaces(r *resourceRequest) bool {
	if _, builtIn := e.kinds.Resource(r.group, r.resource); builtIn {
		return true
	}
	if r.known {
		return r.kind.Class != kinds.System
	}
	return r.namespaceAt > 0
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

// ownName reports whether the request names a cluster-scoped object of the tenant.
// Such names are composed.
func (r *resourceRequest) ownName() bool {
	if r.name == "" || r.kind.Namespaced || r.kind.Class != kinds.Tenant || kinds.IsReview(r.group) {
		return false
	}
	return !r.sharedRole()
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

// proxies reports whether a proxied server answers.
func (r *resourceRequest) proxies() bool { return r.subresource == "proxy" && r.group == "" }

// proxyRoot is the part of the path as the client sent it before the path of the
// proxied server.
func (r *resourceRequest) proxyRoot(asked string) string {
	behind := strings.Join(r.segments[r.nameAt+2:], "/")
	return path.Clean(strings.TrimSuffix(strings.TrimRight(asked, "/"), behind))
}

// setPath gives a request, which is ours to change, another path.
func setPath(req *http.Request, path string) {
	if req.URL.Path == path {
		return
	}
	u := *req.URL
	u.Path, u.RawPath = path, ""
	req.URL = &u
	req.RequestURI = u.RequestURI()
}

// composeQuery is the step that rewrites the selectors of a list, watch or delete. Comes in: a
// composed request with selectors in native names. Goes out: the same with composite ones.
func composeQuery(req *http.Request, p *wire.Projector, r *resourceRequest) error {
	if req.URL.RawQuery == "" || !r.selects {
		return nil
	}
	q := req.URL.Query()
	changed := false
	for key, translate := range map[string]func(wire.Resource, string) (string, error){
		"fieldSelector": p.FieldSelector,
		"labelSelector": p.LabelSelector,
	} {
		s := q.Get(key)
		if s == "" {
			continue
		}
		composed, err := translate(r.wire, s)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if composed != s {
			q.Set(key, composed)
			changed = true
		}
	}
	if changed {
		setQuery(req, q)
	}
	return nil
}

func setQuery(req *http.Request, q url.Values) {
	u := *req.URL
	u.RawQuery = q.Encode()
	req.URL = &u
	req.RequestURI = u.RequestURI()
}
