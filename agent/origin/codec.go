package origin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// serializer is that of a content type.
func serializer(contentType string) (runtime.SerializerInfo, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return runtime.SerializerInfo{}, fmt.Errorf("content type %q: %w", contentType, err)
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		return info, fmt.Errorf("the server answered in %q", mediaType)
	}
	return info, nil
}

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
	body, err := readAll(resp.Body)
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

// readAll reads and closes a body, which may be nil.
func readAll(body io.ReadCloser) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	return data, nil
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
	return &answer{code: int(code), object: failure(code, reason, message)}
}

func failure(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}
}

// response encodes the answer to r after the changes.
func (a *answer) response(r *Request, c chain) (*http.Response, error) {
	info, err := serializer(r.Accept)
	if err != nil {
		return nil, err
	}
	if r.HTTP.Body != nil {
		_ = r.HTTP.Body.Close() // a transport has to; nothing was read that could be lost
	}
	resp := &http.Response{
		Status: fmt.Sprintf("%d %s", a.code, http.StatusText(a.code)), StatusCode: a.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:  http.Header{"Content-Type": []string{info.MediaType}},
		Request: r.HTTP, ContentLength: -1,
	}
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
