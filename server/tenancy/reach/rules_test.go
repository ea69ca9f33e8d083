package reach

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/tenancy/reach/endpoints"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
)

func pod(name, ip string, change ...func(*corev1.Pod)) *corev1.Pod {
	namespace, name, _ := strings.Cut(name, "/")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: ip}}}}
	for _, f := range change {
		f(p)
	}
	return p
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

// newRules are those of a cluster with pods of two tenants and two nodes.
func newRules(t *testing.T, partitions inside.Partitions) *Rules {
	t.Helper()
	indexed := func(f cache.IndexFunc) cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byAddress: f})
	}
	r := &Rules{
		cluster: inside.New([]netip.Prefix{netip.MustParsePrefix("10.42.0.0/16"),
			netip.MustParsePrefix("10.43.0.0/16"), netip.MustParsePrefix("2001:db8:42::/56")}, partitions),
		pods: indexed(ofPods), nodes: indexed(endpoints.OfNodes), servers: indexed(endpoints.OfServers),
		synced: []cache.InformerSynced{func() bool { return true }},
		own: &ownAddresses{list: func() ([]net.Addr, error) {
			return []net.Addr{&net.IPNet{IP: net.ParseIP("203.0.113.7"), Mask: net.CIDRMask(24, 32)}}, nil
		}},
	}
	for _, p := range []*corev1.Pod{
		pod("default.t1/web", "10.42.0.5"), pod("default.t2/web", "10.42.0.6"), pod("kube-system/dns", "10.42.0.7"),
		pod("default.t1/done", "10.42.0.6", phase(corev1.PodSucceeded)),
		pod("default.t1/failed", "10.42.0.8", phase(corev1.PodFailed)),
		pod("default.t1/forged", "10.42.0.9"), pod("default.t2/real", "10.42.0.9"),
		pod("default.t1/host", "203.0.113.8", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		pod("default.t1/six", "2001:db8:42:0:0::5"), pod("default.t1/lo", "127.0.0.1"),
	} {
		if err := r.pods.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "n"}, {
				Type:    corev1.NodeInternalIP,
				Address: "203.0.113.8",
			}, {Type: corev1.NodeExternalIP, Address: "2001:db8::8"}}}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"203.0.113.9"}}}}
	group := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes-1-7443",
		Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"203.0.113.10"}}}}
	other := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t1", Name: "kubernetes",
		Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"198.51.100.1"}}}}
	if err := errors.Join(r.nodes.Add(node), r.servers.Add(slice), r.servers.Add(group),
		r.servers.Add(other)); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAddresses(t *testing.T) {
	r := newRules(t, nil)
	pods := []string{"10.42.0.5", "::ffff:10.42.0.5", "2001:db8:42::5"}
	for _, c := range []struct {
		what      string
		addresses []string
		ok        bool
	}{
		{"outside", []string{"198.51.100.1", "192.168.1.1", "10.44.0.1", "2001:db8:1::1", "64:ff9b::c633:6401"}, true},
		{"own pods", pods, true},
		{"pods of others", []string{"10.42.0.6", "10.42.0.7", "64:ff9b::a2a:6"}, false},
		{"what had ended", []string{"10.42.0.8"}, false},
		{"what two claim", []string{"10.42.0.9"}, false},
		{"nobody's, and Services", []string{"10.42.0.1", "10.43.0.1", "2001:db8:42::1"}, false},
		{"nodes and servers",
			[]string{"203.0.113.7", "203.0.113.8", "203.0.113.9", "203.0.113.10", "2001:db8::8", "::ffff:203.0.113.8"},
			false},
		{"the machine", []string{"127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "0.0.0.0", "0.1.2.3", "::",
			"::7f00:1", "64:ff9b::7f00:1", "::ffff:0:7f00:1", "2002:7f00:1::"}, false},
		{"the link",
			[]string{"169.254.169.254", "fe80::1", "fe80::1%lo", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"}, false},
		{"many, and nothing",
			[]string{"224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255", "ff02::1", "64:ff9b:1::7f00:1"}, false},
	} {
		for _, a := range c.addresses {
			ip := netip.MustParseAddr(a)
			if ok, err := r.allows("t1", ip); ok != c.ok || err != nil {
				t.Errorf("%s: a webhook at %s: %t, %v", c.what, a, ok, err)
			}
			if ok, err := r.Endpoint("t1", ip); ok != c.ok || err != nil {
				t.Errorf("%s: an endpoint at %s: %t, %v", c.what, a, ok, err)
			}
			var dialled string
			dial := r.Dialer("t1", func(_ context.Context, _, address string) (net.Conn, error) {
				dialled = address
				return nil, nil
			})
			_, err := dial(t.Context(), "tcp", net.JoinHostPort(a, "443"))
			if c.ok != (err == nil) || c.ok != (dialled != "") || !c.ok && !errors.Is(err, ErrRefused) {
				t.Errorf("%s: connecting to %s: %q, %v", c.what, a, dialled, err)
			}
			// A proxy gets to pods only.
			_, err = r.PodDialer("t1")(canceled(t), "tcp", net.JoinHostPort(a, "1"))
			if errors.Is(err, ErrRefused) == slices.Contains(pods, a) {
				t.Errorf("%s: a proxy to %s: %v", c.what, a, err)
			}
		}
	}
	// A name is as good as what it stands for.
	if _, err := r.Dialer("t1", nil)(t.Context(), "tcp", "localhost:443"); !errors.Is(err, ErrRefused) {
		t.Errorf("a name of the loopback: %v", err)
	}
	r.synced = append(r.synced, func() bool { return false })
	if ok, err := r.allows("t1", netip.MustParseAddr("198.51.100.1")); ok || !errors.Is(err, inside.ErrUnknown) {
		t.Errorf("before the cluster is known: %t, %v", ok, err)
	}
}

// directory are partitions that change.
type directory struct {
	settled bool
	all     []*partitionapi.Partition
	turn    chan struct{}
}

func (d *directory) Settled() bool                         { return d.settled }
func (d *directory) Partitions() []*partitionapi.Partition { return d.all }
func (d *directory) Changes() <-chan struct{}              { return d.turn }

func (d *directory) Addresses(name string) []string {
	for _, p := range d.all {
		if p.Name == name {
			return p.Addresses()
		}
	}
	return nil
}

func (d *directory) change(settled bool, all ...*partitionapi.Partition) {
	d.settled, d.all = settled, all
	close(d.turn)
	d.turn = make(chan struct{})
}

// TestWallW8AddressesOfOtherPartitions: what is inside for one partition is inside
// for all, from the moment that it joins, and while it is not known which there are
// nothing is outside.
func TestWallW8AddressesOfOtherPartitions(t *testing.T) {
	d := &directory{turn: make(chan struct{})}
	r := newRules(t, d)
	const outside, own = "198.51.100.1", "10.42.0.5"
	theirs := []string{"10.142.0.5", "10.44.0.1", "203.0.113.44", "::ffff:10.142.0.5", "64:ff9b::a8e:5"}
	is := func(when string, want bool, addresses ...string) {
		t.Helper()
		for _, a := range addresses {
			ip := netip.MustParseAddr(a)
			hook, err1 := r.allows("t1", ip)
			endpoint, err2 := r.Endpoint("t1", ip)
			unknown := errors.Is(err1, inside.ErrUnknown) && errors.Is(err2, inside.ErrUnknown)
			if hook != want || endpoint != want || !unknown && errors.Join(err1, err2) != nil || unknown == d.settled {
				t.Errorf("%s, %s: a webhook %t, %v, an endpoint %t, %v", when, a, hook, err1, endpoint, err2)
			}
		}
	}
	is("nothing is known", false, append(theirs, outside, own)...)
	main := &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: "main"},
		Spec: partitionapi.PartitionSpec{ServiceCIDR: "10.43.0.0/16", ClusterCIDR: "10.42.0.0/16"}}
	d.change(true, main)
	is("there is one", true, append(theirs, outside, own)...)
	other := &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: "tp2"}, Spec: partitionapi.PartitionSpec{
		ServiceCIDR: "10.44.0.0/16", ClusterCIDR: "10.142.0.0/16",
		Servers: []partitionapi.PartitionServer{{Name: "s", Address: "203.0.113.44:6443"}}}}
	d.change(true, main, other)
	is("another one has joined", false, theirs...)
	is("another one has joined", true, outside, own)
	for _, a := range theirs {
		if _, err := r.PodDialer("t1")(canceled(t), "tcp", net.JoinHostPort(a, "1")); !errors.Is(err, ErrRefused) {
			t.Errorf("a proxy to %s: %v", a, err)
		}
	}
	broken := other.DeepCopy()
	broken.Spec.ClusterCIDR = "10.142.0.0"
	d.change(true, main, broken)
	if ok, err := r.allows("t1", netip.MustParseAddr(outside)); ok || !errors.Is(err, inside.ErrUnknown) {
		t.Errorf("a range cannot be read: %t, %v", ok, err)
	}
	d.change(true, main)
	is("it has left", true, append(theirs, outside, own)...)
	waits, cancel := context.WithCancel(t.Context())
	if err := r.Wait(waits); err != nil {
		t.Errorf("waiting for what is known: %v", err)
	}
	cancel()
	d.change(false)
	if err := r.Wait(waits); !errors.Is(err, inside.ErrUnknown) {
		t.Errorf("waiting for what is not known: %v", err)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestStraight(t *testing.T) {
	followed := false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		code, err := strconv.Atoi(req.URL.Query().Get("code"))
		if followed = err != nil; followed {
			return
		}
		w.Header().Set("Location", "/")
		w.WriteHeader(code)
	}))
	defer srv.Close()
	client := &http.Client{Transport: Straight(http.DefaultTransport)}
	for _, code := range []int{301, 302, 303, 304, 307, 308} {
		// there is none
		if _, err := client.Get(srv.URL + "?code=" + strconv.Itoa(code)); !errors.Is(err, //nolint:bodyclose
			ErrRedirect) || followed {
			t.Errorf("%d: %v, followed: %t", code, err, followed)
		}
	}
	resp, err := client.Get(srv.URL + "?code=200")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("another answer: %v, %v", resp, err)
	}
	resp.Body.Close() //nolint:errcheck // it is empty
}
