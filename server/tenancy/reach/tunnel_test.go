package reach

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var errTried = errors.New("tried")

// tunnel remembers what it was asked for.
type tunnel struct {
	to   []string
	down bool
}

func (u *tunnel) Connect(
	_ context.Context, node *corev1.Node, pod *corev1.Pod, port string,
) (net.Conn, bool, error) {
	u.to = append(u.to, node.Name+" "+pod.Namespace+"/"+pod.Name+":"+port)
	return nil, !u.down, errTried
}

// TestTunnel: a server that is no node reaches pods through theirs, and nothing that
// it would not reach otherwise.
func TestTunnel(t *testing.T) {
	onNode := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeName = name }
	}
	made := func(second int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(second, 0) }
	}
	r := newRules(t, nil)
	for _, p := range []*corev1.Pod{
		pod("default.t1/web", "10.42.0.5", onNode("n"), made(1)),
		pod("default.t1/next", "10.42.0.5", onNode("n"), made(2)),
		pod("default.t1/ended", "10.42.0.5", onNode("n"), made(3), phase(corev1.PodSucceeded)),
		pod("default.t2/web", "10.42.0.6", onNode("n")), pod("default.t1/done", "10.42.0.6", onNode("n"),
			phase(corev1.PodSucceeded)),
		pod("default.t1/astray", "10.42.0.20", onNode("unknown")), pod("default.t1/unbound", "10.42.0.21"),
	} {
		if err := r.pods.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	hook := func(d Dial) Dial { return r.Dialer("t1", d) }
	proxy := func(Dial) Dial { return r.PodDialer("t1") }
	system := func(Dial) Dial { return r.Dial }
	for _, c := range []struct {
		what, address string
		dial          func(inner Dial) Dial
		tunnel        string // what it is asked for
		inner         string // what is dialled by the network
		refused       bool
	}{
		{"a webhook in an own pod", "10.42.0.5", hook, "n default.t1/next:8443", "", false},
		{"a proxy to an own pod", "10.42.0.5", proxy, "n default.t1/next:8443", "", false},
		{"a webhook in an own pod, mapped", "::ffff:10.42.0.5", hook, "n default.t1/next:8443", "", false},
		{"a webhook in another's pod", "10.42.0.6", hook, "", "", true},
		{"a proxy to another's pod", "10.42.0.6", proxy, "", "", true},
		{"what two claim", "10.42.0.9", hook, "", "", true},
		{"a webhook at a node", "203.0.113.8", hook, "", "", true},
		{"a webhook outside", "198.51.100.1", hook, "", "198.51.100.1:8443", false},
		{"a pod whose node is not known", "10.42.0.20", hook, "", "10.42.0.20:8443", false},
		{"a pod without a node", "10.42.0.21", hook, "", "10.42.0.21:8443", false},
		{"the system to a pod of a tenant", "10.42.0.6", system, "n default.t2/web:8443", "", false},
	} {
		u, dialled := &tunnel{}, ""
		r.tunnel = u
		_, err := c.dial(func(_ context.Context, _, address string) (net.Conn, error) {
			dialled = address
			return nil, errTried
		})(t.Context(), "tcp", net.JoinHostPort(c.address, "8443"))
		if err == nil || strings.Join(u.to, " ") != c.tunnel || dialled != c.inner ||
			errors.Is(err, ErrRefused) != c.refused || errors.Is(err, errTried) != (c.tunnel+c.inner != "") {
			t.Errorf("%s: the tunnel leads to %q, the network to %q, %v", c.what, u.to, dialled, err)
		}
	}
	u, dialled := &tunnel{down: true}, ""
	r.tunnel = u
	_, err := r.Dialer("t1", func(_ context.Context, _, address string) (net.Conn, error) {
		dialled = address
		return nil, errTried
	})(t.Context(), "tcp", "10.42.0.5:8443")
	if len(u.to) != 1 || dialled != "10.42.0.5:8443" || !errors.Is(err, errTried) {
		t.Errorf("the node is down: the tunnel leads to %q, the network to %q, %v", u.to, dialled, err)
	}
	// What is no pod's the system has of the network: kubelets, and what is outside.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := r.Dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now()); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}
