package groupwatch

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/tests/cable"
)

// TestCutOffFromAGroup cuts a client off from the server of one group, with moves and
// writes meanwhile: once it has noticed, it has the stream from another server. That takes
// 2 seconds here and 45 as programs come, by the same means.
func TestCutOffFromAGroup(t *testing.T) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	h := newHistory()
	h.configure("0", "", "m")
	h.configure("1", "m", "")
	client, line := behindCable(t, h)
	for n := range 20 {
		h.write([]string{"a", "z"}[n%2], fmt.Sprint("c", n), false)
	}
	store, _ := informed(t, client)
	eventually(t, "nothing comes from the server of group 1", func() bool { return line.Connections() > 0 })
	busy := func(round int) {
		for n := range 40 {
			h.write([]string{"a", "n", "z"}[n%3], fmt.Sprintf("r%d-%d", round, n), false)
			h.write([]string{"a", "n", "z"}[n%3], fmt.Sprintf("r%d-%d", round, n-20), true)
			switch n {
			case 10:
				h.configure("1", "a", "")
			case 20:
				h.configure("0", "", "o")
				h.configure("1", "o", "")
			case 30:
				h.configure("1", "m", "")
			}
		}
	}
	busy(0)
	line.Cut()
	busy(1)
	eventually(t, "the informer does not have what the datastore has, cut off", func() bool {
		return h.same(store)
	})
	busy(2)
	line.Mend()
	busy(3)
	eventually(t, "the informer does not have what the datastore has", func() bool {
		return h.same(store)
	})
}

// behindCable is cluster with TLS and HTTP/2, and the server of group 1 behind a cable.
func behindCable(t *testing.T, h *history) (*kubernetes.Clientset, *cable.Cable) {
	t.Helper()
	start := func(name string) *httptest.Server {
		s := httptest.NewUnstartedServer(h.server(name))
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	first, other := start("0"), start("1")
	line := cable.New(t, strings.TrimPrefix(other.URL, "https://"))
	plain := &rest.Config{Host: first.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: first.Certificate().Raw}),
	}}
	g := New(&servers{of: map[string][]string{"1": {line.Address()}}}, logrus.NewEntry(logrus.New()))
	configs, err := partitionapi.NewClient(plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	follower := g.Component(configs)
	go func() { _ = follower.Run(t.Context(), func() {}) }()
	merged := rest.CopyConfig(plain)
	merged.Wrap(g.Wrap)
	set, err := kubernetes.NewForConfig(merged)
	if err != nil {
		t.Fatal(err)
	}
	return set, line
}

// TestStalledWatch: a client that stops reading, while tenants move and thousands of events
// happen, and then goes on has each of them once.
func TestStalledWatch(t *testing.T) {
	h := newHistory()
	h.configure("0", "", "m")
	h.configure("1", "m", "")
	client, groups := cluster(t, h, "0", "1")
	if !groups.wait(t.Context(), deadline) {
		t.Fatal("the configurations are not read")
	}
	list, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rev, seen := list.ResourceVersion, map[string]int{}
	begin := func() watch.Interface {
		w, err := client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: rev})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := begin()
	defer func() { w.Stop() }()
	tenants := []string{"a", "k", "n", "z"}
	written := 0
	write := func(n int) {
		for range n {
			h.write(tenants[written%len(tenants)], fmt.Sprint("c", written), false)
			written++
		}
	}
	read := func(n int) {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		for n > 0 {
			select {
			case e, ok := <-w.ResultChan():
				o, is := e.Object.(*corev1.ConfigMap)
				if !ok || !is {
					w.Stop()
					w = begin()
					continue
				}
				if e.Type == watch.Bookmark {
					continue
				}
				seen[o.Name]++
				rev = o.ResourceVersion
				n--
			case <-ctx.Done():
				t.Fatalf("%d of %d do not come", n, written)
			}
		}
	}
	write(10)
	read(10)
	for _, bound := range []string{"b", "o", "m"} {
		write(1000)
		h.configure("1", bound, "")
		h.configure("0", "", bound)
	}
	write(1000)
	read(written - 10)
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", name, n)
		}
	}
	if len(seen) != written {
		t.Errorf("%d of %d came", len(seen), written)
	}
}

// TestResumedBeforeAGroupIsKnown: a client whose watch went past the events of a group that
// it did not know of, and which comes back, gets them or is told to begin anew.
func TestResumedBeforeAGroupIsKnown(t *testing.T) {
	h := newHistory()
	h.configure("0", "", "")
	h.held = make(chan struct{})
	client, groups := cluster(t, h, "0", "1")
	if !groups.wait(t.Context(), deadline) {
		t.Fatal("the configurations are not read")
	}
	h.write("a", "first", false)
	list, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	begin := func(rev string) (watch.Interface, error) {
		return client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{ResourceVersion: rev})
	}
	w, err := begin(list.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	h.configure("1", "m", "")
	h.write("z", "missing", false)
	h.write("a", "last", false)
	h.write(space.System, "last", false) // all streams that are known have come to the end
	rev := list.ResourceVersion
	for n := 0; n < 2; {
		e := <-w.ResultChan()
		o, ok := e.Object.(*corev1.ConfigMap)
		if !ok {
			t.Fatalf("%+v", e)
		}
		if rev = o.ResourceVersion; e.Type != watch.Bookmark {
			n++
		}
	}
	w.Stop()
	again, err := begin(rev)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Stop()
	close(h.held)
	for e := range again.ResultChan() {
		if o, ok := e.Object.(*corev1.ConfigMap); ok && o.Name == "missing" {
			return
		}
	}
	if ctx.Err() != nil {
		t.Fatal("neither does the event come nor does the watch end")
	}
	if _, err := begin(rev); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("the client is not told to begin anew: %v", err)
	}
}

// TestStreamsComeHome: what another server gives in place of a group's comes from the
// group's server again once that answers.
func TestStreamsComeHome(t *testing.T) {
	h := newHistory()
	h.configure("0", "", "m")
	h.configure("1", "m", "")
	h.down["1"] = true
	client, groups := cluster(t, h, "0", "1")
	groups.spread = 0
	h.write("z", "one", false)
	store, _ := informed(t, client)
	eventually(t, "the informer does not have what the datastore has", func() bool { return h.same(store) })
	opened := func(what string) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.streams[what] > 0
	}
	if !opened("0 1") || opened("1 1") {
		t.Errorf("the stream of a group without a server comes from elsewhere: %v", h.streams)
	}
	h.mu.Lock()
	h.down["1"] = false
	h.mu.Unlock()
	eventually(t, "the stream stays where it is", func() bool { return opened("1 1") })
	h.write("z", "two", false)
	eventually(t, "the informer does not have what the datastore has", func() bool { return h.same(store) })
}
