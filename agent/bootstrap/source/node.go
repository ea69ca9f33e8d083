package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const nodesPath = "/api/v1/nodes"

// registeredVersion is the resource version of the node that the kubelet asked to be
// made: later than that of no node.
const registeredVersion = "2"

// register takes note of the node that the kubelet asks the server to make. Until
// there is a server it is the node that the kubelet sees, if no server ever said one:
// without its node a kubelet does not look for pods.
func (s *Source) register(r *http.Request) (*http.Request, error) {
	if s.isOnline() || r.Body == nil {
		return r, nil
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading the node of the kubelet: %w", err)
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	info, err := serializer(r.Header.Get("Content-Type"))
	if err != nil {
		return r, nil //nolint:nilerr // the server says so
	}
	obj, _, err := info.Serializer.Decode(body, nil, nil)
	node, ok := obj.(*corev1.Node)
	if err != nil || !ok {
		return r, nil //nolint:nilerr // the server says so
	}
	node.ResourceVersion = registeredVersion
	s.mu.Lock()
	first := s.node == nil
	s.node = node
	s.mu.Unlock()
	if first {
		close(s.registering)
	}
	return r, nil
}

// withRegistered adds the node that the kubelet wants to what is known of nodes, if
// that is nothing, and returns the version of both.
func (s *Source) withRegistered(res *resource, objs []runtime.Object, version string) ([]runtime.Object, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if res != s.resources[nodesPath] || len(objs) > 0 || s.node == nil {
		return objs, version
	}
	return []runtime.Object{s.node.DeepCopy()}, registeredVersion
}

// lacksNode returns what ends a watch that was begun without the node of the kubelet,
// nil for others.
func (s *Source) lacksNode(res *resource, version string) <-chan struct{} {
	if res != s.resources[nodesPath] || version == registeredVersion {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(res.items) > 0 {
		return nil
	}
	return s.registering
}
