package dns

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// patience bounds every wait of the tests.
const patience = time.Minute

// harness is a running server on a loopback port.
type harness struct {
	*server
	t      *testing.T
	client *fake.Clientset
	addr   string
	ready  chan struct{}
	done   chan error
	cancel context.CancelFunc
	// watches receives one value for each watch that is in place; a fake
	// clientset loses what happens between a list and its watch.
	watches chan struct{}
}

func newHarness(t *testing.T, upstreams []string, objects ...runtime.Object) *harness {
	t.Helper()
	h := &harness{t: t, client: fake.NewClientset(objects...), watches: make(chan struct{}, 64)}
	h.client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := h.client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		h.watches <- struct{}{}
		return true, w, err
	})
	h.server = &server{
		Options: Options{
			Client: h.client, ClusterDomain: "cluster.local",
			ClusterDNS:  netip.MustParseAddr("10.43.0.10"),
			ServiceCIDR: netip.MustParsePrefix("10.43.0.0/16"), ClusterCIDR: netip.MustParsePrefix("10.42.0.0/16"),
			Listen: netip.MustParseAddrPort("127.0.0.1:0"), Log: logrus.NewEntry(logrus.New()),
		},
		find: func() ([]string, error) { return upstreams, nil },
	}
	return h
}

// start runs the server and waits until its sockets are open.
func (h *harness) start() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listening := make(chan struct{})
	h.listening = func(addr netip.AddrPort) { h.addr = addr.String(); close(listening) }
	h.ready, h.done, h.cancel = make(chan struct{}), make(chan error, 1), cancel
	go func() { h.done <- h.run(ctx, sync.OnceFunc(func() { close(h.ready) })) }()
	h.t.Cleanup(cancel)
	select {
	case <-listening:
	case err := <-h.done:
		h.t.Fatalf("run = %v", err)
	}
}

func (h *harness) stop() {
	h.t.Helper()
	h.cancel()
	h.await(func() bool { return len(h.done) > 0 }, "the server stops")
	if err := <-h.done; err != nil {
		h.t.Fatalf("run = %v", err)
	}
}

func (h *harness) awaitReady() {
	h.t.Helper()
	select {
	case <-h.ready:
	case <-time.After(patience):
		h.t.Fatal("not ready")
	}
}

func (h *harness) await(cond func() bool, what string) {
	h.t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			h.t.Fatalf("timed out until %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// serve is a harness that is ready and stops with the test.
func serve(t *testing.T, upstreams []string, objects ...runtime.Object) *harness {
	t.Helper()
	h := newHarness(t, upstreams, objects...)
	h.start()
	t.Cleanup(h.stop)
	h.awaitReady()
	return h
}

func (h *harness) ask(name string, qtype uint16) *dns.Msg {
	h.t.Helper()
	return h.exchange("udp", new(dns.Msg).SetQuestion(name, qtype))
}

func (h *harness) exchange(network string, m *dns.Msg) *dns.Msg {
	h.t.Helper()
	c := &dns.Client{Net: network, Timeout: patience / 3}
	got, _, err := c.Exchange(m, h.addr)
	if err != nil {
		h.t.Fatalf("asking %s for %s: %v", h.addr, m.Question[0].String(), err)
	}
	return got
}

// expect is what a question is answered with.
type expect struct {
	name   string
	qtype  uint16
	rcode  int
	answer []string // in any order
	extra  []string
	soa    string // owner of the denial's SOA
}

func (h *harness) check(cases []expect) {
	h.t.Helper()
	for _, c := range cases {
		m := h.ask(c.name, c.qtype)
		label := c.name + " " + dns.TypeToString[c.qtype]
		if m.Rcode != c.rcode {
			h.t.Errorf("%s: rcode %s, want %s", label, dns.RcodeToString[m.Rcode], dns.RcodeToString[c.rcode])
		}
		var soa string
		for _, rr := range m.Ns {
			if rr.Header().Rrtype == dns.TypeSOA {
				soa = rr.Header().Name
			}
		}
		if soa != c.soa {
			h.t.Errorf("%s: SOA of %q, want %q", label, soa, c.soa)
		}
		h.same(label+": answer", m.Answer, c.answer)
		h.same(label+": additional", m.Extra, c.extra)
	}
}

func (h *harness) same(what string, rrs []dns.RR, want []string) {
	h.t.Helper()
	got := lines(rrs)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		h.t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// lines renders records with single blanks, sorted.
func lines(rrs []dns.RR) []string {
	var out []string
	for _, rr := range rrs {
		if rr.Header().Rrtype != dns.TypeOPT {
			out = append(out, strings.Join(strings.Fields(rr.String()), " "))
		}
	}
	slices.Sort(out)
	return out
}
