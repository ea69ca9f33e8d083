package kubelets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/spdy"
	nodeutil "k8s.io/kubernetes/pkg/util/node"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/a4s-io/a4s/internal/space"
)

const (
	// protocol is that of kubelets for port-forward.
	protocol = "portforward.k8s.io"
	// connectWithin bounds how long a kubelet may take to begin.
	connectWithin = 10 * time.Second
	// saidWithin is how long after the end of a connection its error may come.
	saidWithin = 100 * time.Millisecond
)

// ErrUnreached is a port of a pod that its node could not connect to.
var ErrUnreached = errors.New("the node of the pod could not connect to it")

// Forwarder connects to ports of pods as kubectl port-forward does, through the
// kubelet. A server that is no node has no other way to the pod network.
type Forwarder struct {
	// Kubelet is the identity of the API server at kubelets, by files.
	Kubelet rest.TLSClientConfig
	// Partition is that of the server, empty for home.
	Partition string
}

// Connect connects to a port of this very pod, whoever has its address by now. asked
// is false if its node cannot be.
func (f *Forwarder) Connect(
	ctx context.Context, node *corev1.Node, pod *corev1.Pod, port string,
) (conn net.Conn, asked bool, err error) {
	at, err := kubeletOf(node)
	if err != nil {
		return nil, false, err
	}
	probe, err := (&net.Dialer{Timeout: connectWithin}).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, false, fmt.Errorf("looking for the kubelet of the pod: %w", err)
	}
	if err := probe.Close(); err != nil {
		return nil, false, fmt.Errorf("looking for the kubelet of the pod: %w", err)
	}
	conn, err = f.through(ctx, at, pod, port)
	return conn, true, err
}

func (f *Forwarder) through(ctx context.Context, at string, pod *corev1.Pod, port string) (net.Conn, error) {
	u := &url.URL{Scheme: "https", Host: at, Path: "/portForward/" + space.QualifyNamespace(f.Partition,
		pod.Namespace) + "/" + pod.Name + "/" + string(pod.UID)}
	began := make(chan begun, 1)
	go func() {
		c, err := f.begin(ctx, u, port)
		began <- begun{c, err}
	}()
	timer := time.NewTimer(connectWithin)
	defer timer.Stop()
	err := context.DeadlineExceeded
	select {
	case b := <-began:
		return b.conn, b.err
	case <-timer.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	go func() { // what comes late is nobody's
		if b := <-began; b.conn != nil {
			_ = b.conn.Close()
		}
	}()
	return nil, fmt.Errorf("asking the kubelet of the pod: %w", err)
}

// kubeletOf is where the kubelet of a node listens, as the API server finds it.
func kubeletOf(node *corev1.Node) (string, error) {
	host, err := nodeutil.GetPreferredNodeAddress(node, []corev1.NodeAddressType{corev1.NodeInternalIP,
		corev1.NodeExternalIP, corev1.NodeHostName})
	if err != nil {
		return "", fmt.Errorf("looking for the kubelet of node %s: %w", node.Name, err)
	}
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port == 0 {
		port = 10250
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), nil
}

type begun struct {
	conn net.Conn
	err  error
}

func (f *Forwarder) begin(ctx context.Context, u *url.URL, port string) (net.Conn, error) {
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{TLSClientConfig: f.Kubelet,
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }})
	if err != nil {
		return nil, fmt.Errorf("preparing to ask a kubelet: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return nil, err
	}
	session, _, err := spdy.NegotiateStreaming(upgrader, &http.Client{Transport: transport}, req, protocol)
	if err != nil {
		return nil, fmt.Errorf("asking the kubelet at %s for a port: %w", u.Host, err)
	}
	headers := http.Header{}
	headers.Set(corev1.PortHeader, port)
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := session.CreateStream(headers)
	if err == nil {
		err = failures.Close() // nothing is sent on it
	}
	var data httpstream.Stream
	if err == nil {
		headers.Set(corev1.StreamType, corev1.StreamTypeData)
		data, err = session.CreateStream(headers)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening a connection at the kubelet at %s: %w", u.Host, err),
			session.Close())
	}
	return newForwarded(session, failures, data), nil
}

// forwarded is a connection that ends at a pod.
type forwarded struct {
	net.Conn // an end of a pipe, which knows deadlines
	session  httpstream.Connection
	close    sync.Once

	said    chan struct{} // closed when failure is known
	failure error
}

func newForwarded(session httpstream.Connection, failures, data httpstream.Stream) *forwarded {
	near, far := net.Pipe()
	f := &forwarded{Conn: near, session: session, said: make(chan struct{})}
	go func() {
		defer close(f.said)
		if text, err := io.ReadAll(io.LimitReader(failures, 1<<10)); err == nil && len(text) > 0 {
			f.failure = fmt.Errorf("%w: %s", ErrUnreached, text)
		}
	}()
	go func() {
		_, _ = io.Copy(far, data) // the reader of the pipe sees the end
		_ = far.Close()
	}()
	go func() {
		_, _ = io.Copy(data, far)
		_ = f.end() // the near end was closed, or the kubelet takes nothing any more
	}()
	return f
}

// Read implements net.Conn. The end of a connection that was never made says why.
func (f *forwarded) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		timer := time.NewTimer(saidWithin)
		defer timer.Stop()
		select {
		case <-f.said:
			if f.failure != nil {
				return n, f.failure
			}
		case <-timer.C:
		}
	}
	return n, err
}

// Close implements net.Conn.
func (f *forwarded) Close() error {
	return errors.Join(f.Conn.Close(), f.end())
}

func (f *forwarded) end() (err error) {
	f.close.Do(func() { err = f.session.Close() })
	return err
}
