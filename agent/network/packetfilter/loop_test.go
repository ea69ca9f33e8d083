package packetfilter

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/knftables"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/netpolicy"
)

// node is a packet filter that runs, and its server.
type node struct {
	t        *testing.T
	lines    chan *netpolicy.FilterLine // what the server tells; a nil ends the stream
	nft      *knftables.Fake
	client   *fake.Clientset
	isolated chan struct{} // the tenants' part is ready
	ready    chan struct{} // the policies' part is ready
	result   string        // directory of the CNI library
	mu       sync.Mutex
	dropped  []string // tables of earlier versions
}

func (n *node) attach(name, uid, address string) {
	n.t.Helper()
	record := `{"cniArgs":[["K8S_POD_NAMESPACE","default.t1"],["K8S_POD_NAME","` + name + `"],["K8S_POD_UID","` + uid +
		`"]],"result":{"ips":[{"address":"` + address + `/24"}]}}`
	if err := os.WriteFile(filepath.Join(n.result, "a4s-"+name+"-eth0"), []byte(record), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// flaky is an nftables that refuses transactions that fails picks.
type flaky struct {
	knftables.Interface
	fails func(tx string) bool
}

func (f flaky) Run(ctx context.Context, tx *knftables.Transaction) error {
	if f.fails(tx.String()) {
		return errors.New("refused")
	}
	return f.Interface.Run(ctx, tx)
}

func start(t *testing.T, status int, change func(*node, *filter)) *node {
	n := &node{
		t: t, lines: make(chan *netpolicy.FilterLine), client: fake.NewClientset(), result: t.TempDir(),
		isolated: make(chan struct{}, 1000), ready: make(chan struct{}, 1000),
		nft: knftables.NewFake(knftables.InetFamily, TableName),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != joinapi.PathPacketFilter || status != http.StatusOK {
			http.Error(w, "nothing here", status)
			return
		}
		for {
			select {
			case l := <-n.lines:
				if l == nil || json.NewEncoder(w).Encode(l) != nil || http.NewResponseController(w).Flush() != nil {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	n.attach("web", "u1", "10.42.0.5")
	pods := localpods.New(localpods.Options{Client: n.client, NodeName: "n1", Results: n.result})
	f := newFilter(Options{
		Config: &rest.Config{Host: server.URL}, Client: n.client, NodeName: "n1", Pods: pods,
		Clusters: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")}, Bridge: "br0",
	})
	f.open = func(context.Context) (knftables.Interface, error) { return n.nft, nil }
	f.bridge = func([]string) error { return nil }
	f.old = func(context.Context) ([]netfilter.Table, error) { return nil, nil }
	f.drop = func(_ context.Context, name string) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.dropped = append(n.dropped, name)
		return nil
	}
	if change != nil {
		change(n, f)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 3)
	all := f.components()
	go func() { done <- all[0].Run(ctx, func() { n.isolated <- struct{}{} }) }()
	go func() { done <- pods.Component().Run(ctx, func() {}) }()
	if len(all) > 1 {
		go func() {
			for ctx.Err() == nil { // as a group does, without its pause
				if err := all[1].Run(ctx, func() { n.ready <- struct{}{} }); err != nil &&
					err.Error() != "writing the rules of network policies: refused" {
					t.Error(err)
				}
				time.Sleep(time.Millisecond)
			}
			done <- nil
		}()
	} else {
		done <- nil
	}
	t.Cleanup(func() {
		cancel()
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	return n
}

// tell tells policies.
func (n *node) tell(lines ...netpolicy.Line) {
	for _, l := range append(lines, netpolicy.Line{Complete: true}) {
		n.lines <- &netpolicy.FilterLine{Policy: &l}
	}
}

// locate tells addresses.
func (n *node) locate(lines ...joinapi.PodAddress) {
	for _, p := range lines {
		n.lines <- &netpolicy.FilterLine{Address: &p}
	}
}

func (n *node) await(what string, cond func(dump string) bool) {
	n.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !cond(n.dump()) {
		if time.Now().After(deadline) {
			n.t.Fatalf("timed out until %s; the table is\n%s", what, n.dump())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (n *node) dump() string {
	n.nft.RLock()
	defer n.nft.RUnlock()
	if n.nft.Table == nil {
		return ""
	}
	return n.nft.Dump()
}

func shows(parts ...string) func(string) bool {
	return func(dump string) bool {
		for _, p := range parts {
			p, absent := strings.CutPrefix(p, "!")
			if strings.Contains(dump, p) == absent {
				return false
			}
		}
		return true
	}
}

// noPolicies reports whether the table has no part of policies.
var noPolicies = shows("!judged-4", "! ingress", "! egress")

// t1 reports whether tenant t1 consists of addresses, and no other is in the pod
// network.
func t1(addresses ...string) func(string) bool {
	return func(dump string) bool {
		const element = "add element inet a4s_filter tenants-of-t1-4 "
		if strings.Count(dump, element) != len(addresses) {
			return false
		}
		return !slices.ContainsFunc(addresses, func(a string) bool {
			return !strings.Contains(dump, element+"{ "+a+" }")
		})
	}
}

func TestFollowsTheAddresses(t *testing.T) {
	n := start(t, http.StatusOK, nil)
	<-n.isolated
	if dump := n.dump(); !t1("10.42.0.5")(dump) || !noPolicies(dump) {
		t.Errorf("before a server says anything:\n%s", dump)
	}
	n.locate(joinapi.PodAddress{IP: "10.42.1.5", Tenant: "t1"}, joinapi.PodAddress{IP: "10.42.1.6", Tenant: "t2"},
		joinapi.PodAddress{Complete: true})
	n.await("all at once", t1("10.42.0.5", "10.42.1.5"))
	n.lines <- &netpolicy.FilterLine{}
	n.locate(joinapi.PodAddress{IP: "10.42.1.7", Tenant: "t1"})
	n.await("a new pod", t1("10.42.0.5", "10.42.1.5", "10.42.1.7"))
	n.locate(joinapi.PodAddress{IP: "10.42.1.5", Deleted: true})
	n.await("a pod less", t1("10.42.0.5", "10.42.1.7"))

	// The next stream does not know a pod that went meanwhile; until it has
	// told everything, the last state stays.
	n.lines <- nil
	n.locate(joinapi.PodAddress{IP: "10.42.1.8", Tenant: "t1"})
	time.Sleep(5 * minGap)
	if dump := n.dump(); !t1("10.42.0.5", "10.42.1.7")(dump) {
		t.Errorf("rules from half a list:\n%s", dump)
	}
	n.locate(joinapi.PodAddress{Complete: true})
	n.await("after the connection broke", t1("10.42.0.5", "10.42.1.8"))
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.dropped, []string{oldTenantsTable}) {
		t.Errorf("the tables %v of earlier versions were removed", n.dropped)
	}
}

// put writes a part as a run before would have.
func (n *node) put(part *table) {
	tx := n.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	part.change(tx, newTable())
	if err := n.nft.Run(n.t.Context(), tx); err != nil {
		n.t.Fatal(err)
	}
}

func TestTenantsOfTheRunBeforeStayUntilAServerAnswers(t *testing.T) {
	for name, before := range map[string]func(*node, *filter){
		"this version": func(n *node, _ *filter) {
			n.put(tenantState{known: pods(map[string]localpods.Pod{"10.42.1.9": {Tenant: "t1"}}),
				local: pods(map[string]localpods.Pod{"10.42.0.9": {Tenant: "t1"}})}.render())
		},
		"an earlier version": func(_ *node, f *filter) {
			f.old = func(context.Context) ([]netfilter.Table, error) {
				return []netfilter.Table{{Family: "inet", Name: "a4s_tenants"}}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, http.StatusOK, before)
			<-n.isolated // pods may start
			first := n.dump()
			n.locate(joinapi.PodAddress{IP: "10.42.1.5", Tenant: "t1"})
			time.Sleep(5 * minGap)
			if dump := n.dump(); dump != first {
				t.Errorf("rules without the server's knowledge:\n%s", dump)
			}
			n.locate(joinapi.PodAddress{Complete: true})
			n.await("the server answered", t1("10.42.0.5", "10.42.1.5"))
		})
	}
}

// Each part is written although the other one is disabled, not known, or
// cannot be.
func TestPartsAreIndependent(t *testing.T) {
	old := func(n *node) {
		s := policyState{known: newKnowledge(),
			owners: map[netip.Addr]localpods.Owner{addr("10.42.0.9"): {}}, now: time.Now()}
		part, _, _ := s.render()
		n.put(part)
	}
	t.Run("policies are not known", func(t *testing.T) {
		n := start(t, http.StatusOK, func(n *node, _ *filter) { old(n) })
		n.locate(joinapi.PodAddress{IP: "10.42.1.5", Tenant: "t1"}, joinapi.PodAddress{Complete: true})
		n.await("tenants are apart, and policies as before", func(dump string) bool {
			return t1("10.42.0.5", "10.42.1.5")(dump) && shows("judged-4 { 10.42.0.9 }")(dump)
		})
	})
	t.Run("policies are disabled", func(t *testing.T) {
		n := start(t, http.StatusOK, func(n *node, f *filter) { old(n); f.DisablePolicies = true })
		n.locate(joinapi.PodAddress{IP: "10.42.1.5", Tenant: "t1"}, joinapi.PodAddress{Complete: true})
		n.await("tenants are apart", t1("10.42.0.5", "10.42.1.5"))
		if dump := n.dump(); !noPolicies(dump) {
			t.Errorf("the rules of policies are still there:\n%s", dump)
		}
	})
	t.Run("policies cannot be written", func(t *testing.T) {
		var mu sync.Mutex
		refused := true
		n := start(t, http.StatusOK, func(n *node, f *filter) {
			f.open = func(context.Context) (knftables.Interface, error) {
				return flaky{n.nft, func(tx string) bool {
					mu.Lock()
					defer mu.Unlock()
					return refused && strings.Contains(tx, "judged-4")
				}}, nil
			}
		})
		n.tell(told("web", "u1"))
		n.locate(joinapi.PodAddress{IP: "10.42.1.5", Tenant: "t1"}, joinapi.PodAddress{Complete: true})
		n.await("tenants are apart", t1("10.42.0.5", "10.42.1.5"))
		select {
		case <-n.ready:
			t.Error("the component of policies is ready")
		default:
		}
		mu.Lock()
		refused = false
		mu.Unlock()
		<-n.ready
		n.await("policies are there at last", shows("judged-4 { 10.42.0.5 }"))
	})
	t.Run("tenants cannot be written", func(t *testing.T) {
		pods := localpods.New(localpods.Options{Client: fake.NewClientset(), NodeName: "n1", Results: t.TempDir()})
		f := newFilter(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Pods: pods})
		nft := knftables.NewFake(knftables.InetFamily, TableName)
		f.open = func(context.Context) (knftables.Interface, error) {
			return flaky{nft, func(tx string) bool { return strings.Contains(tx, prefix) }}, nil
		}
		f.old = func(context.Context) ([]netfilter.Table, error) { return nil, nil }
		if err := f.run(t.Context(), func() { t.Error("the component of isolation is ready") }); err == nil ||
			!strings.Contains(err.Error(), "keep tenants apart") {
			t.Errorf("the component of isolation ends with %v", err)
		}
	})
}
