package source

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/kubernetes/scheme"
)

// serializer is that of a media type.
func serializer(contentType string) (runtime.SerializerInfo, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return runtime.SerializerInfo{}, fmt.Errorf("content type %q: %w", contentType, err)
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok || info.StreamSerializer == nil {
		return info, fmt.Errorf("the server answered in %q", mediaType)
	}
	return info, nil
}

// accepted is what the client of a request wants to be answered in.
func accepted(r *http.Request) (runtime.SerializerInfo, error) {
	if strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		return serializer(runtime.ContentTypeProtobuf)
	}
	return serializer(runtime.ContentTypeJSON)
}

// answer is a response that no server gave.
func answer(r *http.Request, code int, obj runtime.Object) (*http.Response, error) {
	info, err := accepted(r)
	if err != nil {
		return nil, err
	}
	if r.Body != nil {
		_ = r.Body.Close() // a transport has to; nothing was read that could be lost
	}
	var body bytes.Buffer
	if err := info.Serializer.Encode(obj, &body); err != nil {
		return nil, err
	}
	return response(r, code, info.MediaType, io.NopCloser(&body), int64(body.Len())), nil
}

func response(r *http.Request, code int, contentType string, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": []string{contentType}},
		Body:   body, ContentLength: length, Request: r,
	}
}

// refuse answers with a metav1.Status.
func refuse(r *http.Request, code int32, reason metav1.StatusReason, message string) (*http.Response, error) {
	s := failure(code, reason, message)
	return answer(r, int(code), &s)
}

func failure(code int32, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}
}

// eventWriter writes the events of a watch.
type eventWriter struct {
	info runtime.SerializerInfo
	out  streaming.Encoder
}

func newEventWriter(info runtime.SerializerInfo, w io.Writer) *eventWriter {
	stream := info.StreamSerializer
	return &eventWriter{info: info, out: streaming.NewEncoder(stream.NewFrameWriter(w), stream.Serializer)}
}

// object writes an event about obj, which has its kind set.
func (w *eventWriter) object(kind string, obj runtime.Object) error {
	var raw bytes.Buffer
	if err := w.info.Serializer.Encode(obj, &raw); err != nil {
		return err
	}
	return w.out.Encode(&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw.Bytes()}})
}

// raw passes an event on.
func (w *eventWriter) raw(event *metav1.WatchEvent) error { return w.out.Encode(event) }
