package edge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

const (
	protobuf = "application/vnd.kubernetes.protobuf"
	inYAML   = "application/yaml"
	inJSON   = "application/json"
)

// maxBody is upstream's own limit for bodies.
const maxBody = 3 * 1024 * 1024

// body is the body of a request. It is composed when a handler first reads it, and so
// only for authorized requests. Its errors are API errors, which upstream answers
// with.
type body struct {
	native    io.ReadCloser
	method    string
	mediaType string // the header, as it came
	projector *wire.Projector
	resource  wire.Resource
	// mayGenerate is set if the edge may have to generate the name.
	mayGenerate bool
	// shortPath is the path of a system user's write that names no space, "" for a
	// write in a space. asked is the resource of that path.
	shortPath string
	asked     *resourceRequest

	mu       sync.Mutex
	composed io.Reader
	err      error
	// generator generates names; nil for a body that has a name.
	generator *generator
	// warning is a warning for the client about the body, or "".
	warning string
}

// composeBody is the step that has the body composed when it is read. Comes in: a request with a
// body in native names. Goes out: what will be the body, nil for none. If the API server would
// generate the name of a cluster-scoped object, the edge does so instead, because the tenant
// follows the random characters; if the name is taken, the answer tries another.
//
// The space of the request overrides the space that the body names, so that objects
// exported from one space can be created in another.
func composeBody(req *http.Request, p *wire.Projector, r *resourceRequest) *body {
	if req.Body == nil || req.Body == http.NoBody || !writes(req.Method) {
		return nil
	}
	own := *p
	b := &body{native: req.Body, method: req.Method, mediaType: req.Header.Get("Content-Type"),
		projector: &own, resource: r.wire}
	own.Named = b.ignoreTenant
	b.mayGenerate = req.Method == http.MethodPost && r.subresource == "" && r.known && !r.kind.Namespaced &&
		!kinds.IsReview(r.group)
	b.replaceBody(req)
	return b
}

// replaceBody makes b the body of a request.
func (b *body) replaceBody(req *http.Request) {
	req.Body = b
	// The length is known only after composing.
	req.ContentLength = -1
	req.Header.Del("Content-Length")
}

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.composed == nil && b.err == nil {
		out, err := b.compose()
		b.composed, b.err = bytes.NewReader(out), err
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.composed.Read(into)
}

// Close implements io.Closer.
func (b *body) Close() error { return b.native.Close() }

// again is the body with another generated name.
func (b *body) again() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.generator.next()
}

// generates reports whether another name can be generated.
func (b *body) generates() bool {
	if b == nil || !b.mayGenerate {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.generator != nil
}

func (b *body) compose() ([]byte, error) {
	native, err := readAll(b.native)
	if err != nil || len(native) == 0 {
		return nil, err
	}
	media, _, err := mime.ParseMediaType(b.mediaType)
	if b.shortPath != "" {
		if tenant, err := tenantIn(media, native); tenant != space.System {
			if tenant != "" {
				err = b.refuseTenant(tenant)
			}
			return native, err
		}
	}
	if err != nil && b.mediaType != "" {
		return nil, unsupported()
	}
	if media == inYAML && b.method != http.MethodPatch {
		if native, err = wire.FromYAML(native); err != nil {
			return nil, refusedBody(err)
		}
		// JSON is YAML, whose reader is asked for keys that come twice.
		media, b.resource.Merges = inJSON, false
	}
	compose, err := composer(b.method, media, b.projector, b.resource)
	if err != nil {
		return nil, err
	}
	if b.mayGenerate {
		if b.generator = newGenerator(media, native); b.generator != nil {
			b.generator.compose = compose
			return b.generator.next()
		}
	}
	return compose(native)
}

// composer returns the function that composes bodies of a media type.
func composer(method, media string, p *wire.Projector, r wire.Resource) (func([]byte) ([]byte, error), error) {
	var translate func([]byte) ([]byte, error)
	switch {
	case method == http.MethodPatch:
		translate = func(b []byte) ([]byte, error) { return p.Patch(media, r, b) }
	case media == protobuf:
		translate = func(b []byte) ([]byte, error) { return p.Proto(wire.In, r, b) }
	case media == inJSON || media == "":
		translate = func(b []byte) ([]byte, error) {
			if err := wire.Limit(b); err != nil {
				return nil, err
			}
			return p.JSON(wire.In, r, b)
		}
	default:
		return nil, unsupported()
	}
	return func(b []byte) ([]byte, error) {
		out, err := translate(b)
		return out, refusedBody(err)
	}, nil
}

// refusedBody is the API error for a body that cannot be translated.
func refusedBody(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, wire.ErrTenant):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, wire.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized: %v", err))
}

// unsupported is upstream's error for other media types.
func unsupported() error {
	return negotiation.NewUnsupportedMediaTypeError([]string{inJSON, inYAML, protobuf})
}

func readAll(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("reading the body: %v", err))
	}
	if len(body) > maxBody {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	return body, nil
}

// received is the body of a request that has a seat, which others have while it is awaited.
type received struct {
	io.ReadCloser
	seat *fairqueue.Seat
}

// Read implements io.Reader. What is read to its end is decoded then.
func (r received) Read(b []byte) (int, error) {
	r.seat.BeginWait()
	n, err := r.ReadCloser.Read(b)
	r.seat.EndWait()
	if err != nil {
		r.seat.Need()
	}
	return n, err
}

// writes reports whether a method changes objects.
func writes(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return true
}

func setBody(req *http.Request, body []byte) {
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.ContentLength = int64(len(body))
	if req.Header.Get("Content-Length") != "" {
		req.Header.Set("Content-Length", fmt.Sprint(len(body)))
	}
}
