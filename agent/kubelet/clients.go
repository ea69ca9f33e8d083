package kubelet

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
)

// clients are the kubelet's three clients of the API: one for everything, and two that must
// not wait behind it.
type clients struct {
	kube      kubernetes.Interface
	heartbeat kubernetes.Interface
	events    corev1client.EventsGetter
	// closeIdle drops idle connections, so that a heartbeat that failed is
	// repeated on a new one.
	closeIdle func()
}

// newClients makes them. wrap makes the transport of all but heartbeats, direct that of
// heartbeats.
func newClients(server *options.KubeletServer, to *Connection, wrap, direct transport.WrapperFunc) (*clients, error) {
	config := &rest.Config{Host: to.Server, Transport: to.Transport}
	config.QPS = float32(server.KubeAPIQPS)
	config.Burst = int(server.KubeAPIBurst)
	if server.ContentType != "" {
		config.ContentType = server.ContentType
	}
	if server.ContentType == runtime.ContentTypeProtobuf {
		config.AcceptContentTypes = strings.Join([]string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON}, ",")
	}
	rest.AddUserAgent(config, "kubelet")
	pool := &connections{}
	config.Wrap(pool.remember) // what it sees holds the connections
	heartbeat := rest.CopyConfig(config)
	config.Wrap(wrap)
	heartbeat.Wrap(direct)

	c := &clients{closeIdle: pool.closeIdle}
	var err error
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("API client: %w", err)
	}
	events := rest.CopyConfig(config)
	events.QPS = float32(server.EventRecordQPS)
	events.Burst = int(server.EventBurst)
	if c.events, err = corev1client.NewForConfig(events); err != nil {
		return nil, fmt.Errorf("client for events: %w", err)
	}
	heartbeat.QPS = -1 // never throttled
	// A heartbeat that takes longer is one that failed.
	heartbeat.Timeout = min(server.NodeStatusUpdateFrequency.Duration,
		time.Duration(server.NodeLeaseDurationSeconds)*time.Second)
	if c.heartbeat, err = kubernetes.NewForConfig(heartbeat); err != nil {
		return nil, fmt.Errorf("client for heartbeats: %w", err)
	}
	return c, nil
}

// connections collects the transports that hold the clients' connections.
type connections struct {
	mu         sync.Mutex
	transports []http.RoundTripper
}

func (c *connections) remember(rt http.RoundTripper) http.RoundTripper {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.transports = append(c.transports, rt)
	return rt
}

func (c *connections) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rt := range c.transports {
		utilnet.CloseIdleConnectionsFor(rt)
	}
}
