package networkpolicy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/knftables"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/netpolicy"
)

// node is an enforcer that runs, and its server.
type node struct {
	t      *testing.T
	lines  chan *netpolicy.Line // what the server tells; a nil ends the stream
	nft    *knftables.Fake
	client *fake.Clientset
	ready  chan struct{}
	result string // directory of the CNI library
}

func (n *node) attach(name, uid, address string) {
	n.t.Helper()
	record := `{"cniArgs":[["K8S_POD_NAMESPACE","default.t1"],["K8S_POD_NAME","` + name + `"],["K8S_POD_UID","` + uid + `"]],"result":{"ips":[{"address":"` + address + `/24"}]}}`
	if err := os.WriteFile(filepath.Join(n.result, "a4s-"+name+"-eth0"), []byte(record), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func start(t *testing.T, status int, change func(*enforcer)) *node {
	n := &node{t: t, lines: make(chan *netpolicy.Line), client: fake.NewClientset(), ready: make(chan struct{}, 100), result: t.TempDir()}
	n.nft = knftables.NewFake(knftables.InetFamily, TableName)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != joinapi.PathNetworkPolicies || status != http.StatusOK {
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
	e := newEnforcer(Options{
		Config: &rest.Config{Host: server.URL}, Client: n.client, NodeName: "n1", Pods: pods,
		Clusters: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")}, Bridge: "br0",
	})
	e.open = func(context.Context) (knftables.Interface, error) { return n.nft, nil }
	e.bridge = func([]string) error { return nil }
	if change != nil {
		change(e)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- e.run(ctx, func() { n.ready <- struct{}{} }) }()
	go func() { done <- pods.Component().Run(ctx, func() {}) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	return n
}

func (n *node) tell(lines ...netpolicy.Line) {
	for _, l := range append(lines, netpolicy.Line{Complete: true}) {
		n.lines <- &l
	}
}

func (n *node) await(what string, cond func(dump string) bool) {
	n.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
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

func told(name, uid string, ingress ...string) netpolicy.Line {
	return netpolicy.Line{Pod: &netpolicy.Pod{Namespace: "default.t1", Name: name, UID: uid, Ingress: ingress}}
}

func rulesOf(p string) netpolicy.Line {
	return netpolicy.Line{Policy: &netpolicy.Policy{ID: p, Ingress: []netpolicy.Rule{{Peers: "s", AnyPort: true}}}}
}

func TestFollowsTheServer(t *testing.T) {
	n := start(t, http.StatusOK, nil)
	n.tell(netpolicy.Line{Off: true})
	<-n.ready
	if got := n.dump(); got != "" {
		t.Errorf("without policies there is a table:\n%s", got)
	}
	n.tell(peers("s", "10.42.1.5"), rulesOf("default.t1/p"), told("web", "u1", "default.t1/p"))
	web := "add element inet a4s_policies ingress-4 { 10.42.0.5 : goto i-pods-" + hash("default.t1/p") + " }"
	members := "add element inet a4s_policies set-" + hash("s") + "-4 "
	n.await("the pod is isolated", shows("judged-4 { 10.42.0.5 }", web, members+"{ 10.42.1.5 }"))

	// A pod is cut off until its name is told; another one of the same name is
	// another pod.
	n.attach("next", "u2", "10.42.0.6")
	n.tell(told("next", "u0"))
	n.attach("last", "u3", "10.42.0.7")
	n.tell(told("last", "u3"))
	n.await("the pod that was told is let go", shows("judged-4 { 10.42.0.7 }", "!10.42.0.6"))
	n.tell(told("next", "u2"))
	n.await("and the other one", shows("judged-4 { 10.42.0.6 }"))

	// The next stream tells everything anew; until it did, the last state stays.
	n.lines <- nil
	first := peers("s", "10.42.1.6")
	n.lines <- &first
	if !shows(web, members+"{ 10.42.1.5 }")(n.dump()) {
		t.Errorf("half of what is told is in effect:\n%s", n.dump())
	}
	n.tell(rulesOf("default.t1/p"), told("web", "u1", "default.t1/p"), told("next", "u2", "default.t1/p"), told("last", "u3"))
	n.await("the new state", shows(web, "ingress-4 { 10.42.0.6 :", members+"{ 10.42.1.6 }", "!10.42.1.5"))
	n.tell(netpolicy.Line{Off: true})
	n.await("there is no table", func(dump string) bool { return dump == "" })
}

// Where no server answers, the table of the run before is enough to start pods.
func TestTableOfTheRunBefore(t *testing.T) {
	const left = "judged-4 { 10.42.0.9 }"
	n := start(t, http.StatusServiceUnavailable, func(e *enforcer) {
		e.hold = time.Hour
		nft, err := e.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := state{known: newKnowledge(), owners: map[netip.Addr]localpods.Owner{addr("10.42.0.9"): {}}, now: time.Now()}
		table, _, _ := s.render()
		tx := nft.NewTransaction()
		table.replace(tx)
		if err := nft.Run(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	})
	<-n.ready
	if dump := n.dump(); !strings.Contains(dump, left) {
		t.Errorf("the table is\n%s", dump)
	}
}

func TestNodeStartsWithoutAServer(t *testing.T) {
	n := start(t, http.StatusServiceUnavailable, func(e *enforcer) { e.hold = time.Millisecond })
	<-n.ready
	if got := n.dump(); got != "" {
		t.Errorf("there is a table:\n%s", got)
	}
}

func TestServerWithoutPolicies(t *testing.T) {
	n := start(t, http.StatusNotFound, nil)
	<-n.ready
	if got := n.dump(); got != "" {
		t.Errorf("there is a table:\n%s", got)
	}
}

func TestWhatIsNotEnforcedIsSaid(t *testing.T) {
	for name, change := range map[string]func(*enforcer){
		"no nftables": func(e *enforcer) {
			e.open = func(context.Context) (knftables.Interface, error) { return nil, errors.New("no such thing") }
		},
		"bridge": func(e *enforcer) { e.bridge = func([]string) error { return errors.New("no such thing") } },
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, http.StatusOK, change)
			n.tell(netpolicy.Line{Off: true})
			<-n.ready
			if events, err := n.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{}); err != nil || len(events.Items) != 0 {
				t.Errorf("without policies there are events: %v, %v", events, err)
			}
			n.tell(told("web", "u1"))
			n.await("there is an event", func(string) bool {
				events, err := n.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
				return err == nil && len(events.Items) == 1 && events.Items[0].InvolvedObject.Name == "n1" && events.Items[0].Reason == Reason &&
					strings.Contains(events.Items[0].Message, "NOT enforced") && strings.Contains(events.Items[0].Message, "no such thing")
			})
		})
	}
}

// A pod that the server does not speak of waits, longer if nobody speaks.
func TestPatience(t *testing.T) {
	began := time.Now()
	for _, tc := range []struct {
		name       string
		heard, now time.Duration
		judged     bool
	}{
		{"at once", 0, 0, false},
		{"a moment later", patience / 2, patience / 2, false},
		{"the server spoke", patience, patience, true},
		{"the server fell silent", patience / 2, forsaken - 1, false},
		{"for long", patience / 2, forsaken, true},
	} {
		a := addr("10.42.0.5")
		s := state{
			known: newKnowledge(), owners: map[netip.Addr]localpods.Owner{a: {Namespace: "default", Name: "static", UID: "u"}},
			since: map[netip.Addr]time.Time{a: began}, heard: began.Add(tc.heard), now: began.Add(tc.now),
		}
		table, unknown, again := s.render()
		if got := table.sets["judged-4"].elements[a.String()]; got != tc.judged || len(unknown) > 0 != tc.judged || again == 0 != tc.judged {
			t.Errorf("%s: judged %v, unknown %v, again in %s", tc.name, got, unknown, again)
		}
	}
}
