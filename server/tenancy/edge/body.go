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

// body is what a request sends. It is read and composed when it is read for the
// first time: by a handler, and so for those only who are authorized, in their
// turn. Its errors are those of the API, which upstream answers with.
type body struct {
	native    io.ReadCloser
	method    string
	mediaType string // the header, as it came
	projector *wire.Projector
	resource  wire.Resource
	// mayGenerate tells that the name may be one that the edge has to make up.
	mayGenerate bool
	// shortPath is where a user of the system writes without naming a space, ""
	// in a space. asked is what is written there.
	shortPath string
	asked     *resourceRequest

	mu       sync.Mutex
	composed io.Reader
	err      error
	// generator makes up names; nil for a body that has one.
	generator *generator
	// warning is what the client is to know of the body, if anything.
	warning string
}

// composeBody has the body composed when it is read. When the API server is to
// make up the name of a cluster-scoped object, the edge does it instead, because
// the tenant has to stand behind it: the answer makes the next attempt.
//
// What a body of a tenant's user says of its space is overruled by the request, so
// that what was exported from one space can be sent to another; users of the
// system have to mean what they say.
func (e *Edge) composeBody(req *http.Request, p *wire.Projector, r *resourceRequest, ofUser string) *body {
	if req.Body == nil || req.Body == http.NoBody || !writes(req.Method) {
		return nil
	}
	b := &body{native: req.Body, method: req.Method, mediaType: req.Header.Get("Content-Type"), projector: p, resource: r.wire()}
	if !space.IsSystem(ofUser) {
		own := *p
		own.Named = b.overruled
		b.projector = &own
	}
	b.mayGenerate = req.Method == http.MethodPost && r.subresource == "" && r.known && !r.kind.Namespaced && !kinds.IsReview(r.group)
	b.standIn(req)
	return b
}

// standIn puts the body in the place of the one that came.
func (b *body) standIn(req *http.Request) {
	req.Body = b
	// How long it will be is not known.
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

// again is the body with another name, if it is one to make up names for.
func (b *body) again() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.generator.next()
}

// generates tells whether there are other names to try.
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
				err = b.elsewhere(tenant)
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

// composer is what composes bodies of a media type.
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

// refusedBody is the answer to a body that cannot be translated.
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

// unsupported is what upstream says of other media types.
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

func setBody(req *http.Request, body []byte) {
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.ContentLength = int64(len(body))
	if req.Header.Get("Content-Length") != "" {
		req.Header.Set("Content-Length", fmt.Sprint(len(body)))
	}
}
