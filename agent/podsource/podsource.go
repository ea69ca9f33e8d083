package podsource

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/internal/space"
)

// Options are the kubelet's own settings of name resolution.
type Options struct {
	// ClusterDNS are the addresses of the cluster's name server.
	ClusterDNS []string
	// ClusterDomain is the DNS domain of the cluster.
	ClusterDomain string
	// ResolvConf is the resolver file that pods inherit search domains from;
	// empty means none.
	ResolvConf string
}

// Wrap returns a transport that shows the pods and Services in answers of next
// as described in the documentation of the package.
func Wrap(next http.RoundTripper, o Options) http.RoundTripper {
	return &transport{next: next, options: o}
}

type transport struct {
	next    http.RoundTripper
	options Options
}

// WrappedRoundTripper lets closing idle connections find the transport.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resource := readResource(r)
	resp, err := t.next.RoundTrip(r)
	if err != nil || resource == "" || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	if err := t.project(r, resp, resource); err != nil {
		_ = resp.Body.Close() // the error that counts is the other one
		return nil, fmt.Errorf("reading %s for the kubelet: %w", resource, err)
	}
	return resp, nil
}

// project replaces the body of resp.
func (t *transport) project(r *http.Request, resp *http.Response, resource string) error {
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("content type %q: %w", resp.Header.Get("Content-Type"), err)
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		return fmt.Errorf("the server answered in %q", mediaType)
	}
	var p projector = filterServices{}
	if resource == "pods" {
		p = t.options.projector()
	}
	if isWatch(r) {
		body, err := newWatchBody(resp.Body, info, p)
		if err != nil {
			return err
		}
		resp.Body = body
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if closeErr := resp.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if body, err = projectBytes(body, info.Serializer, p); err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	if resp.Header.Get("Content-Length") != "" {
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return nil
}

// projectBytes decodes one object, projects it and encodes it again; data that
// nothing was changed in is returned as it is.
func projectBytes(data []byte, codec runtime.Serializer, p projector) ([]byte, error) {
	obj, _, err := codec.Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	if !p.project(obj) {
		return data, nil
	}
	var out bytes.Buffer
	if err := codec.Encode(obj, &out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// readResource returns "pods" or "services" if r reads such objects that may
// have to be changed.
func readResource(r *http.Request) string {
	if r.Method != http.MethodGet {
		return ""
	}
	_, path, ok := strings.Cut(r.URL.Path, "/api/v1/")
	if !ok {
		return ""
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "namespaces" && len(parts) >= 3 {
		if tenant, _ := space.SplitNamespace(parts[1]); space.IsSystem(tenant) {
			return ""
		}
		parts = parts[2:]
	}
	switch {
	case parts[0] == "pods" && len(parts) <= 2:
		return "pods"
	case parts[0] == "services" && len(parts) == 1:
		return "services"
	}
	return ""
}

func isWatch(r *http.Request) bool {
	w := r.URL.Query().Get("watch")
	return w == "true" || w == "1"
}
