package joining

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/nodeapi"
	"github.com/a4s-io/a4s/server/nodeapi/nodelife"
	"github.com/a4s-io/a4s/tests/nodecert"
)

// lives are records without a datastore, and the judge that asks them.
type lives struct {
	mu      sync.Mutex
	records map[string]nodelife.Record
	has     map[string][]string // the addresses of Nodes
}

func (l *lives) Change(
	_ context.Context, node string, change func(*nodelife.Record, bool) error,
) (nodelife.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record, there := l.records[node]
	if err := change(&record, there); err != nil {
		return nodelife.Record{}, err
	}
	l.records[node] = record
	return record, nil
}

func (l *lives) Known(node string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, there := l.records[node]
	return there, nil
}

func (l *lives) Revoke(_ context.Context, node string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records[node] = nodelife.Record{}
	return nil
}

func (*lives) Mark(context.Context, string, nodelife.Record) error { return nil }

func (l *lives) of(node string) nodelife.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[node]
}

func (l *lives) registered(_ context.Context, node string) ([]string, bool, error) {
	has, there := l.has[node]
	return has, there, nil
}

func (l *lives) Alive(node, life string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, there := l.records[node]; there && !r.Good(life) {
		return nodelife.ErrDead
	}
	return nil
}

func (*lives) Hold(ctx context.Context, _, _ string) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}
func (*lives) Check(string, []string) error             { return nil }
func (*lives) Own([]string) error                       { return nil }
func (*lives) Elsewhere(context.Context, string) string { return "" }

func newLives(t *testing.T) (*cluster, *lives) {
	l := &lives{records: map[string]nodelife.Record{}, has: map[string][]string{}}
	return newClusterWith(t, func(o *nodeapi.Options) { o.Lives, o.Nodes, o.Registered = l, l, l.registered }), l
}

func subject(t *testing.T, path string) string {
	t.Helper()
	cert, err := pki.ReadCert(path)
	if err != nil {
		t.Fatal(err)
	}
	return cert.Subject.SerialNumber
}

// TestJoinAfterTheEnd: a node keeps its life from join to join. After the end its certificate
// is good for nothing, and the token brings it another life.
func TestJoinAfterTheEnd(t *testing.T) {
	c, l := newLives(t)
	opts := c.machine("n1")
	res := c.mustJoin(opts)
	first := subject(t, res.ClientCert)
	if first == "" || first != l.of("n1").Life || l.of("n1").Former {
		t.Fatalf("the certificate says %q, the record %+v", first, l.of("n1"))
	}
	c.seen()
	c.mustJoin(opts)
	if again := subject(t, res.ClientCert); again != first {
		t.Errorf("after a second join it says %q, was %q", again, first)
	}
	for _, r := range c.seen() {
		if r.credential {
			t.Errorf("the token was sent to %s", r.path)
		}
	}
	if err := l.Revoke(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	stolen := c.client(pki.Pair{Cert: res.ClientCert, Key: res.ClientKey})
	for _, path := range []string{joinapi.PathConfig, joinapi.PathPacketFilter, joinapi.PathLocalVolumes,
		joinapi.PathPartitions} {
		if code, _, body := c.send(stolen, http.MethodGet, path, "", ""); code != http.StatusUnauthorized ||
			!strings.Contains(body, "not good any more") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	without := opts
	without.Token = ""
	if _, err := join.Join(t.Context(), without); err == nil || !strings.Contains(err.Error(), "not good any more") {
		t.Errorf("without the token: %v", err)
	}
	c.mustJoin(opts)
	if second := subject(t, res.ClientCert); second == first || second != l.of("n1").Life {
		t.Errorf("with the token it says %q, was %q", second, first)
	}
}

// TestAddressesAreTheTokens: addresses change by a join with the token, and never by that of a
// certificate alone.
func TestAddressesAreTheTokens(t *testing.T) {
	c, l := newLives(t)
	opts := c.machine("n1")
	opts.FurtherIPs = []string{"198.51.100.1"}
	res := c.mustJoin(opts)
	want := func(texts ...string) {
		t.Helper()
		var got []string
		for _, ip := range l.of("n1").Addresses {
			got = append(got, ip.String())
		}
		if !slices.Equal(got, texts) {
			t.Errorf("the record has %v, want %v", got, texts)
		}
	}
	want("192.0.2.10", "198.51.100.1")
	moved := opts
	moved.NodeIPs, moved.Token = []string{"192.0.2.11"}, ""
	before := subject(t, res.ClientCert)
	var refused error
	if _, refused = join.Join(t.Context(), moved); refused == nil || !strings.Contains(refused.Error(),
		"takes the token") {
		t.Errorf("by the certificate: %v", refused)
	}
	further := opts
	further.FurtherIPs, further.Token = []string{"192.0.2.12"}, ""
	if _, err := join.Join(t.Context(), further); err != nil {
		t.Errorf("a further address, which is not told without a token: %v", err)
	}
	want("192.0.2.10", "198.51.100.1")
	c.seen()
	further.Token = opts.Token
	c.mustJoin(further) // by the certificate first, which is too little
	want("192.0.2.10", "192.0.2.12")
	if all := c.seen(); !slices.ContainsFunc(all, func(r seen) bool {
		return !r.credential && r.cert && r.statusCode == http.StatusUnauthorized
	}) {
		t.Errorf("the requests were %+v", all)
	}
	c.mustJoin(opts)
	moved.Token = opts.Token
	c.mustJoin(moved) // the agent itself falls back to the token
	want("192.0.2.11", "198.51.100.1")
	if subject(t, res.ClientCert) != before {
		t.Error("another life for another address")
	}
}

// TestJoinedBefore: a node that joined an older release goes on with its certificate, and with
// the addresses that its Node has.
func TestJoinedBefore(t *testing.T) {
	c, l := newLives(t)
	opts := c.machine("n1")
	opts.FurtherIPs = []string{}
	res := c.mustJoin(opts)
	// As if there had been no records.
	nodecert.Write(t, c.files, "n1", pki.Pair{Cert: res.ClientCert, Key: res.ClientKey})
	delete(l.records, "n1")
	l.has["n1"] = []string{"192.0.2.10", "n1"}
	without := opts
	without.Token = ""
	moved := without
	moved.NodeIPs = []string{"192.0.2.11"}
	if _, err := join.Join(t.Context(), moved); err == nil {
		t.Error("it takes an address that its Node has not")
	}
	if _, err := join.Join(t.Context(), without); err != nil {
		t.Fatal(err)
	}
	r := l.of("n1")
	if !r.Former || !r.Good("") || r.Life != subject(t, res.ClientCert) ||
		!slices.Equal(r.Addresses, []netip.Addr{netip.MustParseAddr("192.0.2.10")}) {
		t.Errorf("the record is %+v", r)
	}
}

// TestNodeRevokeEndpoint is for administrators, and for nodes that there are.
func TestNodeRevokeEndpoint(t *testing.T) {
	c, l := newLives(t)
	res := c.mustJoin(c.machine("n1"))
	admin, node := c.client(c.files.Admin), c.client(pki.Pair{Cert: res.ClientCert, Key: res.ClientKey})
	body := func(name string) string { return `{"nodeName":"` + name + `"}` }
	if code, _, _ := c.send(node, http.MethodPost, joinapi.PathRevokeNode, "",
		body("n1")); code != http.StatusForbidden {
		t.Errorf("as a node: %d", code)
	}
	if code, _, _ := c.send(admin, http.MethodPost, joinapi.PathRevokeNode, "",
		body("n2")); code != http.StatusNotFound {
		t.Errorf("a node that is not there: %d", code)
	}
	if code, _, got := c.send(admin, http.MethodPost, joinapi.PathRevokeNode, "", body("n1")); code != http.StatusOK ||
		!strings.Contains(got, `"joined":true`) {
		t.Errorf("%d %s", code, got)
	}
	if err := l.Alive("n1", subject(t, res.ClientCert)); !errors.Is(err, nodelife.ErrDead) {
		t.Errorf("afterwards: %v", err)
	}
}
