package edge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/discovery"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

const (
	// maxDocuments bounds the bytes of cached documents, the large ones
	// compressed.
	maxDocuments = 32 << 20
	// maxViews bounds the bytes of cached views, and maxTags those of the ETags
	// of upstream's documents.
	maxViews, maxTags = 4 << 20, 64 << 10
)

// discoveryServer answers requests for discovery and OpenAPI.
type discoveryServer struct{ discoveryViews }

// discoveryCache caches discovery and OpenAPI documents: they are large, and the
// same for spaces with the same view.
type discoveryCache struct {
	// groups are the built-in groups, and whether tenants have any of their
	// resources.
	groups    map[string]bool
	documents lruCache[*discoveryDocument]
	views     lruCache[*discoveryView]
	tags      lruCache[string]
	builds    builds

	mu    sync.Mutex
	index *index
}

func newDiscoveryCache() *discoveryCache {
	c := &discoveryCache{groups: map[string]bool{}}
	c.documents.max, c.views.max, c.tags.max = maxDocuments, maxViews, maxTags
	for _, k := range kinds.Rows() {
		c.groups[k.Group] = kinds.Shows(k.Group)
	}
	return c
}

// discoveryDocument is a discovery or OpenAPI document as it is sent.
type discoveryDocument struct {
	exists bool // false for a group or version that the space does not have
	media  string
	etag   string
	body   []byte
	zipped bool
	tag    string // the ETag of upstream's document
}

// documentRequest is a request for a discovery or OpenAPI document.
type documentRequest struct {
	path, accept, proto, prefix string
	// version is the group version that an OpenAPI document is about.
	version schema.GroupVersion
	// hash is the version that the client asks for, query the rest of the query.
	hash, query string
}

// documentOf reads a non-resource request on a short path, which the client asked
// for below prefix; it is nil if the request is about something else.
func documentOf(req *http.Request, path, prefix string) *documentRequest {
	d := &documentRequest{
		path: strings.TrimSuffix(path, "/"), query: req.URL.RawQuery,
		accept: onlyJSON(req.Header.Get("Accept")), prefix: prefix,
	}
	var proto string
	switch {
	case d.path == "":
		d.path, d.accept = "/", onlyJSON("")
	case d.path == "/api", d.path == "/apis", strings.HasPrefix(d.path, "/api/"), strings.HasPrefix(d.path, "/apis/"):
	case d.path == "/openapi/v3":
		d.accept = onlyJSON("")
	case strings.HasPrefix(d.path, "/openapi/v3/"):
		proto, d.accept = openAPI3Proto, onlyJSON("")
		if q := req.URL.Query(); q.Has("hash") {
			d.hash = q.Get("hash")
			q.Del("hash")
			d.query = q.Encode()
		}
		if gv, ok := strings.CutPrefix(d.path, "/openapi/v3/apis/"); ok {
			d.version.Group, d.version.Version, _ = strings.Cut(gv, "/")
		}
	case strings.HasPrefix(d.path, "/openapi/"):
		proto, d.accept = openAPI2Proto, onlyJSON("")
	default:
		return nil
	}
	if strings.Contains(req.Header.Get("Accept"), "proto-openapi") {
		d.proto = proto
	}
	return d
}

// reads reports whether a request reads the document.
func reads(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodHead
}

// serveNonResource serves non-resource requests in a space: discovery and OpenAPI
// are those of the space, the rest (version, health) is the same for all.
func (e *discoveryServer) serveNonResource(
	w http.ResponseWriter, req *http.Request, next http.Handler, p *wire.Projector, asked *request,
) error {
	tenant := asked.space
	if asked.document != nil && tenant == space.System && asked.document.openAPI() && reads(req) {
		return e.serveSystemOpenAPI(w, req, next, *asked.document)
	}
	if asked.document == nil || tenant == space.System {
		return handOn(w, req, next, p, &resourceRequest{subresource: "log", streams: true}, nil)
	}
	d := *asked.document
	relay := func(c *capture) error {
		a := newAnswer(w, p, wire.Resource{}, object)
		c.sendTo(a, d.prefix)
		return a.finish()
	}
	if !reads(req) {
		if refusal := refusedTo(req, next, d); refusal != nil {
			return relay(refusal)
		}
		// Upstream answers some with the document, whatever the method.
		return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, req.Method,
			schema.GroupResource{}, "", "", 0, false)
	}
	// No CRD is served below /api.
	idx := &index{}
	view := lists(idx)
	nodes, err := false, error(nil)
	if tenant != space.All {
		if nodes, err = e.mayReadNodes(req.Context(), tenant); err != nil {
			return err
		}
		view = &discoveryView{index: idx}
		view.showNodes(nodes)
	}
	if !strings.HasPrefix(d.path, "/api/") && d.path != "/api" {
		var other *capture
		if idx, other, err = e.index(req, next); err != nil || other != nil {
			if err != nil {
				return err
			}
			return relay(other)
		}
		if tenant == space.All {
			view = lists(idx)
		} else if view, err = e.viewOf(tenant, nodes, idx); err != nil {
			return err
		}
	}
	return e.answerDocument(w, req, next, tenant, view, d, relay)
}

// serveCompositeDiscovery serves the controllers of the cluster, such as the garbage
// collector, one discovery of all spaces, in which they find the resources of
// tenants. done is false for a request that upstream has to answer.
func (e *discoveryServer) serveCompositeDiscovery(
	w http.ResponseWriter, req *http.Request, next http.Handler, asked *request,
) (done bool, err error) {
	path := asked.path
	if writes(req.Method) || e.crds == nil ||
		path != "/apis" && !strings.HasPrefix(path, "/apis/") || strings.Count(path, "/") > 4 {
		return false, nil
	}
	if asked.document == nil || !reads(req) {
		return false, nil
	}
	view, err := e.viewOf(space.All, false, nil)
	if err != nil {
		return true, err
	}
	return true, e.answerDocument(w, withoutEncoding(req), next, space.All, view, *asked.document,
		func(c *capture) error {
			c.sendTo(w, "")
			return nil
		})
}

// serveSystemOpenAPI serves the OpenAPI documents of the system: upstream's, with the
// field metadata.tenant.
func (e *discoveryServer) serveSystemOpenAPI(
	w http.ResponseWriter, req *http.Request, next http.Handler, d documentRequest,
) error {
	view := &discoveryView{index: &index{}, unfiltered: true, fingerprint: space.System}
	return e.answerDocument(w, withoutEncoding(req), next, space.System, view, d, func(c *capture) error {
		c.sendTo(w, d.prefix)
		return nil
	})
}

// openAPI reports whether the document is one of OpenAPI.
func (d documentRequest) openAPI() bool { return strings.HasPrefix(d.path, "/openapi/") }

// answerDocument answers with the document of a space, or relays upstream's answer
// if that is not a document.
func (e *discoveryServer) answerDocument(
	w http.ResponseWriter, req *http.Request, next http.Handler, tenant string, view *discoveryView, d documentRequest,
	relay func(*capture) error,
) error {
	if refusal := refusedTo(req, next, d); refusal != nil {
		return relay(refusal)
	}
	c := e.discoveryCache
	seen := d.path + "\x00" + d.accept
	tag, _ := c.tags.get(seen)
	answer := ask(req, next, d.path, d.query, d.accept, tag)
	var m *discoveryDocument
	if answer.code == http.StatusNotModified {
		if m, _ = c.documents.get(d.key(view, tag)); m == nil {
			answer = ask(req, next, d.path, d.query, d.accept, "")
		}
	}
	if m == nil {
		alone := answer.code == http.StatusNotFound && len(view.versions) > 0
		if answer.code != http.StatusOK && !alone {
			return relay(answer)
		}
		tag = answer.header.Get("Etag")
		if tag != "" && !alone {
			c.tags.put(seen, tag, len(tag))
		}
		var err error
		if m, err = e.produce(req.Context(), tenant, view, d, answer); err != nil {
			return err
		}
		if !m.exists && alone {
			return relay(answer)
		}
	}
	maps.Copy(w.Header(), answer.header)
	for _, name := range []string{"Content-Length", "Content-Type", "Last-Modified", "Accept-Ranges",
		"Etag", "Warning"} {
		w.Header().Del(name)
	}
	if !m.exists {
		d.notFound(w)
		return nil
	}
	w.Header().Del("X-Content-Type-Options")
	if d.hash != "" {
		if now := view.hash(d.version, strings.Trim(m.tag, `"`)); now != d.hash {
			http.Redirect(w, req, d.prefix+d.path+"?"+hashQuery(now), http.StatusMovedPermanently)
			return nil
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	return m.send(w, req)
}

// notFound answers as upstream does for unknown groups.
func (d documentRequest) notFound(w http.ResponseWriter) {
	w.Header().Del("Vary")
	w.Header().Set("Cache-Control", "no-cache, private")
	if strings.HasPrefix(d.path, "/openapi/") {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotFound)
	io.WriteString(w, "404 page not found\n") //nolint:errcheck // the client is gone
}

// key is the cache key of the document of a space that was built from upstream's.
func (d documentRequest) key(view *discoveryView, tag string) string {
	prefix := ""
	if d.path == "/openapi/v3" {
		prefix = d.prefix
	}
	return strings.Join([]string{d.path, d.accept, d.proto, prefix, view.fingerprint, tag}, "\x00")
}

// produce builds the document of a space from upstream's answer, unless it is cached.
func (e *discoveryServer) produce(
	ctx context.Context, tenant string, view *discoveryView, d documentRequest, answer *capture,
) (*discoveryDocument, error) {
	c := e.discoveryCache
	body, tag := answer.body.Bytes(), answer.header.Get("Etag")
	if answer.code == http.StatusNotFound {
		body, tag = nil, "none"
	} else if tag == "" {
		sum := sha256.Sum256(body)
		tag = hex.EncodeToString(sum[:])
	}
	key := d.key(view, tag)
	if m, ok := c.documents.get(key); ok {
		return m, nil
	}
	return c.builds.do(ctx, key, func() (*discoveryDocument, bool, error) {
		if m, ok := c.documents.get(key); ok {
			return m, true, nil // another request has built it in between
		}
		m, same, err := e.build(tenant, view, d, answer, body)
		same = err == nil && same && (m.exists || answer.code == http.StatusOK)
		if same {
			c.documents.put(key, m, len(m.body)+256)
		}
		return m, same, err
	})
}

// build builds it. Same reports whether it is as the view has it: the CRDs of the space can
// have changed since.
func (e *discoveryServer) build(
	tenant string, view *discoveryView, d documentRequest, answer *capture, body []byte,
) (m *discoveryDocument, same bool, err error) {
	same = true
	var set discovery.Set
	if len(view.versions) > 0 {
		set, same = e.ownCRDs(tenant, view)
	}
	if body, err = e.transform(view, set, d, body); err != nil {
		return nil, false, err
	}
	m = &discoveryDocument{exists: body != nil, media: "application/json", tag: answer.header.Get("Etag")}
	if media := answer.header.Get("Content-Type"); media != "" && answer.code == http.StatusOK {
		m.media = media
	}
	if m.exists && d.proto != "" {
		m.media = d.proto
		if body, err = toProto(d.proto, body); err != nil {
			return nil, false, err
		}
	}
	if err := m.setBody(body); err != nil {
		return nil, false, err
	}
	return m, same, nil
}

// transform builds a document of upstream's; body is nil if upstream has none.
func (e *discoveryServer) transform(
	view *discoveryView, own discovery.Set, d documentRequest, body []byte,
) ([]byte, error) {
	switch {
	case d.path == "/":
		return e.rootPaths(view, own, body)
	case d.path == "/openapi/v3":
		return e.openAPIIndex(view, d.prefix, body)
	}
	if !d.openAPI() {
		return e.discovery(view, own, d.path, body)
	}
	models, err := []string{"definitions"}, error(nil)
	v3 := strings.HasPrefix(d.path, "/openapi/v3/")
	if v3 {
		models = []string{"components", "schemas"}
	}
	switch {
	case view.unfiltered:
	case v3:
		body, err = e.openAPI3(view, own, d.version, body)
	default:
		body, err = e.openAPI2(view, own, body)
	}
	if err != nil {
		return nil, err
	}
	return declareTenant(body, models...)
}

// setBody sets the body, compressed if it is large.
func (m *discoveryDocument) setBody(body []byte) error {
	sum := sha256.Sum256(body)
	m.etag = `"` + strings.ToUpper(hex.EncodeToString(sum[:])) + `"`
	m.body = body
	if len(body) <= gzipFrom {
		return nil
	}
	var zipped bytes.Buffer
	z := gzips.Get().(*gzip.Writer)
	defer gzips.Put(z)
	z.Reset(&zipped)
	_, err := z.Write(body)
	if err == nil {
		err = z.Close()
	}
	z.Reset(io.Discard)
	if err != nil {
		return fmt.Errorf("compressing a document: %w", err)
	}
	m.body, m.zipped = bytes.Clone(zipped.Bytes()), true
	return nil
}

// send answers with a document.
func (m *discoveryDocument) send(w http.ResponseWriter, req *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", m.media)
	h.Set("Etag", m.etag)
	if m.zipped {
		h.Add("Vary", "Accept-Encoding")
	}
	if req.Header.Get("If-None-Match") == m.etag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := m.body
	switch {
	case m.zipped && acceptsGzip(req):
		h.Set("Content-Encoding", "gzip")
	case m.zipped:
		z, err := gzip.NewReader(bytes.NewReader(m.body))
		if err == nil {
			body, err = io.ReadAll(z)
		}
		if err != nil {
			return fmt.Errorf("reading a document: %w", err)
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if req.Method != http.MethodHead {
		w.Write(body) //nolint:errcheck // the client is gone
	}
	return nil
}

// onlyJSON keeps the JSON media types of an Accept header.
func onlyJSON(accept string) string {
	kept := []string{}
	for _, part := range strings.Split(accept, ",") {
		if strings.HasPrefix(strings.TrimSpace(part), "application/json") {
			kept = append(kept, part)
		}
	}
	if len(kept) == 0 {
		return "application/json"
	}
	return strings.Join(kept, ",")
}
