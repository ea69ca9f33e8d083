package groupwatch

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// watches counts the watches of config maps by the stream that they ask for.
type watches struct {
	http.Handler
	mu      sync.Mutex
	streams map[string]int
}

func (w *watches) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	if strings.HasSuffix(req.URL.Path, "configmaps") && req.URL.Query().Get("watch") != "" {
		w.mu.Lock()
		w.streams[req.Header.Get(partitionapi.StreamHeader)]++
		w.mu.Unlock()
	}
	w.Handler.ServeHTTP(rw, req)
}

func (w *watches) of(stream string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.streams[stream]
}

// later is a client of a cluster that has no groups yet, and what makes them known to it.
func later(t *testing.T, h *history) (client *kubernetes.Clientset, seen *watches, learn func()) {
	t.Helper()
	seen = &watches{Handler: h.server("0"), streams: map[string]int{}}
	s := httptest.NewServer(seen)
	t.Cleanup(s.Close)
	g := Later(&servers{}, logrus.NewEntry(logrus.StandardLogger()))
	g.spread = 20 * time.Millisecond
	config := &rest.Config{Host: s.URL, QPS: -1}
	configs, err := partitionapi.NewClient(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	merged := rest.CopyConfig(config)
	merged.Wrap(g.Wrap)
	if client, err = kubernetes.NewForConfig(merged); err != nil {
		t.Fatal(err)
	}
	return client, seen, func() {
		var follows sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		follows.Go(func() { _ = g.Component(configs).Run(ctx, func() {}) })
		t.Cleanup(func() {
			cancel()
			follows.Wait()
		})
	}
}

// TestGroupsThatComeLater: an informer of a cluster without groups asks one server, without
// waiting; when groups come, it has their streams, and what happened on the way is not lost.
func TestGroupsThatComeLater(t *testing.T) {
	h := newHistory()
	client, seen, learn := later(t, h)
	h.write("a", "before", false)
	store, _ := informed(t, client)
	if seen.of("") == 0 || seen.of(partitionapi.Rest) != 0 {
		t.Fatalf("it asks for %v", seen.streams)
	}
	same := func() bool { return h.same(store) }
	var writes sync.WaitGroup
	writes.Go(func() {
		for n := range 400 {
			h.write([]string{"a", "z"}[n%2], fmt.Sprint("c", n%50), n%7 == 0)
			time.Sleep(time.Millisecond) // the change comes in between
		}
	})
	h.configure("0", "", "m")
	h.configure("1", "m", "")
	learn()
	writes.Wait()
	eventually(t, "it does not ask for streams", func() bool {
		return seen.of("0") > 0 && seen.of("1") > 0 && seen.of(partitionapi.Rest) > 0
	})
	eventually(t, "the informer does not have what the datastore has", same)
	before := seen.of("")
	h.write("z", "after", false)
	eventually(t, "the informer does not have what came after", same)
	if now := seen.of(""); now != before {
		t.Errorf("it asks one server %d times more", now-before)
	}
}

// TestAWatchGivesWay: a watch of one server ends, without an error, when groups come, and one
// whose client has ended it does so for good.
func TestAWatchGivesWay(t *testing.T) {
	h := newHistory()
	client, _, learn := later(t, h)
	h.write("a", "one", false)
	open := func() watch.Interface {
		w, err := client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w, stopped := open(), open()
	stopped.Stop()
	learn()
	h.configure("0", "", "")
	for ended := time.After(deadline); ; {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return
			}
			if e.Type == watch.Error {
				t.Fatalf("it ends with %v", e.Object)
			}
		case <-ended:
			t.Fatal("it goes on")
		}
	}
}
