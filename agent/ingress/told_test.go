package ingress

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/joinapi"
)

func host(name, tenant string) joinapi.IngressLine {
	return joinapi.IngressLine{Host: &joinapi.IngressHost{Name: name, Tenant: tenant,
		Paths: []joinapi.IngressPath{{Path: "/", Backend: "b"}}}}
}

func backend(id, protocol string) joinapi.IngressLine {
	return joinapi.IngressLine{Backend: &joinapi.IngressBackend{ID: id, Protocol: protocol}}
}

func certificate(id string) joinapi.IngressLine {
	return joinapi.IngressLine{Certificate: &joinapi.IngressCertificate{ID: id, Key: []byte("key")}}
}

func complete() joinapi.IngressLine { return joinapi.IngressLine{Complete: true} }

func linesOf(all ...joinapi.IngressLine) lines { return lines(nil).with(all) }

func TestDeltas(t *testing.T) {
	was := linesOf(host("a.x", "t1"), host("b.x", "t1"), backend("b", "http"), certificate("c"))
	for name, c := range map[string]struct {
		now  lines
		want []joinapi.IngressLine
	}{
		"nothing":      {was, nil},
		"an equal one": {linesOf(host("a.x", "t1"), host("b.x", "t1"), backend("b", "http"), certificate("c")), nil},
		"a change":     {was.with(list(host("a.x", "t2"))), list(host("a.x", "t2"))},
		"one more":     {was.with(list(backend("d", "h2c"))), list(backend("d", "h2c"))},
		"all are gone": {nil, list(backend("b", "").Deletion(), certificate("c").Deletion(),
			host("a.x", "").Deletion(), host("b.x", "").Deletion())},
	} {
		if got := c.now.since(was); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if d := certificate("c").Deletion().Certificate; d.Key != nil || !d.Deleted {
		t.Errorf("what says that it is gone is %+v", d)
	}
}

// What was told, and the delta, give what holds now.
func TestDeltasLeadToWhatHolds(t *testing.T) {
	d := rand.New(rand.NewPCG(1, 1))
	world := func() lines {
		out := lines{}
		for range d.IntN(6) {
			out = out.with(list(host(fmt.Sprint(d.IntN(3)), fmt.Sprint(d.IntN(2))), backend(fmt.Sprint(d.IntN(3)),
				fmt.Sprint(d.IntN(2))), certificate(fmt.Sprint(d.IntN(3)))))
		}
		return out
	}
	for range 500 {
		was, now := world(), world()
		if got := was.with(now.since(was)); !reflect.DeepEqual(got, now) {
			t.Fatalf("from %v to %v it is %v", was, now, got)
		}
	}
}

func list[T any](all ...T) []T { return all }

func TestBatchesDoNotChangeWhatWasReturned(t *testing.T) {
	was := linesOf(host("a.x", "t1"))
	next := was.with(list(host("a.x", "").Deletion(), backend("b", ""), joinapi.IngressLine{}))
	if len(was) != 1 || !was.hosts() || len(next) != 1 || next.hosts() {
		t.Errorf("it was %v and is %v", was, next)
	}
}

// A node is for one partition; while that changes, the first one that tells something counts.
func TestTheFirstPartitionCounts(t *testing.T) {
	told := newTold()
	holds := func(want string) {
		t.Helper()
		now, _ := told.current()
		got := ""
		for _, line := range now {
			got = line.Host.Tenant
		}
		if got != want {
			t.Errorf("%q holds, want %q", got, want)
		}
	}
	holds("")
	for _, c := range []struct{ partition, tenant, want string }{
		{"b", "of-b", "of-b"}, {"a", "of-a", "of-a"}, {"", "own", "own"}, {"a", "", "own"}, {"", "", "of-b"},
		{"b", "new-b", "new-b"}, {"b", "", ""},
	} {
		_, changed := told.current()
		now := lines(nil)
		if c.tenant != "" {
			now = linesOf(host("a.x", c.tenant))
		}
		told.set(c.partition, now)
		<-changed
		holds(c.want)
	}
	if len(told.all) != 0 {
		t.Errorf("left are %v", told.all)
	}
}

func TestAReaderTakesBatches(t *testing.T) {
	told := newTold()
	told.set("", linesOf(host("old.x", "t1"), backend("old", "")))
	r := &reader{to: told}
	for i, step := range []struct {
		line     joinapi.IngressLine
		complete bool
		want     lines
		news     bool
	}{
		{host("a.x", "t1"), false, linesOf(host("old.x", "t1"), backend("old", "")), false}, // so far it stays
		{backend("b", ""), false, linesOf(host("old.x", "t1"), backend("old", "")), false},
		{complete(), true, linesOf(host("a.x", "t1"), backend("b", "")), true}, // the first batch is everything
		{complete(), true, linesOf(host("a.x", "t1"), backend("b", "")), false},
		{host("a.x", "").Deletion(), true, linesOf(host("a.x", "t1"), backend("b", "")), false},
		{host("b.x", "t2"), true, linesOf(host("a.x", "t1"), backend("b", "")), false},
		{complete(), true, linesOf(host("b.x", "t2"), backend("b", "")), true}, // others are changes
	} {
		_, changed := told.current()
		if got := r.Line(step.line); got != step.complete {
			t.Errorf("step %d: complete is %v", i, got)
		}
		news := false
		select {
		case <-changed:
			news = true
		default:
		}
		if now, _ := told.current(); !reflect.DeepEqual(now, step.want) || news != step.news {
			t.Errorf("step %d: %v holds, news: %v", i, now, news)
		}
	}
	// A server that tells that there is nothing.
	(&reader{to: told}).Line(complete())
	if now, _ := told.current(); len(now) != 0 {
		t.Errorf("%v holds", now)
	}
}

// server streams what a test has it do, one connection after the other.
type server struct {
	*httptest.Server
	connections chan func(w io.Writer, flush func())
	refuse      chan int
}

func newServer(t *testing.T) *server {
	s := &server{connections: make(chan func(io.Writer, func())), refuse: make(chan int)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != joinapi.PathIngress || r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		select {
		case do := <-s.connections:
			do(w, func() { http.NewResponseController(w).Flush() }) //nolint:errcheck // the client sees it
		case code := <-s.refuse:
			http.Error(w, "Ingresses are disabled", code)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func telling(t *testing.T, then <-chan struct{}, all ...joinapi.IngressLine) func(io.Writer, func()) {
	return func(w io.Writer, flush func()) {
		for _, line := range all {
			if err := json.NewEncoder(w).Encode(line); err != nil {
				t.Error(err)
			}
		}
		flush()
		<-then
	}
}

func TestFollow(t *testing.T) {
	s, log := newServer(t), logrus.New()
	log.SetOutput(t.Output())
	n := New(Options{Log: logrus.NewEntry(log)})
	n.told.set("other", linesOf(host("other.x", "t9")))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- n.Follow(&rest.Config{Host: s.URL}, "").Run(ctx, func() {})
	}()
	await := func(what string, want lines) {
		t.Helper()
		late := time.After(2 * time.Minute)
		for {
			now, changed := n.told.current()
			if reflect.DeepEqual(now, want) {
				return
			}
			select {
			case <-changed:
			case <-late:
				t.Fatalf("timed out until %s; %v holds", what, now)
			}
		}
	}
	end := make(chan struct{})
	s.connections <- telling(t, end, host("a.x", "t1"), backend("b", ""), complete())
	await("it is told", linesOf(host("a.x", "t1"), backend("b", "")))
	end <- struct{}{}
	// The next connection ends in the midst of its first batch, and one is refused: what was told last stays.
	s.connections <- telling(t, end, host("half.x", "t1"))
	end <- struct{}{}
	s.refuse <- http.StatusServiceUnavailable
	s.connections <- func(w io.Writer, flush func()) {
		if now, _ := n.told.current(); !reflect.DeepEqual(now, linesOf(host("a.x", "t1"), backend("b", ""))) {
			t.Errorf("between two connections %v holds", now)
		}
		telling(t, end, host("b.x", "t1"), backend("b", ""), complete())(w, flush)
	}
	await("it is told anew", linesOf(host("b.x", "t1"), backend("b", "")))
	end <- struct{}{}
	s.refuse <- http.StatusNotFound
	await("it forgets, and another partition counts", linesOf(host("other.x", "t9")))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	n.Forget("other")
	await("nothing is left", nil)
}

// The child is told what holds, every change, and to end when there was no host for a while.
func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Options{})
		n.told.set("b", linesOf(host("b.x", "t2"), backend("b", "")))
		var out bytes.Buffer
		ended := false
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go n.feed(ctx, &out, func() { ended = true })
		synctest.Wait()
		tells := func(what string, want ...joinapi.IngressLine) {
			t.Helper()
			time.Sleep(minGap)
			synctest.Wait()
			var got []joinapi.IngressLine
			for in := json.NewDecoder(&out); ; {
				var line joinapi.IngressLine
				if in.Decode(&line) != nil {
					break
				}
				got = append(got, line)
			}
			if out.Reset(); !reflect.DeepEqual(got, append(want, complete())) {
				t.Errorf("%s: it is told %+v", what, got)
			}
		}
		tells("at first", backend("b", ""), host("b.x", "t2"))
		n.told.set("a", linesOf(host("b.x", "t1"), backend("b", "")))
		tells("the first partition is another one", host("b.x", "t1"))
		n.told.set("a", nil)
		tells("and is gone", host("b.x", "t2"))
		n.told.set("b", nil)
		tells("all are gone", backend("b", "").Deletion(), host("b.x", "").Deletion())
		time.Sleep(lingers - time.Second)
		n.told.set("b", linesOf(host("b.x", "t2"), backend("b", "")))
		tells("in time there is one again", backend("b", ""), host("b.x", "t2"))
		time.Sleep(2 * lingers)
		if synctest.Wait(); ended {
			t.Error("it ends while there is a host")
		}
		n.told.set("b", nil)
		synctest.Wait()
		time.Sleep(lingers + time.Second)
		if synctest.Wait(); !ended {
			t.Error("it does not end")
		}
	})
}
