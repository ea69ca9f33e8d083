package origin

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/agent/origin/wire"
)

// changeBytes decodes one object, changes it and encodes it again. Data in which
// nothing was changed is returned as it is.
func changeBytes(ctx context.Context, data []byte, codec runtime.Serializer, c chain) ([]byte, error) {
	obj, _, err := codec.Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	changed, err := c.object(ctx, obj)
	if err != nil || !changed {
		return data, err
	}
	var out bytes.Buffer
	if err := codec.Encode(obj, &out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// changeBody is changeBytes for the body of resp.
func changeBody(ctx context.Context, resp *http.Response, codec runtime.Serializer, c chain) error {
	body, err := wire.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if body, err = changeBytes(ctx, body, codec, c); err != nil {
		return err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if resp.Header.Get("Content-Length") != "" {
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return nil
}

// setBody gives the request another body. The caller's request stays as it is.
func (p *Request) setBody(body []byte) {
	p.HTTP = p.HTTP.Clone(p.HTTP.Context())
	p.HTTP.Body = io.NopCloser(bytes.NewReader(body))
	p.HTTP.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
}

// answer is what this node answers in place of a server.
type answer struct {
	code   int
	object runtime.Object
	watch  *localWatch // nil: the answer is object
}

func found(obj runtime.Object) *answer { return &answer{code: http.StatusOK, object: obj} }

// refusal answers with a metav1.Status.
func refusal(code int32, reason metav1.StatusReason, message string) *answer {
	return &answer{code: int(code), object: wire.Failure(code, reason, message)}
}

// response encodes the answer to r after the changes.
func (a *answer) response(r *Request, c chain) (*http.Response, error) {
	info, err := wire.Serializer(r.Accept)
	if err != nil {
		return nil, err
	}
	if r.HTTP.Body != nil {
		_ = r.HTTP.Body.Close() // a transport has to; nothing was read that could be lost
	}
	resp := wire.Response(r.HTTP, a.code, info.MediaType)
	ctx := r.HTTP.Context()
	if a.watch != nil {
		resp.Header.Set("Content-Type", info.MediaType+";stream=watch")
		resp.Body, err = newWatchBody(ctx, watchOptions{info: info, ofNode: c, local: a.watch})
		return resp, err
	}
	if _, err := c.object(ctx, a.object); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := info.Serializer.Encode(a.object, &body); err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(&body), int64(body.Len())
	return resp, nil
}
