package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/a4s-io/a4s/internal/problem"
)

// upstreamServer is a resolver that knows some records of example.com.
type upstreamServer struct {
	addr    string
	queries atomic.Int32
}

func newUpstream(t *testing.T, records ...string) *upstreamServer {
	t.Helper()
	u := &upstreamServer{}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	srv := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			u.queries.Add(1)
			m := new(dns.Msg).SetReply(r)
			m.RecursionAvailable = true
			for _, text := range records {
				rr, err := dns.NewRR(text)
				if err == nil && strings.EqualFold(rr.Header().Name, r.Question[0].Name) &&
					rr.Header().Rrtype == r.Question[0].Qtype {
					m.Answer = append(m.Answer, rr)
				}
			}
			if len(m.Answer) == 0 {
				m.Rcode = dns.RcodeNameError
				soa, _ := dns.NewRR("example.com. 60 IN SOA a. b. 1 2 3 4 60")
				m.Ns = []dns.RR{soa}
			}
			_ = w.WriteMsg(m)
		})}
	done := make(chan error, 1)
	go func() { done <- srv.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = srv.Shutdown(); <-done })
	u.addr = conn.LocalAddr().String()
	return u
}

func TestForwardsAndCachesOutsideNames(t *testing.T) {
	up := newUpstream(t, "www.example.com. 300 IN A 192.0.2.53")
	h := serve(t, []string{up.addr}, cluster()...)
	for range 3 {
		h.check([]expect{
			{name: "www.example.com.", qtype: dns.TypeA, answer: []string{"www.example.com. 300 IN A 192.0.2.53"}},
		})
	}
	if n := up.queries.Load(); n != 1 {
		t.Errorf("the upstream got %d queries, want 1", n)
	}
	h.ask("nosuch.default.svc.cluster.local.", dns.TypeA)
	h.ask("9.9.42.10.in-addr.arpa.", dns.TypePTR)
	if n := up.queries.Load(); n != 1 {
		t.Errorf("a name of the cluster went to the upstream")
	}
	h.ask("8.8.8.8.in-addr.arpa.", dns.TypePTR)
	if n := up.queries.Load(); n != 2 {
		t.Errorf("a foreign reverse name did not go to the upstream")
	}
}

// Those of other partitions, which come and go, are of the cluster, too.
func TestReverseNamesOfFurtherRanges(t *testing.T) {
	up := newUpstream(t)
	h := newHarness(t, []string{up.addr}, cluster()...)
	var further atomic.Pointer[[]netip.Prefix]
	further.Store(&[]netip.Prefix{})
	h.Further = func() []netip.Prefix { return *further.Load() }
	h.start()
	t.Cleanup(h.stop)
	h.awaitReady()
	h.ask("9.9.142.10.in-addr.arpa.", dns.TypePTR)
	if n := up.queries.Load(); n != 1 {
		t.Fatalf("the upstream got %d queries, want 1", n)
	}
	further.Store(&[]netip.Prefix{netip.MustParsePrefix("10.142.0.7/16"), netip.MustParsePrefix("10.44.0.0/16")})
	h.check([]expect{
		{name: "8.9.142.10.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeNameError,
			soa: "142.10.in-addr.arpa."},
		{name: "1.0.44.10.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeNameError, soa: "44.10.in-addr.arpa."},
	})
	if n := up.queries.Load(); n != 1 {
		t.Errorf("a name of the cluster went to the upstream")
	}
}

func TestFollowsChangedResolvers(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "www.example.com. 300 IN A 192.0.2.53")
	var now atomic.Pointer[[]string]
	now.Store(&[]string{})
	h := newHarness(t, nil, cluster()...)
	none := errors.New("no resolver")
	h.find = func() ([]string, error) {
		if s := *now.Load(); len(s) > 0 {
			return s, nil
		}
		return nil, none
	}
	logger, hook := logtest.NewNullLogger()
	h.Log = logrus.NewEntry(logger)
	f := &forwarder{find: h.find, log: h.Log}
	f.refresh()
	f.refresh()
	if n := len(hook.AllEntries()); n != 1 {
		t.Errorf("missing resolvers were logged %d times, want once", n)
	}
	h.start()
	defer h.stop()
	h.awaitReady()
	began := time.Now()
	if m := h.ask("www.example.com.", dns.TypeA); m.Rcode != dns.RcodeServerFailure ||
		time.Since(began) > patience/4 {
		t.Errorf("without resolvers: %s after %s, want SERVFAIL at once",
			dns.RcodeToString[m.Rcode], time.Since(began))
	}
	now.Store(&[]string{up.addr})
	h.await(func() bool { return h.ask("www.example.com.", dns.TypeA).Rcode == dns.RcodeSuccess },
		"the new resolver is used")
}

func TestServfailUntilSynced(t *testing.T) {
	h := newHarness(t, nil, cluster()...)
	var open atomic.Bool
	h.client.PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		if open.Load() {
			return false, nil, nil
		}
		return true, nil, errors.New("not yet")
	})
	h.start()
	defer h.stop()
	h.check([]expect{
		{name: "kubernetes.default.svc.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeServerFailure},
		{name: "nosuch.default.svc.cluster.local.", qtype: dns.TypeA, rcode: dns.RcodeServerFailure},
		{name: "9.9.43.10.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeServerFailure},
	})
	select {
	case <-h.ready:
		t.Fatal("ready before the informers synced")
	default:
	}
	open.Store(true)
	h.awaitReady()
	h.check([]expect{{name: "nosuch.default.svc.cluster.local.", qtype: dns.TypeA, rcode: nxdomain, soa: zoneSOA}})
}

func TestUpdatesAreVisible(t *testing.T) {
	h := serve(t, nil, namespace("default"), service("pets", []string{"None"}))
	for range 3 {
		<-h.watches
	}
	ctx := context.Background()
	answers := func(name string) []string { return lines(h.ask(name, dns.TypeA).Answer) }
	const pets, web = "pets.default.svc.cluster.local.", "web.default.svc.cluster.local."

	services, slicesOf := h.client.CoreV1().Services("default"), h.client.DiscoveryV1().EndpointSlices("default")
	if _, err := services.Create(ctx, service("web", []string{"10.43.0.7"}), v1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.await(func() bool { return slices.Equal(answers(web), []string{web + " 5 IN A 10.43.0.7"}) },
		"a new service resolves")

	sl := slice("pets", "pets", nil, endpoint("", false, "10.42.0.9"))
	if _, err := slicesOf.Create(ctx, sl, v1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := slicesOf.Update(ctx, slice("pets", "pets", nil, endpoint("", true, "10.42.0.9")),
		v1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.await(func() bool { return slices.Equal(answers(pets), []string{pets + " 5 IN A 10.42.0.9"}) },
		"an endpoint that became ready resolves")

	if err := services.Delete(ctx, "web", v1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.await(func() bool { return h.ask(web, dns.TypeA).Rcode == nxdomain }, "a deleted service is gone")
	h.await(func() bool { return h.ask("7.0.43.10.in-addr.arpa.", dns.TypePTR).Rcode == nxdomain },
		"its address has no name")
}

func TestRunsAgain(t *testing.T) {
	h := newHarness(t, nil, cluster()...)
	for range 3 {
		h.start()
		h.awaitReady()
		for _, network := range []string{"udp", "tcp"} {
			if m := h.exchange(network,
				new(dns.Msg).SetQuestion("kubernetes.default.svc.cluster.local.", dns.TypeA)); len(m.Answer) != 1 {
				t.Fatalf("%s: %v", network, m)
			}
		}
		h.stop()
		// The very same port is free again.
		h.Listen = netip.MustParseAddrPort(h.addr)
	}
}

func TestOccupiedPort(t *testing.T) {
	first := serve(t, nil)
	second := newHarness(t, nil)
	second.Listen = netip.MustParseAddrPort(first.addr)
	err := second.run(context.Background(), func() {})
	var p *problem.Precondition
	if !errors.As(err, &p) || !strings.Contains(err.Error(), first.addr[strings.LastIndex(first.addr, ":")+1:]) {
		t.Fatalf("run = %v, want a precondition that names the port", err)
	}
}

// sources records who asked.
type sources struct {
	clusterStore
	mu   sync.Mutex
	seen []netip.Addr
}

func (s *sources) View(a netip.Addr) (Records, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, a)
	return s.clusterStore.View(a)
}

func (s *sources) last() netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 {
		return netip.Addr{}
	}
	return s.seen[len(s.seen)-1]
}

func TestResolvers(t *testing.T) {
	own := netip.MustParseAddr("10.43.0.10")
	for name, c := range map[string]struct {
		conf, fallback string
		want           []string
		fails          bool
	}{
		"plain": {conf: "nameserver 192.0.2.1\nnameserver 2001:db8::1\nnameserver 192.0.2.1\n",
			want: []string{"192.0.2.1:53", "[2001:db8::1]:53"}},
		"stub": {conf: "nameserver 127.0.0.53\n", fallback: "nameserver 192.0.2.2\n",
			want: []string{"192.0.2.2:53"}},
		"stub among others": {conf: "nameserver 127.0.0.1\nnameserver 192.0.2.1\n", fallback: "nameserver 192.0.2.2\n",
			want: []string{"192.0.2.1:53"}},
		"stub alone":     {conf: "nameserver ::1\nnameserver 0.0.0.0\n", fails: true},
		"ourselves":      {conf: "nameserver 10.43.0.10\nnameserver 192.0.2.1\n", want: []string{"192.0.2.1:53"}},
		"only ourselves": {conf: "nameserver 10.43.0.10\n", fails: true},
		"no file":        {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			conf, fallback := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "systemd.conf")
			for file, text := range map[string]string{conf: c.conf, fallback: c.fallback} {
				if text != "" {
					if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, err := resolvers(conf, fallback, own)
			if !slices.Equal(got, c.want) || (err != nil) != c.fails {
				t.Errorf("resolvers = %v, %v; want %v, failure %v", got, err, c.want, c.fails)
			}
		})
	}
}
