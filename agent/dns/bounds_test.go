package dns

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"k8s.io/client-go/kubernetes"
)

// Where the clients of these tests are. The node itself is of the system.
const (
	hostile, hostileToo, other = "127.0.9.2", "127.0.9.4", "127.0.9.3"
	apiName, outsideName       = "kubernetes.default.svc.cluster.local.", "www.example.com."
)

// bad is the tenant of the hostile pods.
func bad() asker { return asker{ofTenants, "t1"} }

// count is how many slots a has.
func (g *gate) count(a asker) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.each[a]
}

// bounded is a server with two tenants and the system, which keeps connections for as long as
// the bounds allow. prepare may change it before it starts.
func bounded(t *testing.T, upstreams []string, prepare func(*harness, *bounds)) (*harness, *bounds) {
	t.Helper()
	t.Parallel()
	alias := external("alias", strings.TrimSuffix(outsideName, "."))
	alias.Namespace = "default.t1"
	h := newHarness(t, upstreams, append(spaces(), alias)...)
	h.Pods = podsAt{hostile: "t1", hostileToo: "t1", other: "t2"}
	var limits *bounds
	h.newBounds = func(s *sourceTable) *bounds {
		limits = newBounds(s)
		limits.read, limits.idle, limits.write = time.Hour, time.Hour, time.Hour
		if prepare != nil {
			prepare(h, limits)
		}
		return limits
	}
	h.start()
	t.Cleanup(h.stop)
	h.awaitReady()
	return h, limits
}

// dial connects from source.
func (h *harness) dial(network, source string) *dns.Conn {
	h.t.Helper()
	conn, err := h.connect(network, source)
	if err != nil {
		h.t.Fatal(err)
	}
	return conn
}

func (h *harness) connect(network, source string) (*dns.Conn, error) {
	h.t.Helper()
	from, err := net.ResolveTCPAddr("tcp", source+":0")
	if err != nil {
		h.t.Fatal(err)
	}
	d := net.Dialer{LocalAddr: from, Timeout: patience}
	if network == "udp" {
		d.LocalAddr = net.UDPAddrFromAddrPort(from.AddrPort())
	}
	conn, err := d.DialContext(h.t.Context(), network, h.addr)
	if err != nil {
		return nil, err
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		h.t.Fatal(err)
	}
	return &dns.Conn{Conn: conn}, nil
}

// send asks without waiting for the answer.
func (h *harness) send(c *dns.Conn, name string) {
	h.t.Helper()
	if err := c.WriteMsg(new(dns.Msg).SetQuestion(name, dns.TypeA)); err != nil {
		h.t.Fatal(err)
	}
}

// next is the next answer.
func (h *harness) next(c *dns.Conn) *dns.Msg {
	h.t.Helper()
	m, err := c.ReadMsg()
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

// asked asks as source. Over UDP it asks again, as libraries do: what somebody sends all at once
// may leave no room for a packet.
func (h *harness) asked(network, source, name string) *dns.Msg {
	h.t.Helper()
	c := h.dial(network, source)
	defer c.Close() //nolint:errcheck // nothing was written that counts
	if network == "tcp" {
		h.send(c, name)
		return h.next(c)
	}
	var m *dns.Msg
	h.await(func() bool {
		h.send(c, name)
		if err := c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			h.t.Fatal(err)
		}
		var err error
		m, err = c.ReadMsg()
		return err == nil
	}, source+" has an answer")
	return m
}

// othersAreAnswered asks as another tenant and as the system, over UDP and TCP.
func (h *harness) othersAreAnswered(name string) {
	h.t.Helper()
	for _, source := range []string{other, "127.0.0.1"} {
		for _, network := range []string{"udp", "tcp"} {
			if m := h.asked(network, source, name); m.Rcode != dns.RcodeSuccess || len(m.Answer) == 0 {
				h.t.Errorf("%s gets over %s for %s:\n%s", source, network, name, m)
			}
		}
	}
}

// waiting is a store in which one client waits until it is let go.
type waiting struct {
	clusterStore
	client netip.Addr
	let    chan struct{}
}

func (s *waiting) View(a netip.Addr) (Records, bool) {
	if a == s.client {
		<-s.let
	}
	return s.clusterStore.View(a)
}

func TestQueriesOfATenantAreBounded(t *testing.T) {
	let := make(chan struct{})
	h, limits := bounded(t, nil, func(h *harness, _ *bounds) {
		h.newStore = func(c kubernetes.Interface, table *sourceTable) (clusterStore, error) {
			s, err := newInformerStore(c, table)
			return &waiting{s, netip.MustParseAddr(hostile), let}, err
		}
	})
	release := sync.OnceFunc(func() { close(let) })
	defer release() // or the server would not stop
	each := limits.inside.shares[ofTenants].each
	udp, tcp := h.dial("udp", hostile), h.dial("tcp", hostileToo)
	for range each {
		h.send(udp, apiName)
	}
	h.await(func() bool { return limits.inside.count(bad()) == each }, "the tenant has its share")
	for _, c := range []*dns.Conn{udp, tcp} {
		h.send(c, apiName)
		if m := h.next(c); m.Rcode != dns.RcodeServerFailure {
			t.Errorf("beyond the share: %s, want SERVFAIL", dns.RcodeToString[m.Rcode])
		}
	}
	h.othersAreAnswered(apiName)
	release()
	for range each {
		if m := h.next(udp); m.Rcode != dns.RcodeSuccess {
			t.Errorf("within the share: %s", dns.RcodeToString[m.Rcode])
		}
	}
	h.await(func() bool { return limits.inside.count(bad()) == 0 }, "the slots are free again")
}

// silentUpstream knows www.example.com and says nothing about other names, but keeps them.
func silentUpstream(t *testing.T) (addr string, seen func(name string) bool) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var names sync.Map
	started := make(chan struct{})
	srv := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			q := r.Question[0]
			if rr, err := dns.NewRR(outsideName + " 300 IN A 192.0.2.53"); err == nil && q.Name == outsideName {
				m := new(dns.Msg).SetReply(r)
				m.Answer = []dns.RR{rr}
				_ = w.WriteMsg(m)
			} else {
				names.Store(q.Name, true)
			}
		})}
	done := make(chan error, 1)
	go func() { done <- srv.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = srv.Shutdown(); <-done })
	return conn.LocalAddr().String(), func(name string) bool { _, ok := names.Load(name); return ok }
}

// A tenant asks for ever more names about which nobody says anything.
func TestQueriesOutsideOfATenantAreBounded(t *testing.T) {
	up, seen := silentUpstream(t)
	h, limits := bounded(t, []string{up}, nil)
	udp, refused := h.dial("udp", hostile), make(chan string, 1)
	go func() {
		defer close(refused)
		for {
			m, err := udp.ReadMsg()
			if err != nil {
				return
			}
			if name := m.Question[0].Name; m.Rcode == dns.RcodeServerFailure && !seen(name) {
				refused <- name
				return
			}
		}
	}()
	for i := 0; i < 10_000 && len(refused) == 0; i++ {
		h.send(udp, fmt.Sprintf("n%d.example.com.", i))
		if n, most := limits.outside.count(bad()), limits.outside.shares[ofTenants].each; n > most {
			t.Errorf("%d queries wait outside, want at most %d", n, most)
		}
	}
	if name, ok := <-refused; !ok {
		t.Error("all names went to the resolver")
	} else if !strings.HasSuffix(name, ".example.com.") {
		t.Errorf("refused is %q", name)
	}
	h.othersAreAnswered(outsideName)
	h.othersAreAnswered(apiName)
	if m := h.asked("udp", hostile, apiName); m.Rcode != dns.RcodeSuccess {
		t.Errorf("of the cluster's names the tenant gets %s", dns.RcodeToString[m.Rcode])
	}
}

// What one tenant is refused is not in the cache for another. Aliases lead outside, too.
func TestRefusalsAreNotCached(t *testing.T) {
	up, _ := silentUpstream(t)
	h, limits := bounded(t, []string{up}, nil)
	for range limits.outside.shares[ofTenants].each {
		if !limits.outside.enter(bad()) {
			t.Fatal("no slot")
		}
	}
	const alias = "alias.default.svc.cluster.local."
	for _, name := range []string{outsideName, outsideName, alias} {
		if m := h.as(hostile, name, dns.TypeA); m.Rcode != dns.RcodeServerFailure {
			t.Errorf("%s beyond the share: %s, want SERVFAIL", name, dns.RcodeToString[m.Rcode])
		}
	}
	h.othersAreAnswered(outsideName)
	limits.outside.leave(bad())
	for _, name := range []string{outsideName, alias} {
		if m := h.as(hostile, name, dns.TypeA); m.Rcode != dns.RcodeSuccess {
			t.Errorf("%s with a slot: %s", name, dns.RcodeToString[m.Rcode])
		}
	}
	h.await(func() bool { return limits.inside.count(bad()) == 0 }, "no slot inside is taken")
	if n, want := limits.outside.count(bad()), limits.outside.shares[ofTenants].each-1; n != want {
		t.Errorf("%d slots outside are taken, want %d", n, want)
	}
}

// A connection has one query in flight, however many are in it.
func TestPipelinedQueriesOfATenant(t *testing.T) {
	up, _ := silentUpstream(t)
	h, limits := bounded(t, []string{up}, nil)
	c := h.dial("tcp", hostile)
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		for i := range 10_000 {
			if c.WriteMsg(new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.example.com.", i), dns.TypeA)) != nil {
				return // closed at the end
			}
		}
	}()
	h.await(func() bool { return limits.outside.count(bad()) > 0 }, "a query waits outside")
	h.othersAreAnswered(apiName)
	h.othersAreAnswered(outsideName)
	if n := limits.outside.count(bad()); n > 1 {
		t.Errorf("%d queries of one connection wait outside", n)
	}
	_ = c.Close()
	<-wrote
}

func TestGate(t *testing.T) {
	g := newGate(shares{ofSystem: {2, 2}, ofTenants: {5, 2}, ofStrangers: {3, 1}})
	enter := func(k kind, name string) bool { return g.enter(asker{k, name}) }
	for i := range 4 {
		name := fmt.Sprint("t", i)
		for j, want := range []bool{i < 3, i < 2, false} {
			if got := enter(ofTenants, name); got != want {
				t.Errorf("slot %d of %s: %v", j, name, got)
			}
		}
		if got := enter(ofStrangers, fmt.Sprint("192.0.2.", i)); got != (i < 3) {
			t.Errorf("stranger %d: %v", i, got)
		}
	}
	for j, want := range []bool{true, true, false} {
		if got := enter(ofSystem, ""); got != want {
			t.Errorf("slot %d of the system: %v", j, got)
		}
	}
	for a, n := range map[asker]int{
		{ofTenants, "t0"}: 2, {ofTenants, "t1"}: 2, {ofTenants, "t2"}: 1, {kind: ofSystem}: 2,
		{ofStrangers, "192.0.2.0"}: 1, {ofStrangers, "192.0.2.1"}: 1, {ofStrangers, "192.0.2.2"}: 1,
	} {
		for range n {
			g.leave(a)
		}
	}
	if len(g.each) != 0 || g.all != [kinds]int{} {
		t.Errorf("at the end %v, %v are left", g.each, g.all)
	}
}

func TestWhoIsAsking(t *testing.T) {
	table := &sourceTable{pods: podsAt{"10.42.0.7": "t1", "10.42.0.8": "system"}}
	for addr, want := range map[string]asker{
		"10.42.0.7": bad(), "::ffff:10.42.0.7": bad(), "10.42.0.8": {kind: ofSystem},
		"127.0.0.1": {kind: ofSystem}, "192.0.2.1": {ofStrangers, "192.0.2.1"},
	} {
		ip := net.ParseIP(addr)
		for _, a := range []net.Addr{&net.UDPAddr{IP: ip, Port: 7}, &net.TCPAddr{IP: ip, Port: 8}} {
			if got := table.asker(a); got != want {
				t.Errorf("%s is %v, want %v", a, got, want)
			}
		}
	}
	everybody := &sourceTable{}
	if got := everybody.asker(&net.UDPAddr{IP: net.IPv4(192, 0, 2, 1)}); got != (asker{kind: ofSystem}) {
		t.Errorf("without tenants: %v", got)
	}
}
