package nodeapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/netpolicy"
	"github.com/a4s-io/a4s/server/addons/networkpolicy"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

func podAt(namespace, name, ip string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: ip}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// known is what the reader of a stream knows.
type known map[string]joinapi.PodAddress

// read applies lines until cond holds.
func (k known) read(t *testing.T, lines *bufio.Scanner, what string, cond func(joinapi.PodAddress) bool) {
	t.Helper()
	for lines.Scan() {
		var p joinapi.PodAddress
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		switch {
		case p.Deleted:
			delete(k, p.IP)
		case p.IP != "":
			k[p.IP] = p
		}
		if cond(p) {
			return
		}
	}
	t.Fatalf("the stream ended before %s: %v; it told %v", what, lines.Err(), k)
}

// on binds a pod to a node.
func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func TestAddressesAreStreamed(t *testing.T) {
	shared := func(p *corev1.Pod) { p.Annotations = map[string]string{"a4s.io/shared": "true"} }
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
			Spec: corev1.NodeSpec{PodCIDRs: []string{"10.42.1.0/24", "fd00:42:0:1::/64"}}},
		podAt("default.t1", "web", "10.42.1.5", shared, on("n1")), // not a tenant's to share
		podAt("default.t3", "far", "10.42.2.5", on("n2")),
		podAt("kube-system", "metrics", "10.42.1.6", shared),
		podAt("default", "private", "10.42.1.7"),
		podAt("default.t1", "host", "192.0.2.2", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		podAt("default.t1", "done", "10.42.1.8", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
	)
	watches := make(chan struct{}, 2)
	client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		watches <- struct{}{}
		return true, w, err
	})
	addresses := NewAddresses(client)
	s := New(Options{Addresses: addresses, Log: logrus.NewEntry(logrus.New())})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.streams.podAddresses(w, r, identity{node: "n1"}); err != nil {
			s.refuse(w, r, err)
		}
	}))
	defer server.Close()
	get := func() *http.Response {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	if resp := get(); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("before the pods are known: %s", resp.Status)
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- addresses.Run(ctx) }()
	<-watches
	<-watches
	var resp *http.Response
	for resp = get(); resp.StatusCode == http.StatusServiceUnavailable; resp = get() {
	}
	lines := bufio.NewScanner(resp.Body)
	k := known{}
	k.read(t, lines, "everything", func(p joinapi.PodAddress) bool { return p.Complete })
	want := known{
		"10.42.1.0":      {IP: "10.42.1.0", Tenant: "system", Shared: true},
		"10.42.1.1":      {IP: "10.42.1.1", Tenant: "system", Shared: true},
		"fd00:42:0:1::":  {IP: "fd00:42:0:1::", Tenant: "system", Shared: true},
		"fd00:42:0:1::1": {IP: "fd00:42:0:1::1", Tenant: "system", Shared: true},
		"10.42.1.5":      {IP: "10.42.1.5", Tenant: "t1"},
		"10.42.1.6":      {IP: "10.42.1.6", Tenant: "system", Shared: true},
		"10.42.1.7":      {IP: "10.42.1.7", Tenant: "system"},
	}
	if !maps.Equal(k, want) {
		t.Errorf("told %v\nwant %v", k, want)
	}

	// Another tenant's pod gets an address whose owner is still there.
	if _, err := client.CoreV1().Pods("default.t2").Create(ctx, podAt("default.t2", "new", "10.42.1.5", on("n1")),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.read(t, lines, "the address has two owners", func(p joinapi.PodAddress) bool {
		return p.IP == "10.42.1.5" && p.Deleted
	})
	if err := client.CoreV1().Pods("default.t1").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.read(t, lines, "the address has its new owner", func(p joinapi.PodAddress) bool {
		return p.IP == "10.42.1.5" && p.Tenant == "t2"
	})
	ended := podAt("default.t2", "new", "10.42.1.5", on("n1"),
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	if _, err := client.CoreV1().Pods("default.t2").Update(ctx, ended, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.read(t, lines, "a pod that ended has no address", func(p joinapi.PodAddress) bool {
		return p.IP == "10.42.1.5" && p.Deleted
	})

	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream did not end properly: %v", err)
	}
}

func TestNetworkPoliciesAreStreamed(t *testing.T) {
	client := fake.NewClientset(
		podAt("default.t1", "web", "10.42.1.5", func(p *corev1.Pod) { p.Spec.NodeName = "n1" }),
		podAt("default.t1", "far", "10.42.2.5", func(p *corev1.Pod) { p.Spec.NodeName = "n2" }),
		&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t1", Name: "deny"}},
	)
	policies := networkpolicy.New(client, interning.New(), nil)
	s := New(Options{Policies: policies, Log: logrus.NewEntry(logrus.New())})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.streams.networkPolicies(w, r, identity{node: "n1"}); err != nil {
			s.refuse(w, r, err)
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	get := func() *http.Response {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	if resp := get(); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("before the policies are known: %s", resp.Status)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- policies.Run(running) }()
	var resp *http.Response
	for resp = get(); resp.StatusCode == http.StatusServiceUnavailable; resp = get() {
	}
	lines := json.NewDecoder(resp.Body)
	var batch []netpolicy.Line
	for len(batch) == 0 || !batch[len(batch)-1].Complete {
		var l netpolicy.Line
		if err := lines.Decode(&l); err != nil {
			t.Fatal(err)
		}
		batch = append(batch, l)
	}
	if len(batch) != 3 || batch[0].Policy == nil || batch[1].Pod == nil || batch[1].Pod.Name != "web" ||
		len(batch[1].Pod.Ingress) != 1 {
		t.Errorf("the node is told %+v", batch)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := lines.Decode(new(netpolicy.Line)); !errors.Is(err, io.EOF) {
		t.Errorf("the stream did not end properly: %v", err)
	}
	s.streams.policies = nil
	if resp := get(); resp.StatusCode != http.StatusNotFound {
		t.Errorf("without policies: %s", resp.Status)
	}
}

func TestPacketFilterIsStreamed(t *testing.T) {
	client := fake.NewClientset(
		podAt("default.t1", "web", "10.42.1.5", func(p *corev1.Pod) { p.Spec.NodeName = "n1" }),
		&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t1", Name: "deny"}},
	)
	addresses, policies := NewAddresses(client), networkpolicy.New(client, interning.New(), nil)
	s := New(Options{Addresses: addresses, Policies: policies, Log: logrus.NewEntry(logrus.New())})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.streams.packetFilter(w, r, identity{node: "n1"}); err != nil {
			s.refuse(w, r, err)
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	get := func() *http.Response {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	if resp := get(); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("before the pods are known: %s", resp.Status)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 2)
	go func() { done <- addresses.Run(running) }()
	var resp *http.Response
	for resp = get(); resp.StatusCode == http.StatusServiceUnavailable; resp = get() {
	}
	lines := json.NewDecoder(resp.Body)
	read := func(what string, cond func(netpolicy.FilterLine) bool) {
		t.Helper()
		for {
			var l netpolicy.FilterLine
			if err := lines.Decode(&l); err != nil {
				t.Fatalf("the stream ended before %s: %v", what, err)
			}
			if cond(l) {
				return
			}
		}
	}
	// Addresses do not wait for the policies.
	read("the address of the pod", func(l netpolicy.FilterLine) bool {
		return l.Address != nil && *l.Address == joinapi.PodAddress{IP: "10.42.1.5", Tenant: "t1"}
	})
	read("all addresses", func(l netpolicy.FilterLine) bool {
		if l.Policy != nil {
			t.Errorf("policies are told before they are known: %+v", *l.Policy)
		}
		return l.Address != nil && l.Address.Complete
	})
	go func() { done <- policies.Run(running) }()
	read("the policies of the pod", func(l netpolicy.FilterLine) bool {
		return l.Policy != nil && l.Policy.Pod != nil && l.Policy.Pod.Name == "web" && len(l.Policy.Pod.Ingress) == 1
	})
	read("all policies", func(l netpolicy.FilterLine) bool { return l.Policy != nil && l.Policy.Complete })
	if err := client.NetworkingV1().NetworkPolicies("default.t1").
		Delete(ctx, "deny", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	read("there are no policies", func(l netpolicy.FilterLine) bool { return l.Policy != nil && l.Policy.Off })
	next := podAt("default.t2", "new", "10.42.1.6", on("n1"))
	if _, err := client.CoreV1().Pods("default.t2").Create(ctx, next, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	read("the new address", func(l netpolicy.FilterLine) bool {
		return l.Address != nil && l.Address.IP == "10.42.1.6"
	})

	s.streams.policies = nil
	lines = json.NewDecoder(get().Body)
	read("all addresses", func(l netpolicy.FilterLine) bool { return l.Address != nil && l.Address.Complete })
	read("that policies are disabled", func(l netpolicy.FilterLine) bool { return l.NoPolicies })
	stop()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := lines.Decode(new(netpolicy.FilterLine)); !errors.Is(err, io.EOF) {
		t.Errorf("the stream did not end properly: %v", err)
	}
}

// TestAddressesOfTheRange: of pods of two nodes that claim one address, the one has it whose
// node has the range, whoever came first; two of one node have it neither.
func TestAddressesOfTheRange(t *testing.T) {
	a := NewAddresses(nil)
	a.reset()
	node := func(name, cidr string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: []string{cidr}}}
	}
	const ip = "10.42.2.7"
	tenant := func() string {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.current(netip.MustParseAddr(ip)).Tenant
	}
	theirs, thief := podAt("default.t2", "web", ip, on("n2")), podAt("default.t1", "own", ip, on("n1"))
	a.set(thief)
	a.set(node("n1", "10.42.1.0/24"))
	a.set(theirs)
	if got := tenant(); got != "" {
		t.Errorf("while the range is nobody's it is that of %q", got)
	}
	a.set(node("n2", "10.42.2.0/24"))
	if got := tenant(); got != "t2" {
		t.Errorf("it is that of %q", got)
	}
	a.set(podAt("default.t3", "next", ip, on("n2")))
	if got := tenant(); got != "" {
		t.Errorf("with two of the node it is that of %q", got)
	}
	a.unset(podAt("default.t3", "next", ip, on("n2")))
	a.unset(node("n2", "10.42.2.0/24"))
	if got := tenant(); got != "" || len(a.ranges) != 1 {
		t.Errorf("without the node it is that of %q, ranges %v", got, a.ranges)
	}
}
