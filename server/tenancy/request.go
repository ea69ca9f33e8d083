package tenancy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/authn"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// maxBody is upstream's own limit for bodies.
const maxBody = 3 * 1024 * 1024

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
	generate, err := e.composeBody(req, p, &r)
	if err != nil {
		return err
	}
	return serveAnswer(w, req, next, p, &r, generate)
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
	if err != nil || tenant == "" {
		// What is malformed is for the API server to refuse.
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

// tenantInBody is metadata.tenant of a JSON or YAML document.
func tenantInBody(body []byte) (string, error) {
	if !bytes.Contains(body, []byte("tenant")) {
		return "", nil
	}
	var doc struct {
		Metadata struct {
			Tenant string `json:"tenant"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(body, &doc); err != nil {
		return "", err
	}
	return doc.Metadata.Tenant, nil
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

// composeBody rewrites the body. When the API server is to make up the name of
// a cluster-scoped object, the edge does it instead, because the tenant has to
// stand behind it: the answer makes the next attempt.
func (e *Edge) composeBody(req *http.Request, p *wire.Projector, r *request) (*generator, error) {
	if req.Body == nil || req.Body == http.NoBody || !writes(req.Method) {
		return nil, nil
	}
	body, err := readBody(req)
	if err != nil || len(body) == 0 {
		return nil, err
	}
	media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil && req.Header.Get("Content-Type") != "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the content type %q cannot be read", req.Header.Get("Content-Type")))
	}
	var g *generator
	if req.Method == http.MethodPost && r.subresource == "" && r.known && !r.kind.Namespaced && !kinds.IsReview(r.group) {
		g = newGenerator(media, body)
	}
	compose, err := composer(req.Method, media, p, r.wire())
	if err != nil {
		return nil, err
	}
	if g != nil {
		g.compose = compose
		body, err = g.next()
	} else {
		body, err = compose(body)
	}
	if err != nil {
		return nil, err
	}
	setBody(req, body)
	return g, nil
}

// composer is what composes bodies of a media type.
func composer(method, media string, p *wire.Projector, r wire.Resource) (func([]byte) ([]byte, error), error) {
	var translate func([]byte) ([]byte, error)
	switch {
	case method == http.MethodPatch:
		translate = func(b []byte) ([]byte, error) { return p.Patch(media, r, b) }
	case media == protobuf:
		translate = func(b []byte) ([]byte, error) { return p.Proto(wire.In, r, b) }
	case media == "application/yaml":
		translate = func(b []byte) ([]byte, error) { return p.YAML(wire.In, r, b) }
	case media == "application/json" || media == "":
		translate = func(b []byte) ([]byte, error) { return p.JSON(wire.In, r, b) }
	default:
		return nil, unsupported(media)
	}
	return func(b []byte) ([]byte, error) {
		out, err := translate(b)
		if errors.Is(err, wire.ErrTenant) {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized: %v", err))
		}
		return out, nil
	}, nil
}

func unsupported(media string) error {
	return &apierrors.StatusError{ErrStatus: status(http.StatusUnsupportedMediaType, "UnsupportedMediaType",
		fmt.Sprintf("the body of the request was in an unknown format (%s): accepted media types in a tenant's space are application/json, application/yaml, application/vnd.kubernetes.protobuf", media))}
}

// readBody reads the whole body and puts it back.
func readBody(req *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("reading the body: %v", err))
	}
	if len(body) > maxBody {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	setBody(req, body)
	return body, nil
}

func setBody(req *http.Request, body []byte) {
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.ContentLength = int64(len(body))
	if req.Header.Get("Content-Length") != "" {
		req.Header.Set("Content-Length", fmt.Sprint(len(body)))
	}
}

func (r *request) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.group, Resource: r.resource}
}
