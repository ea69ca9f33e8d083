package partition

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/partition/allocations"
	"github.com/a4s-io/a4s/server/partition/kubelets"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

// resourceClients are of one resource partition.
type resourceClients struct {
	identity    string
	nodes       kubernetes.Interface
	allocations *allocations.Client
	// failed is when a request failed last that was not answered, in nanoseconds.
	failed atomic.Int64
}

// noting takes note of requests that are not answered.
func (c *resourceClients) noting(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(q *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(q)
		if err != nil && !errors.Is(err, context.Canceled) {
			c.failed.Store(time.Now().UnixNano())
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// nodesClient is a client of what there is one of for each node.
func nodesClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of nodes: %w", err)
	}
	return client, nil
}

// client are the clients of a resource partition, the same ones until it is another one;
// nil if they cannot be made.
func (r *Nodes) client(name, identity string) *resourceClients {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.clients[name]; c != nil && c.identity == identity {
		return c
	}
	config := r.parts.peers.Config(name)
	if name == r.of.Self() {
		config = r.of.server.API(r.of.server.PKI.Partition)
		config.QPS = -1
	}
	c := &resourceClients{identity: identity}
	c.failed.Store(time.Now().UnixNano()) // it was not heard of so far
	config = rest.CopyConfig(config)
	config.Wrap(c.noting)
	var err error
	if c.nodes, err = nodesClient(config); err == nil {
		c.allocations, err = allocations.NewClient(config, nil)
	}
	if err != nil {
		r.log.WithError(err).Errorf("cannot make the clients of partition %s", name)
		return nil
	}
	r.clients[name] = c
	return c
}

// silent is when a resource partition did not answer last.
func (r *Nodes) silent(partition string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.clients[partition]; c != nil {
		return time.Unix(0, c.failed.Load())
	}
	return time.Time{}
}

// reached asks the kubelet of a node, and returns an error if it does not answer.
func (r *Nodes) reached(ctx context.Context, node *corev1.Node) error {
	return kubelets.Answers(ctx, r.kubelet, node)
}

// askTimeout bounds how long home may take to say which partition has a node.
const askTimeout = 2 * time.Second

// ask asks home, which has copies of all nodes, which partition has a node.
func (r *Nodes) ask(ctx context.Context, node string) string {
	// With the identity that it is known by, or its clients would be made again for each who asks.
	identity := ""
	if home := r.parts.Partition(partitionapi.Home); home != nil {
		identity = home.Spec.Identity
	}
	c := r.client(partitionapi.Home, identity)
	if c == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	n, err := c.nodes.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "" // there is none, or nobody to ask
	}
	if partition, copied := n.Labels[nodecopies.Label]; copied {
		return partition
	}
	return partitionapi.Home
}
