package kubelet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// withExternalIPs adds addresses of type ExternalIP to every status that the
// kubelet reports of its node. The kubelet itself has only a cloud provider
// for them, and takes away what anyone else puts there.
func withExternalIPs(rt http.RoundTripper, node string, ips []string) http.RoundTripper {
	if len(ips) == 0 {
		return rt
	}
	return &externalIPs{next: rt, path: "/api/v1/nodes/" + node + "/status", ips: ips}
}

type externalIPs struct {
	next http.RoundTripper
	path string
	ips  []string
}

// RoundTrip implements http.RoundTripper.
func (e *externalIPs) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, e.path) || r.Body == nil {
		return e.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if closeErr := r.Body.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		body, err = e.extend(body)
	}
	if err != nil {
		return nil, fmt.Errorf("adding the external addresses of the node: %w", err)
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return e.next.RoundTrip(r)
}

// WrappedRoundTripper lets closing idle connections find the transport.
func (e *externalIPs) WrappedRoundTripper() http.RoundTripper { return e.next }

// extend adds the addresses to a strategic merge patch. Where the patch has
// addresses, it replaces the whole list; where it has none, ours are merged
// into the list by their type.
func (e *externalIPs) extend(patch []byte) ([]byte, error) {
	var object map[string]any
	if err := json.Unmarshal(patch, &object); err != nil {
		return nil, err
	}
	status, ok := object["status"].(map[string]any)
	if !ok {
		status = map[string]any{}
		object["status"] = status
	}
	addresses, _ := status["addresses"].([]any)
	for _, ip := range e.ips {
		addresses = append(addresses, map[string]any{"type": string(corev1.NodeExternalIP), "address": ip})
	}
	status["addresses"] = addresses
	return json.Marshal(object)
}
