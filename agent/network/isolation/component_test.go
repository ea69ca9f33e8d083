package isolation

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/internal/joinapi"
)

// teller is a server; what is put into lines it tells, a nil ends the stream.
type teller struct {
	*httptest.Server
	lines chan *joinapi.PodAddress
}

func newTeller(t *testing.T) *teller {
	tell := &teller{lines: make(chan *joinapi.PodAddress)}
	tell.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != joinapi.PathPodAddresses {
			http.NotFound(w, r)
			return
		}
		for {
			select {
			case p := <-tell.lines:
				if p == nil {
					return
				}
				if json.NewEncoder(w).Encode(p) != nil || http.NewResponseController(w).Flush() != nil {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(tell.Close)
	return tell
}

func (tell *teller) tell(lines ...joinapi.PodAddress) {
	for _, p := range lines {
		tell.lines <- &p
	}
}

// run is an isolator that runs.
type run struct {
	t       *testing.T
	scripts chan string
	ready   chan struct{}
}

func start(t *testing.T, tell *teller, existed bool) *run {
	t.Helper()
	results := t.TempDir()
	record := `{"cniArgs":[["K8S_POD_NAMESPACE","default.t1"],["K8S_POD_NAME","web"]],"result":{"ips":[{"address":"10.42.0.5/24"}]}}`
	if err := os.WriteFile(filepath.Join(results, "a4s-c1-eth0"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	i := newIsolator(Options{
		Config: &rest.Config{Host: tell.URL}, Clusters: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")},
		Pods: localpods.New(localpods.Options{Client: fake.NewClientset(), NodeName: "n1", Results: results}),
	})
	r := &run{t: t, scripts: make(chan string, 100), ready: make(chan struct{}, 100)}
	i.usable = func(context.Context) error { return nil }
	i.exists = func(context.Context) (bool, error) { return existed, nil }
	i.apply = func(_ context.Context, script string) error { r.scripts <- script; return nil }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- i.run(ctx, func() { r.ready <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// await waits for rules in which tenant t1 consists of addresses.
func (r *run) await(what, addresses string) {
	r.t.Helper()
	late := time.After(20 * time.Second)
	last := ""
	for {
		select {
		case last = <-r.scripts:
			if strings.Contains(last, "set of-t1-4 { type ipv4_addr; elements = { "+addresses+" }; }") {
				return
			}
		case <-late:
			r.t.Fatalf("%s: no rules with %s; the last ones were\n%s", what, addresses, last)
		}
	}
}

func TestFollowsTheServer(t *testing.T) {
	tell := newTeller(t)
	r := start(t, tell, false)
	r.await("before a server says anything", "10.42.0.5")
	<-r.ready
	tell.tell(joinapi.PodAddress{IP: "10.42.1.5", Tenant: "t1"}, joinapi.PodAddress{IP: "10.42.1.6", Tenant: "t2"}, joinapi.PodAddress{Complete: true})
	r.await("all at once", "10.42.0.5, 10.42.1.5")
	tell.tell(joinapi.PodAddress{}, joinapi.PodAddress{IP: "10.42.1.7", Tenant: "t1"})
	r.await("a new pod", "10.42.0.5, 10.42.1.5, 10.42.1.7")
	tell.tell(joinapi.PodAddress{IP: "10.42.1.5", Deleted: true})
	r.await("a pod less", "10.42.0.5, 10.42.1.7")

	// The next stream does not know a pod that went meanwhile; until it has
	// told everything, the last state stays.
	tell.lines <- nil
	tell.tell(joinapi.PodAddress{IP: "10.42.1.8", Tenant: "t1"})
	select {
	case script := <-r.scripts:
		t.Errorf("rules from half a list:\n%s", script)
	default:
	}
	tell.tell(joinapi.PodAddress{Complete: true})
	r.await("after the connection broke", "10.42.0.5, 10.42.1.8")
}

func TestTableOfTheRunBeforeStaysUntilAServerAnswers(t *testing.T) {
	tell := newTeller(t)
	r := start(t, tell, true)
	<-r.ready // pods may start
	tell.tell(joinapi.PodAddress{IP: "10.42.1.5", Tenant: "t1"})
	select {
	case script := <-r.scripts:
		t.Errorf("rules without the server's knowledge:\n%s", script)
	default:
	}
	tell.tell(joinapi.PodAddress{Complete: true})
	r.await("the server answered", "10.42.0.5, 10.42.1.5")
}
