package origin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Workloads decide on the types of pods; nil leaves them as they are.
	Workloads *Workloads
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
	p := t.projector(r, resource)
	if resource != "pod" && listOptions(r).Watch {
		body, err := newWatchBody(r.Context(), resp.Body, info, p)
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
	if body, err = projectBytes(r.Context(), body, info.Serializer, p); err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	if resp.Header.Get("Content-Length") != "" {
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return nil
}

// projector returns the one for the answer to r.
func (t *transport) projector(r *http.Request, resource string) projector {
	switch resource {
	case "services":
		return filterServices{}
	case "pod":
		return pods{native: t.options.projector()}
	}
	w := t.options.Workloads
	// The kubelet's own view has every namespace; a watch has everything in
	// the beginning if it is asked to.
	o := listOptions(r)
	all := !strings.Contains(r.URL.Path, "/namespaces/") && (!o.Watch || o.SendInitialEvents != nil && *o.SendInitialEvents) && o.Continue == "" && o.Limit == 0
	if w != nil && all && o.Watch {
		w.begin()
	}
	return pods{native: t.options.projector(), workloads: w, all: all}
}

// projectBytes decodes one object, projects it and encodes it again; data that
// nothing was changed in is returned as it is.
func projectBytes(ctx context.Context, data []byte, codec runtime.Serializer, p projector) ([]byte, error) {
	obj, _, err := codec.Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	changed, err := p.project(ctx, obj)
	if err != nil || !changed {
		return data, err
	}
	var out bytes.Buffer
	if err := codec.Encode(obj, &out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// readResource returns "pods", "pod" or "services" if r reads such objects that
// may have to be changed.
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
	case parts[0] == "pods" && len(parts) == 1:
		return "pods"
	case parts[0] == "pods" && len(parts) == 2:
		return "pod"
	case parts[0] == "services" && len(parts) == 1:
		return "services"
	}
	return ""
}

// listOptions are those that the server reads. What it cannot read it refuses.
func listOptions(r *http.Request) metav1.ListOptions {
	var o metav1.ListOptions
	query := r.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &o, nil); err != nil {
		return metav1.ListOptions{}
	}
	return o
}
