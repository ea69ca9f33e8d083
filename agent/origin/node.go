package origin

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/agent/origin/codec"
)

// registeredVersion is the resource version of the node that the kubelet asked to
// create: later than that of no node.
const registeredVersion = "2"

// register takes note of the node that the kubelet asks the server to create. Until
// there is a server it is the node that the kubelet sees, if no server ever said one:
// without its node a kubelet does not look for pods.
func (b *Bootstrap) register(r *Request) error {
	if b.isOnline() || r.HTTP.Body == nil {
		return nil
	}
	body, err := codec.ReadAll(r.HTTP.Body)
	if err != nil {
		return fmt.Errorf("reading the node of the kubelet: %w", err)
	}
	r.SetBody(body)
	info, err := codec.Serializer(r.ContentType)
	if err != nil {
		return nil //nolint:nilerr // the server says so
	}
	obj, _, err := info.Serializer.Decode(body, nil, nil)
	if node, ok := obj.(*corev1.Node); ok && err == nil {
		b.checkpoint.register(node)
	}
	return nil // what else it is the server says
}

func (c *checkpoint) register(node *corev1.Node) {
	node.ResourceVersion = registeredVersion
	c.mu.Lock()
	first := c.node == nil
	c.node = node
	c.mu.Unlock()
	if first {
		close(c.registering)
	}
}

// withRegistered adds the node that the kubelet wants to the nodes, if there are none,
// and returns the version of the list.
func (c *checkpoint) withRegistered(res *resource, objs []runtime.Object, version string) ([]runtime.Object, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if res != c.resources[nodeResource] || len(objs) > 0 || c.node == nil {
		return objs, version
	}
	return []runtime.Object{c.node.DeepCopy()}, registeredVersion
}

// lacksNode returns the channel that ends a watch that was begun without the node of
// the kubelet, nil for others.
func (c *checkpoint) lacksNode(res *resource, version string) <-chan struct{} {
	if res != c.resources[nodeResource] || version == registeredVersion {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(res.items) > 0 {
		return nil
	}
	return c.registering
}
