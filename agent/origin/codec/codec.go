package codec

import (
	"bytes"
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

// Serializer is that of a content type.
func Serializer(contentType string) (runtime.SerializerInfo, error) {
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

// Encode encodes an object, whose kind is set.
func Encode(info runtime.SerializerInfo, obj runtime.Object) ([]byte, error) {
	var out bytes.Buffer
	err := info.Serializer.Encode(obj, &out)
	return out.Bytes(), err
}

// SetBody gives an answer another body.
func SetBody(resp *http.Response, body []byte) {
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if resp.Header.Get("Content-Length") != "" {
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
}

// Change decodes the object in an answer, and encodes it again if f has changed it.
func Change(resp *http.Response, f func(obj runtime.Object) (changed bool, err error)) error {
	info, err := Serializer(resp.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	body, err := ReadAll(resp.Body)
	if err != nil {
		return err
	}
	obj, _, err := info.Serializer.Decode(body, nil, nil)
	if err != nil {
		return err
	}
	changed, err := f(obj)
	if err == nil && changed {
		body, err = Encode(info, obj)
	}
	if err == nil {
		SetBody(resp, body)
	}
	return err
}

// ReadAll reads and closes a body, which may be nil.
func ReadAll(body io.ReadCloser) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	return data, nil
}

// Failure is an answer that says what is wrong.
func Failure(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}
}

// Response is an answer to r with a body that is yet to be set.
func Response(r *http.Request, code int, contentType string) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:  http.Header{"Content-Type": []string{contentType}},
		Request: r, ContentLength: -1,
	}
}

// Answer answers r with an object in the format that the client accepts.
func Answer(r *http.Request, accept string, code int, obj runtime.Object) (*http.Response, error) {
	info, err := Serializer(accept)
	if err != nil {
		return nil, err
	}
	body, err := Encode(info, obj)
	if err != nil {
		return nil, err
	}
	resp := Response(r, code, info.MediaType)
	SetBody(resp, body)
	return resp, nil
}

// Refuse answers r with what is wrong. It closes the body of r, as a transport has
// to.
func Refuse(
	r *http.Request, accept string, code int32, reason metav1.StatusReason, message string,
) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close() // nothing was read that could be lost
	}
	resp, err := Answer(r, accept, int(code), Failure(code, reason, message))
	if err == nil {
		resp.Header.Set("Cache-Control", "no-cache, private") // as every answer of an API server
	}
	return resp, err
}
