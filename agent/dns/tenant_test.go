package dns

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// podsAt knows tenants by address.
type podsAt map[string]string

func (p podsAt) Tenant(addr netip.Addr) (string, bool) {
	tenant, ok := p[addr.String()]
	return tenant, ok
}

func serviceIn(namespace, name, ip string) *corev1.Service {
	s := service(name, []string{ip}, port("http", corev1.ProtocolTCP, 80))
	s.Namespace = namespace
	return s
}

func sliceIn(namespace, svc string, eps ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := slice(svc, svc, nil, eps...)
	s.Namespace = namespace
	return s
}

func shared(s *corev1.Service) *corev1.Service {
	s.Annotations = map[string]string{"a4s.io/shared": "true", "other": "1"}
	return s
}

// spaces is a cluster in which two tenants use the same names.
func spaces() []runtime.Object {
	alias := external("kubernetes", "kubernetes.default.svc.cluster.local")
	alias.Namespace = "default.t1"
	crossing := external("crossing", "web.default.t2.svc.cluster.local")
	crossing.Namespace = "default.t1"
	return append(cluster(),
		namespace("monitoring"), namespace("logs"), namespace("default.t1"), namespace("logs.t1"),
		namespace("default.t2"), namespace("only.t2"),
		alias, crossing,
		serviceIn("default", "system-only", "10.43.1.1"),
		serviceIn("default.t1", "web", "10.43.1.2"), serviceIn("default.t2", "web", "10.43.1.3"),
		serviceIn("only.t2", "db", "10.43.1.4"),
		serviceIn("default.t1", "pets", "None"), sliceIn("default.t1", "pets", endpoint("my-pet", true, "10.42.1.1")),
		serviceIn("default.t2", "pets", "None"), sliceIn("default.t2", "pets", endpoint("my-pet", true, "10.42.1.2")),
		shared(serviceIn("monitoring", "metrics", "10.43.1.5")), serviceIn("monitoring", "private", "10.43.1.6"),
		shared(serviceIn("logs", "sink", "10.43.1.7")),
		shared(serviceIn("default.t2", "not-theirs-to-share", "10.43.1.8")),
	)
}

// as asks as the pod at source.
func (h *harness) as(source, name string, qtype uint16) *dns.Msg {
	h.t.Helper()
	c := &dns.Client{Timeout: patience / 3, Dialer: &net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(source)}}}
	m, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, qtype), h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

func TestAnswersByTheAskersTenant(t *testing.T) {
	const (
		system, node, t1, t2 = "127.0.9.1", "127.0.0.1", "127.0.9.2", "127.0.9.3"
		domain               = ".svc.cluster.local."
	)
	up := newUpstream(t, "www.example.com. 300 IN A 192.0.2.53")
	h := newHarness(t, []string{up.addr}, spaces()...)
	h.Pods = podsAt{system: "system", t1: "t1", t2: "t2"}
	h.start()
	t.Cleanup(h.stop)
	h.awaitReady()
	for _, c := range []struct {
		source, name string
		want         string // address or name; empty: there is no such name
	}{
		{t1, "web.default" + domain, "10.43.1.2"},
		{t2, "web.default" + domain, "10.43.1.3"},
		{system, "web.default" + domain, ""},
		{t1, "WEB.default" + domain, "10.43.1.2"},
		{t1, "db.only" + domain, ""},
		{t1, "only" + domain, ""},
		{t1, "system-only.default" + domain, ""},
		{system, "system-only.default" + domain, "10.43.1.1"},
		{node, "system-only.default" + domain, "10.43.1.1"},

		// Composite names are the system's.
		{system, "web.default.t1" + domain, "10.43.1.2"},
		{node, "web.default.t2" + domain, "10.43.1.3"},
		{system, "my-pet.pets.default.t1" + domain, "10.42.1.1"},
		{system, "10-42-1-1.default.t1.pod.cluster.local.", "10.42.1.1"},
		{t1, "web.default.t1" + domain, ""},
		{t1, "web.default.t2" + domain, ""},
		{t1, "10-42-1-1.default.t1.pod.cluster.local.", ""},
		{t1, "crossing.default" + domain, ""},

		{t1, "my-pet.pets.default" + domain, "10.42.1.1"},
		{t2, "pets.default" + domain, "10.42.1.2"},
		{t1, "10-42-1-9.default.pod.cluster.local.", "10.42.1.9"},
		{t1, "10-42-1-9.only.pod.cluster.local.", ""},

		// The API.
		{system, "kubernetes.default" + domain, "10.43.0.1"},
		{t1, "kubernetes.default" + domain, "10.43.0.1"},
		{t2, "kubernetes.default" + domain, "10.43.0.1"},

		// What the system lends, unless the tenant has that namespace.
		{t1, "metrics.monitoring" + domain, "10.43.1.5"},
		{t1, "private.monitoring" + domain, ""},
		{t1, "sink.logs" + domain, ""},
		{t2, "sink.logs" + domain, "10.43.1.7"},
		{t1, "not-theirs-to-share.default" + domain, ""},

		{t1, "2.1.43.10.in-addr.arpa.", "web.default" + domain},
		{t2, "2.1.43.10.in-addr.arpa.", ""},
		{system, "2.1.43.10.in-addr.arpa.", "web.default.t1" + domain},
		{t1, "1.1.43.10.in-addr.arpa.", ""},
		{t1, "1.0.43.10.in-addr.arpa.", "kubernetes.default" + domain},
		{t1, "5.1.43.10.in-addr.arpa.", "metrics.monitoring" + domain},
		{t1, "7.1.43.10.in-addr.arpa.", ""},
		{t1, "1.1.42.10.in-addr.arpa.", "my-pet.pets.default" + domain},
		{t2, "1.1.42.10.in-addr.arpa.", ""},

		{t1, "www.example.com.", "192.0.2.53"},
		{t2, "www.example.com.", "192.0.2.53"},
	} {
		qtype := dns.TypeA
		if dns.IsSubDomain("in-addr.arpa.", c.name) {
			qtype = dns.TypePTR
		}
		m := h.as(c.source, c.name, qtype)
		got := ""
		for _, rr := range m.Answer {
			switch rr := rr.(type) {
			case *dns.A:
				got += rr.A.String()
			case *dns.PTR:
				got += rr.Ptr
			}
		}
		if got != c.want || (m.Rcode == nxdomain) != (c.want == "") {
			t.Errorf("%s asks for %s: %s %q, want %q", c.source, c.name, dns.RcodeToString[m.Rcode], got, c.want)
		}
	}
	if n := up.queries.Load(); n != 1 {
		t.Errorf("the upstream got %d queries, want 1", n)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	h := newHarness(t, nil, spaces()...)
	store, err := newInformerStore(h.client, &sourceTable{pods: podsAt{}})
	if err != nil {
		t.Fatal(err)
	}
	b := &handler{store: store, zone: &zone{name: "cluster.local.", server: h.ClusterDNS}}
	ask := func(name string) int {
		// It comes from 10.240.0.1.
		code, err := b.ServeDNS(context.Background(), dnstest.NewRecorder(&test.ResponseWriter{}),
			new(dns.Msg).SetQuestion(name, dns.TypeA))
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	if code := ask("kubernetes.default.svc.cluster.local."); code != dns.RcodeServerFailure {
		t.Errorf("before the store is synced: %s", dns.RcodeToString[code])
	}
	ctx, cancel := context.WithCancel(context.Background())
	store.start(ctx)
	defer store.stop()
	defer cancel()
	store.waitSynced(ctx)
	for _, name := range []string{"kubernetes.default.svc.cluster.local.", "www.example.com."} {
		if code := ask(name); code != dns.RcodeRefused {
			t.Errorf("%s: %s", name, dns.RcodeToString[code])
		}
	}
}
