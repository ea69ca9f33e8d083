package proxy

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
)

func newTestTables(lines ...joinapi.IngressLine) *tables {
	tables := newTables(silent(), func(name string) *tenant { return &tenant{name: name} })
	for _, line := range lines {
		tables.apply(line)
	}
	return tables
}

func TestABatchIsOneChange(t *testing.T) {
	tables := newTestTables(hostLine("a", "x", all("1")), joinapi.IngressLine{Complete: true})
	before := tables.shown.Load()
	tables.apply(hostLine("b", "x"))
	tables.apply(hostLine("a", "y"))
	tables.apply(backendLine("1", "x", ""))
	if tables.shown.Load() != before || len(before.hosts) != 1 || len(before.backends) != 0 {
		t.Fatal("half a batch shows")
	}
	if !tables.apply(joinapi.IngressLine{Complete: true}) {
		t.Fatal("the batch did not end")
	}
	after := tables.shown.Load()
	if len(after.hosts) != 2 || after.hosts["a"].tenant.name != "y" || before.hosts["a"].tenant.name != "x" ||
		len(after.backends) != 1 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestTenantsAreThoseWithHosts(t *testing.T) {
	tables := newTestTables(hostLine("1", "a"), hostLine("2", "a"), hostLine("3", "b"),
		joinapi.IngressLine{Complete: true})
	names := func() (all string) {
		for _, c := range tables.shown.Load().counts() {
			all += c.Tenant
		}
		return all
	}
	b := tables.shown.Load().tenants["b"]
	b.transport(plain)
	for i, c := range []struct {
		lines []joinapi.IngressLine
		want  string
	}{
		{nil, "ab"},
		{[]joinapi.IngressLine{hostLine("3", "b", all("x")), hostLine("2", "c")}, "abc"},
		{[]joinapi.IngressLine{{Host: &joinapi.IngressHost{Name: "1", Deleted: true}}}, "bc"},
		{[]joinapi.IngressLine{{Host: &joinapi.IngressHost{Name: "1", Deleted: true}}}, "bc"},
		{[]joinapi.IngressLine{{Host: &joinapi.IngressHost{Name: "3", Deleted: true}}, hostLine("4", "b")}, "bc"},
		{[]joinapi.IngressLine{hostLine("4", "c")}, "c"},
	} {
		for _, line := range append(c.lines, joinapi.IngressLine{Complete: true}) {
			tables.apply(line)
		}
		if got := names(); got != c.want {
			t.Errorf("%d: tenants %q, want %q", i, got, c.want)
		}
		if now := tables.shown.Load().tenants["b"]; now != nil && now != b {
			t.Errorf("%d: b is another tenant", i)
		}
	}
}

// slowConn is not closed before the test says so, as one with TLS whose backend does not read.
type slowConn struct {
	net.Conn
	closing, end chan struct{}
}

func (c *slowConn) Close() error {
	close(c.closing)
	<-c.end
	return c.Conn.Close()
}

// TestNoTenantWaitsForConnectionsOfOneThatIsGone: the lines of all go on.
func TestNoTenantWaitsForConnectionsOfOneThatIsGone(t *testing.T) {
	w := newWorld(t, Limits{}, site("a.test", "a", pod(t, says("a")))...)
	of, closing, end := w.tables.shown.Load().tenants["a"], make(chan struct{}), make(chan struct{})
	of.transport(plain).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &slowConn{conn, closing, end}, err
	}
	if status, _ := get(t, w.client(nil), "http://a.test/"); status != http.StatusOK {
		t.Fatal(status)
	}
	eventually(t, "its connection is not in use", func() bool { return w.inFlight.Load() == 0 })
	told := make(chan struct{})
	go func() {
		defer close(told)
		w.tell(joinapi.IngressLine{Host: &joinapi.IngressHost{Name: "a.test", Deleted: true}})
	}()
	<-closing
	<-told
	close(end)
}

func TestCertificatesAreParsedOnce(t *testing.T) {
	line := certificateLine(t, "c", "a", "a.test")
	tables := newTestTables(line, joinapi.IngressLine{Complete: true})
	first := tables.shown.Load().certificates["c"].parsed
	for _, line := range []joinapi.IngressLine{hostLine("a", "a"), line, {Complete: true}} {
		tables.apply(line)
	}
	if tables.shown.Load().certificates["c"].parsed != first {
		t.Error("it was parsed again")
	}
	tables.apply(certificateLine(t, "c", "a", "a.test"))
	tables.apply(joinapi.IngressLine{Complete: true})
	if tables.shown.Load().certificates["c"].parsed == first {
		t.Error("a new one was not parsed")
	}
	tables.apply(joinapi.IngressLine{Certificate: &joinapi.IngressCertificate{ID: "c", Deleted: true}})
	tables.apply(joinapi.IngressLine{Complete: true})
	if len(tables.shown.Load().certificates) != 0 {
		t.Error("it is not gone")
	}
}

func at(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func TestEndpointsStay(t *testing.T) {
	one, two, three := at("10.0.0.1:80"), at("10.0.0.2:80"), at("[fd00::1]:80")
	old := newBackend(&joinapi.IngressBackend{Tenant: "a", Endpoints: []netip.AddrPort{one, two}}, nil)
	now := newBackend(&joinapi.IngressBackend{Tenant: "a", Endpoints: []netip.AddrPort{three, two}}, old)
	if now.endpoints[1] != old.endpoints[1] || now.endpoints[0].address != "[fd00::1]:80" {
		t.Errorf("%+v", now.endpoints)
	}
	other := newBackend(&joinapi.IngressBackend{Tenant: "b", Endpoints: []netip.AddrPort{two}}, now)
	if other.endpoints[0] == now.endpoints[1] {
		t.Error("another tenant has the same endpoint")
	}
}

func TestPick(t *testing.T) {
	told := &joinapi.IngressBackend{Endpoints: []netip.AddrPort{at("10.0.0.1:1"), at("10.0.0.2:1"), at("10.0.0.3:1")}}
	b, now := newBackend(told, nil), time.Now()
	picked := func(tried ...netip.AddrPort) map[*endpoint]int {
		found := map[*endpoint]int{}
		for range 300 {
			found[b.pick(tried, now)]++
		}
		return found
	}
	one, two, three := b.endpoints[0], b.endpoints[1], b.endpoints[2]
	if got := picked(); len(got) != 3 {
		t.Errorf("not all are used: %v", got)
	}
	one.inFlight.Store(9) // never the less busy of two
	if got := picked(); len(got) != 2 || got[one] > 0 {
		t.Errorf("the busiest is used: %v", got)
	}
	two.failed.Store(now.UnixNano())
	three.failed.Store(now.Add(time.Hour).UnixNano()) // the clock was set back
	if got := picked(); got[two] > 0 || got[three] == 0 {
		t.Errorf("one that failed is used: %v", got)
	}
	if got := picked(one.at, three.at); len(got) != 1 || got[two] == 0 {
		t.Errorf("one that failed is not used when there is no other: %v", got)
	}
	now = now.Add(avoided)
	if got := picked(); got[two] == 0 {
		t.Errorf("one that failed once is not used again: %v", got)
	}
	if b.pick(told.Endpoints, now) != nil || (&backend{}).pick(nil, now) != nil {
		t.Error("there is one where none is left")
	}
}
