package tenancy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/authn"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// serveSpace serves a request that is addressed to one space, natively.
func (e *Edge) serveSpace(w http.ResponseWriter, req *http.Request, next http.Handler, tenant, ofUser string) error {
	req = cloneForSpace(req, tenant)
	p := e.Projector(tenant)
	if !space.IsSystem(ofUser) {
		if err := authn.RewriteImpersonation(req.Header, ofUser); err != nil {
			return apierrors.NewForbidden(schema.GroupResource{}, "", err)
		}
	} else if err := authn.RewriteImpersonation(req.Header, tenant); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	r, ok := parsePath(req.URL.Path)
	if !ok {
		return e.serveDocument(w, req, next, p, tenant)
	}
	if r.namespace == "." || r.namespace == ".." || r.name == "." || r.name == ".." {
		return apierrors.NewBadRequest(fmt.Sprintf("the path %s has a segment that is not a name", req.URL.Path))
	}
	e.find(tenant, &r)
	if tenant != space.System && !e.inSpaces(&r) {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, req.Method, r.groupResource(), "", "", 0, false)
	}
	if writes(req.Method) && r.sharedRole() && tenant != space.System {
		return apierrors.NewForbidden(r.groupResource(), r.name, errors.New("the default roles are the same in all spaces and are changed by the administrators of the cluster"))
	}
	composeName := r.ownName() && tenant != space.System
	req = withPath(req, r.composed(tenant, composeName))
	if r.streams() {
		return serveAnswer(w, req, next, p, &r, nil)
	}
	if req.URL.RawQuery != "" {
		if err := e.composeQuery(req, p, &r); err != nil {
			return err
		}
	}
	if r.watch && req.Header.Get("Upgrade") != "" {
		return apierrors.NewBadRequest("watching over WebSocket is not possible in the space of a tenant, watch over HTTP")
	}
	return serveAnswer(w, req, next, p, &r, e.composeBody(req, p, &r))
}

// inSpaces tells whether tenants have a resource at all. Not there for them are
// custom resources whose definition is not shared, and what is neither built in
// nor defined, such as the nodes of an API of custom metrics: without a namespace nobody
// could tell whose it is. What is built in and the system's is refused with a
// reason later.
func (e *Edge) inSpaces(r *request) bool {
	if _, builtIn := e.kinds.Resource(r.group, r.resource); builtIn {
		return true
	}
	if r.known {
		return r.kind.Class != kinds.System
	}
	return r.namespaceAt > 0
}

// serveAll serves tenants/all: list and watch of every space, each object as
// its own tenant sees it.
func (e *Edge) serveAll(w http.ResponseWriter, req *http.Request, next http.Handler, path string) error {
	req = withPath(req, path)
	r, ok := parsePath(path)
	if !ok || req.Method != http.MethodGet || r.name != "" || r.namespace != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("tenants/%s can be listed and watched across namespaces, nothing else: address one tenant", space.All))
	}
	e.find(space.All, &r)
	req = withoutEncoding(req)
	r.watch = r.watch || isTrue(req.URL.Query().Get("watch"))
	p := e.Projector(space.All)
	return serveAnswer(w, req, next, p, &r, nil)
}

// serveSystem serves a system user on a short path: untouched, unless a body
// names a tenant, which then is addressed.
func (e *Edge) serveSystem(w http.ResponseWriter, req *http.Request, next http.Handler) error {
	// For everybody else the discovery is upstream's: nothing of it is a
	// tenant's.
	if authn.IsController(authn.Authenticated(req.Context())) {
		if done, err := e.serveComposite(w, req, next); done {
			return err
		}
	}
	if req.Body == nil || !writes(req.Method) || req.Method == http.MethodDelete || !mentionsTenant(req) {
		next.ServeHTTP(w, req)
		return nil
	}
	if _, ok := parsePath(req.URL.Path); !ok {
		next.ServeHTTP(w, req)
		return nil
	}
	body, err := readBody(req)
	if err != nil {
		return err
	}
	tenant, err := tenantInBody(body)
	if err != nil {
		return refusedBody(err)
	}
	if tenant == "" {
		next.ServeHTTP(w, req)
		return nil
	}
	if tenant != space.System {
		if err := e.mustExist(req.Context(), tenant); err != nil {
			return err
		}
	}
	return e.serveSpace(w, req, next, tenant, space.System)
}

// mentionsTenant tells whether the body is of a form that can have the field
// metadata.tenant: protobuf has no such field, and is what the components of
// the cluster send.
func mentionsTenant(req *http.Request) bool {
	switch media, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type")); media {
	case protobuf, "application/json-patch+json":
		return false
	}
	return true
}

// tenantInBody is metadata.tenant of a JSON or YAML document, "" for one that
// cannot be read: to refuse that is for the API server.
func tenantInBody(body []byte) (string, error) {
	if !bytes.Contains(body, []byte("tenant")) {
		return "", nil
	}
	if !json.Valid(body) {
		var err error
		if body, err = wire.FromYAML(body); errors.Is(err, wire.ErrTooLarge) {
			return "", err
		} else if err != nil {
			return "", nil
		}
	}
	return wire.Tell(body).Tenant, nil
}

// cloneForSpace prepares a request that will be changed: it is marked with the
// space, and asks for answers that can be projected.
func cloneForSpace(req *http.Request, tenant string) *http.Request {
	out := withoutEncoding(req.WithContext(space.WithTenant(req.Context(), tenant)))
	if accept := out.Header.Get("Accept"); strings.Contains(accept, "cbor") {
		kept := []string{}
		for _, part := range strings.Split(accept, ",") {
			if !strings.Contains(part, "cbor") {
				kept = append(kept, part)
			}
		}
		out.Header.Set("Accept", strings.Join(kept, ","))
	}
	return out
}

// withoutEncoding has the API server answer uncompressed; the edge compresses
// what it has projected.
func withoutEncoding(req *http.Request) *http.Request {
	out := req.WithContext(context.WithValue(req.Context(), encodingKey{}, req.Header.Get("Accept-Encoding")))
	out.Header = req.Header.Clone()
	out.Header.Set("Accept-Encoding", "identity")
	return out
}

// composeQuery rewrites the selectors of a list, watch or delete.
func (e *Edge) composeQuery(req *http.Request, p *wire.Projector, r *request) error {
	q := req.URL.Query()
	r.watch = r.watch || isTrue(q.Get("watch"))
	changed := false
	for key, translate := range map[string]func(wire.Resource, string) (string, error){
		"fieldSelector": p.FieldSelector,
		"labelSelector": p.LabelSelector,
	} {
		s := q.Get(key)
		if s == "" {
			continue
		}
		composed, err := translate(r.wire(), s)
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

func isTrue(s string) bool { return s == "true" || s == "1" }

func (r *request) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.group, Resource: r.resource}
}
