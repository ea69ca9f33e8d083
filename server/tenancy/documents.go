package tenancy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

const (
	openAPI2Proto = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	openAPI3Proto = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	// maxDocuments bounds what is remembered of filtered documents.
	maxDocuments = 256
)

// serveDocument serves what is not about objects: discovery and OpenAPI are
// filtered, the rest (version, health) is the same for all.
func (e *Edge) serveDocument(w http.ResponseWriter, req *http.Request, next http.Handler, p *wire.Projector, tenant string) error {
	path := strings.TrimSuffix(req.URL.Path, "/")
	document := path == "/api" || path == "/apis" || strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/") || strings.HasPrefix(path, "/openapi/")
	if !document || tenant == space.System || req.Method != http.MethodGet {
		return serveAnswer(w, req, next, p, &request{subresource: "log"}, nil)
	}
	asProto := ""
	filter := func(b []byte) ([]byte, error) { return e.filterDiscovery(tenant, b) }
	switch {
	case path == "/openapi/v3":
		filter = func(b []byte) ([]byte, error) { return e.filterOpenAPIIndex(tenant, b, prefixOf(req)) }
	case strings.HasPrefix(path, "/openapi/"):
		filter = func(b []byte) ([]byte, error) { return e.filterOpenAPI(tenant, b) }
		if strings.Contains(req.Header.Get("Accept"), "proto-openapi") {
			asProto = openAPI2Proto
			if strings.HasPrefix(path, "/openapi/v3") {
				asProto = openAPI3Proto
			}
		}
	}
	match := req.Header.Get("If-None-Match")
	req.Header.Del("If-None-Match")
	req.Header.Set("Accept", onlyJSON(req.Header.Get("Accept")))
	captured := &capture{header: http.Header{}}
	next.ServeHTTP(captured, req)
	if captured.code >= http.StatusMultipleChoices && captured.code < http.StatusBadRequest && captured.header.Get("Location") != "" {
		captured.header.Set("Location", prefixOf(req)+captured.header.Get("Location"))
	}
	maps.Copy(w.Header(), captured.header)
	if captured.code != http.StatusOK {
		a := newAnswer(w, p, wire.Resource{}, object)
		a.WriteHeader(captured.code)
		a.Write(captured.body.Bytes()) //nolint:errcheck // finish reports it
		return a.finish()
	}
	key := asProto + path + prefixOf(req)
	if e.opts.Customs != nil {
		key += fmt.Sprintf(" %d", e.opts.Customs.Generation(tenant))
	}
	body, err := e.documents.filtered(captured.body.Bytes(), key, func(b []byte) ([]byte, error) {
		b, err := filter(b)
		if err != nil || asProto == "" {
			return b, err
		}
		return toProto(asProto, b)
	})
	if err != nil {
		return err
	}
	if asProto != "" {
		w.Header().Set("Content-Type", asProto)
	}
	sum := sha256.Sum256(body)
	etag := `"` + strings.ToUpper(hex.EncodeToString(sum[:])) + `"`
	w.Header().Set("Etag", etag)
	if match == etag {
		w.Header().Del("Content-Length")
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	w.Write(body) //nolint:errcheck // the client is gone
	return nil
}

// toProto encodes a filtered OpenAPI document for clients that ask for it.
func toProto(media string, body []byte) ([]byte, error) {
	if media == openAPI2Proto {
		doc, err := openapi_v2.ParseDocument(body)
		if err != nil {
			return nil, fmt.Errorf("encoding OpenAPI v2: %w", err)
		}
		return proto.Marshal(doc)
	}
	doc, err := openapi_v3.ParseDocument(body)
	if err != nil {
		return nil, fmt.Errorf("encoding OpenAPI v3: %w", err)
	}
	return proto.Marshal(doc)
}

// onlyJSON leaves the JSON forms of an Accept header.
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

// documents remembers filtered documents by the content they were made of:
// they are large and the same for many tenants.
type documents struct {
	mu    sync.Mutex
	known map[string][]byte
}

func (d *documents) filtered(body []byte, key string, filter func([]byte) ([]byte, error)) ([]byte, error) {
	sum := sha256.Sum256(body)
	key += "\x00" + string(sum[:])
	d.mu.Lock()
	out, ok := d.known[key]
	d.mu.Unlock()
	if ok {
		return out, nil
	}
	out, err := filter(body)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxDocuments {
		d.known = map[string][]byte{}
	}
	d.known[key] = out
	return out, nil
}

// capture keeps an answer.
type capture struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (c *capture) Header() http.Header { return c.header }

// WriteHeader implements http.ResponseWriter.
func (c *capture) WriteHeader(code int) {
	if c.code == 0 {
		c.code = code
	}
}

// Write implements http.ResponseWriter.
func (c *capture) Write(b []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	return c.body.Write(b)
}

type prefixKey struct{}

// prefixOf is the /tenants/<t> that the request came with, or "".
func prefixOf(req *http.Request) string {
	prefix, _ := req.Context().Value(prefixKey{}).(string)
	return prefix
}
