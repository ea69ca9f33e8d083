package packetfilter

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/netpolicy"
)

// teller is the server of a partition.
type teller struct {
	*httptest.Server
	lines chan netpolicy.FilterLine
}

func newTeller(t *testing.T) *teller {
	s := &teller{lines: make(chan netpolicy.FilterLine)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case l := <-s.lines:
				if json.NewEncoder(w).Encode(l) != nil || http.NewResponseController(w).Flush() != nil {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *teller) policies(lines ...netpolicy.Line) {
	for _, l := range append(lines, netpolicy.Line{Complete: true}) {
		s.lines <- netpolicy.FilterLine{Policy: &l}
	}
}

func (s *teller) addresses(lines ...joinapi.PodAddress) {
	for _, p := range append(lines, joinapi.PodAddress{Complete: true}) {
		s.lines <- netpolicy.FilterLine{Address: &p}
	}
}

// TestSeveralPartitions: what their servers tell is united, pods of equal names are under the
// policies of their own, and a partition that is silent takes nothing away.
func TestSeveralPartitions(t *testing.T) {
	home, tp2 := newTeller(t), newTeller(t)
	var mu sync.Mutex
	changed := make(chan struct{})
	all := []Server{{Name: "main", Config: &rest.Config{Host: home.URL}}}
	dir := t.TempDir()
	several := func(n *node, f *filter) {
		f.Dir = dir
		f.Servers = func() ([]Server, <-chan struct{}) {
			mu.Lock()
			defer mu.Unlock()
			return all, changed
		}
		f.Partition = func(namespace string) (string, bool) {
			return map[string]string{"kube-system": "main", "kube-system.tp2.system": "tp2"}[namespace], true
		}
		for namespace, address := range map[string]string{
			"kube-system": "10.42.0.6", "kube-system.tp2.system": "10.42.0.7"} {
			record := `{"cniArgs":[["K8S_POD_NAMESPACE","` + namespace + `"],["K8S_POD_NAME","x"],["K8S_POD_UID","` +
				namespace + `"]],"result":{"ips":[{"address":"` + address + `/24"}]}}`
			file := filepath.Join(n.result, "a4s-"+namespace+"-eth0")
			if err := os.WriteFile(file, []byte(record), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	n := start(t, http.StatusOK, several)
	of := func(uid string, policies ...string) netpolicy.Line {
		return netpolicy.Line{Pod: &netpolicy.Pod{Namespace: "kube-system", Name: "x", UID: uid, Ingress: policies}}
	}
	rule := func(port uint16) netpolicy.Line {
		return netpolicy.Line{Policy: &netpolicy.Policy{ID: "kube-system/p", Ingress: []netpolicy.Rule{{
			AnyPeer: true, Ports: []netpolicy.Ports{{Protocol: "TCP", First: port, Last: port}}}}}}
	}
	home.policies(of("kube-system", "kube-system/p"), rule(1111))
	home.addresses(joinapi.PodAddress{IP: "10.42.9.1", Tenant: "t1"})
	n.await("home's policy is in effect", shows("tcp dport { 1111 }", "10.42.9.1", "!tcp dport { 2222 }"))
	mu.Lock()
	all = append(all, Server{Name: "tp2", Qualifier: "tp2", Config: &rest.Config{Host: tp2.URL},
		Clusters: []netip.Prefix{netip.MustParsePrefix("10.142.0.0/16")}})
	close(changed)
	changed = make(chan struct{})
	mu.Unlock()
	tp2.policies(of("kube-system.tp2.system", "kube-system/p"), rule(2222))
	tp2.addresses(joinapi.PodAddress{IP: "10.142.9.1", Tenant: "t1"})
	n.await("both policies are in effect", shows("tcp dport { 1111 }", "tcp dport { 2222 }", "10.42.9.1",
		"10.142.9.1", "10.142.0.0/16"))
	// Of a partition that is down, the policies that were known last are in effect.
	again := newFilter(Options{Pods: localpods.New(localpods.Options{Client: n.client, NodeName: "n1",
		Results: t.TempDir()})})
	several(&node{t: t, result: t.TempDir()}, again)
	n.await("the policies are kept", func(string) bool {
		for _, name := range []string{"main", "tp2"} {
			if _, err := os.Stat(filepath.Join(dir, name+".json")); err != nil {
				return false
			}
		}
		return true
	})
	was, is := again.followers().recall("tp2"), again.followers().recall("main")
	if was == nil || is == nil || len(was.pods) != 1 || was.pods["kube-system.tp2.system/x"] == nil ||
		len(was.policies) != 1 || was.policies["tp2:kube-system/p"].Ingress[0].Ports[0].First != 2222 ||
		is.pods["kube-system/x"] == nil || was.off || is.off {
		t.Errorf("what is kept is %+v, %+v", was, is)
	}
	// The pods of a partition without policies are under none.
	tp2.policies(netpolicy.Line{Off: true})
	n.await("those of tp2 are gone", shows("tcp dport { 1111 }", "!tcp dport { 2222 }", "10.42.0.7", "10.142.9.1"))
	// One that begins anew has told nothing until it is complete.
	home.CloseClientConnections()
	home.lines <- netpolicy.FilterLine{Address: &joinapi.PodAddress{IP: "10.42.9.2", Tenant: "t1"}}
	tp2.lines <- netpolicy.FilterLine{Address: &joinapi.PodAddress{IP: "10.142.9.2", Tenant: "t1"}}
	n.await("tp2's change is there", shows("10.142.9.2", "10.42.9.1", "!10.42.9.2", "tcp dport { 1111 }"))
	mu.Lock()
	all = all[:1]
	close(changed)
	changed = make(chan struct{})
	mu.Unlock()
	n.await("what left is gone", shows("!10.142.9.1", "!10.142.0.0/16", "10.42.9.1"))
	n.await("nothing is kept of one partition", func(string) bool {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		return err == nil && len(files) == 0
	})
}
