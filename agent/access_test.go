package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/agent/cluster/loadbalancer"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/tests/nodecert"
)

// servedAPI answers what a node asks about servers and groups.
type servedAPI struct {
	mu      sync.Mutex
	slices  []discoveryv1.EndpointSlice // of the API itself
	changed chan struct{}
	streams []string // that watches of everything have asked for
}

// add says that there is a server of a group, "" for none.
func (a *servedAPI) add(group, ip string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "of-" + ip, Namespace: "default",
			ResourceVersion: fmt.Sprint(len(a.slices) + 2),
			Labels:          map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		Ports:     []discoveryv1.EndpointPort{{Port: new(int32(6443))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip}}},
	}
	s.APIVersion, s.Kind = "discovery.k8s.io/v1", "EndpointSlice"
	if group != "" {
		s.Labels[partitionapi.GroupLabel] = group
	}
	a.slices = append(a.slices, s)
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *servedAPI) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.streams)
}

func (a *servedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	watches := r.URL.Query().Get("watch") != ""
	switch {
	case r.URL.Query().Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity) // sends clients to plain lists
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","reason":"Invalid","code":422}`)
	case strings.HasSuffix(r.URL.Path, "/namespaces/default/endpointslices"):
		a.serveSlices(w, r, watches)
	case !watches:
		kind := map[bool]string{true: "DataPartitionConfigList", false: "EndpointSliceList"}[r.URL.Path ==
			"/api/v1/datapartitionconfigs"]
		version := strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(r.URL.Path), "/apis/"), "/api/")
		_, _ = fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"5"},"items":[]}`,
			kind, version)
	default:
		if strings.HasSuffix(r.URL.Path, "/endpointslices") {
			stream := r.Header.Get(partitionapi.StreamHeader)
			a.mu.Lock()
			a.streams = append(a.streams, stream)
			a.mu.Unlock()
			w.Header().Set(partitionapi.StreamHeader, stream)
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

func (a *servedAPI) serveSlices(w http.ResponseWriter, r *http.Request, watches bool) {
	a.mu.Lock()
	sent := len(a.slices)
	list := discoveryv1.EndpointSliceList{Items: slices.Clone(a.slices)}
	a.mu.Unlock()
	if !watches {
		list.APIVersion, list.Kind = "discovery.k8s.io/v1", "EndpointSliceList"
		list.ResourceVersion = fmt.Sprint(sent + 1)
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	if _, err := fmt.Sscan(r.URL.Query().Get("resourceVersion"), &sent); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for sent--; ; {
		a.mu.Lock()
		more, changed := slices.Clone(a.slices[sent:]), a.changed
		a.mu.Unlock()
		for _, s := range more {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": watch.Added, "object": s})
			sent++
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// newNode starts an API, and makes what a node that has joined it has.
func newNode(t *testing.T) (*servedAPI, *access, *join.Result, *component.Group) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	entry := logrus.NewEntry(log)
	dir := t.TempDir()
	made, err := pki.Ensure(filepath.Join(dir, "server"), pki.Options{SANs: []string{"127.0.0.1"}, Log: entry})
	if err != nil {
		t.Fatal(err)
	}
	serving, err := tls.LoadX509KeyPair(made.ServingAPIServer.Cert, made.ServingAPIServer.Key)
	if err != nil {
		t.Fatal(err)
	}
	joined := &join.Result{ServerCA: made.ServerCA.Cert, ClientCert: filepath.Join(dir, "client.crt"),
		ClientKey: filepath.Join(dir, "client.key")}
	nodecert.Write(t, made, "n1", pki.Pair{Cert: joined.ClientCert, Key: joined.ClientKey})
	served := &servedAPI{changed: make(chan struct{})}
	s := httptest.NewUnstartedServer(served)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{serving}}
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	a := newAccess(&config.Agent{NodeName: "n1"}, dir)
	a.url = s.URL
	group := component.NewGroup(entry)
	t.Cleanup(func() {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	})
	return served, a, joined, group
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// watchesAll watches everything as a client of a kubeconfig does, for a moment.
func watchesAll(t *testing.T, path string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.DiscoveryV1().EndpointSlices("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "9"})
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()
}

// TestANodeFollowsGroups: clients of the file for kube-proxy ask one server for everything, and
// for streams as soon as the cluster has a group; those of the node's credential always do the
// former.
func TestANodeFollowsGroups(t *testing.T) {
	served, a, joined, group := newNode(t)
	a.balancer = loadbalancer.New(loadbalancer.Options{Listen: "127.0.0.1:1", Configured: []string{a.url},
		Dir: t.TempDir(), Log: logrus.WithField("component", loadbalancer.Name)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 { // what it had saved, and what it is told
		if err := a.writeCredential(joined); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.follow(ctx, group, joined); err != nil {
		t.Fatal(err)
	}
	served.add("", "192.0.2.1")
	eventually(t, "it does not learn of the server", func() bool { return len(a.balancer.Servers()) == 2 })
	watchesAll(t, a.embeddedCredential())
	if got := served.asked(); !slices.Equal(got, []string{""}) {
		t.Fatalf("without groups it asks for %q", got)
	}
	served.add("0", "192.0.2.2")
	eventually(t, "it does not ask for streams", func() bool {
		watchesAll(t, a.embeddedCredential())
		got := served.asked()
		return got[len(got)-1] == partitionapi.Rest
	})
	watchesAll(t, a.credential())
	if got := served.asked(); got[len(got)-1] != "" {
		t.Errorf("what is made of the node's credential elsewhere asks for %q", got)
	}
}

// TestFilesOfAllPartitions: clients of the file for kube-proxy and flannel have the way to all
// partitions, those of the node's credential do not.
func TestFilesOfAllPartitions(t *testing.T) {
	_, a, joined, _ := newNode(t)
	asked := 0
	a.everywhere = func(own http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			asked++
			return own.RoundTrip(r)
		})
	}
	if err := a.writeCredential(joined); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{a.embeddedCredential(): 1, a.credential(): 0} {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		asked = 0
		_, err = client.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "x", metav1.GetOptions{})
		if asked != want {
			t.Errorf("%s: it was asked %d times: %v", filepath.Base(path), asked, err)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestTheNodeOfAServer: it reaches the servers of other groups, and without a group nothing
// follows anything.
func TestTheNodeOfAServer(t *testing.T) {
	served, a, joined, group := newNode(t)
	for _, c := range []struct {
		own        string
		components int
	}{{"", 0}, {"0", 2}} {
		joined.Config.ServiceGroup = c.own
		if err := a.writeCredential(joined); err != nil {
			t.Fatal(err)
		}
		if err := a.follow(t.Context(), group, joined); err != nil {
			t.Fatal(err)
		}
		if got := group.States(); len(got) != c.components {
			t.Errorf("of group %q: %+v", c.own, got)
		}
	}
	served.add("0", "192.0.2.1")
	served.add("1", "192.0.2.2")
	eventually(t, "it does not learn of the other group", func() bool {
		return slices.Equal(a.Group("1"), []string{"192.0.2.2:6443"})
	})
	if got := a.Group("0"); got != nil {
		t.Errorf("of its own group it asks %q", got)
	}
}
