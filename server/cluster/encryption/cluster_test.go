package encryption

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/replicated"
	"github.com/a4s-io/a4s/tests/nstest"
)

// Whoever makes a change, every server can read what every other one writes,
// at each moment.
func TestServersChangeTheKeyTogether(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	f := newFleet(t)
	f.reset("a", "b", "c")
	defer f.end()
	for i, step := range []struct {
		action joinapi.EncryptionAction
		want   string
	}{
		{joinapi.EncryptionEnable, "key1"},
		{joinapi.EncryptionRotate, "key2"},
		{joinapi.EncryptionRotate, "key3"},
		{joinapi.EncryptionDisable, plain},
		{joinapi.EncryptionEnable, "key3"},
	} {
		f.servers[i%3].run(t, step.action)
		f.settled(step.want)
	}
	s, err := f.servers[0].Status(t.Context())
	if err != nil || len(s.Servers) != 3 ||
		slices.ContainsFunc(s.Servers, func(s joinapi.EncryptionServer) bool { return !s.Current }) {
		t.Errorf("the status is %+v, %v", s, err)
	}
}

// Whenever the server that makes a change dies, the same command goes on with
// it, on that server or on another one.
func TestKilledAmongServers(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	f := newFleet(t)
	defer f.end()
	for _, action := range []joinapi.EncryptionAction{joinapi.EncryptionEnable, joinapi.EncryptionRotate} {
		// An enable has two changes of the configuration, a rotation three.
		for step := range map[joinapi.EncryptionAction]int{joinapi.EncryptionEnable: 2,
			joinapi.EncryptionRotate: 3}[action] {
			for _, before := range []bool{true, false} {
				for _, where := range []int{0, 1} {
					f.reset("a", "b", "c")
					want := "key1"
					if action == joinapi.EncryptionRotate {
						f.servers[2].run(t, joinapi.EncryptionEnable)
						want = "key2"
					}
					first, left := f.servers[0], step
					first.crash = func(at bool) bool {
						if at == before {
							left--
						}
						return left < 0
					}
					if err := first.Start(t.Context(), action); err != nil {
						t.Fatal(err)
					}
					if job := first.finish(t); !strings.Contains(job.Error, errKilled.Error()) {
						t.Fatalf("%s was not killed in step %d: %+v", action, step, job)
					}
					first.kill()
					first.crash = nil
					f.check()
					first.start(false)
					if where != 0 { // its claim ends by itself after a while
						if _, err := f.etcd.Delete(t.Context(), changeKey); err != nil {
							t.Fatal(err)
						}
					}
					cfg, err := read(f.servers[0].path)
					if err != nil {
						t.Fatal(err)
					}
					if action != joinapi.EncryptionRotate || cfg.stage() != joinapi.EncryptionEnabled ||
						cfg.active() != want {
						f.servers[where].run(t, action)
					}
					f.settled(want)
				}
			}
		}
	}
}

// A server that is down holds a change up, is named, and ends that by coming
// back or by being removed.
func TestMissingServer(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	f := newFleet(t)
	defer f.end()
	for _, back := range []bool{true, false} {
		f.reset("a", "b", "c")
		a, b, c := f.servers[0], f.servers[1], f.servers[2]
		a.run(t, joinapi.EncryptionEnable)
		c.kill()
		if err := a.Start(t.Context(), joinapi.EncryptionRotate); err != nil {
			t.Fatal(err)
		}
		until(t, "the missing server is named", func() bool {
			s, err := a.Status(t.Context())
			return err == nil && strings.Contains(s.Job.Step, "waiting for c to read")
		})
		s, err := b.Status(t.Context())
		want := []joinapi.EncryptionServer{{Name: "a", Current: true}, {Name: "b", Current: true}, {Name: "c"}}
		if err != nil || !slices.Equal(s.Servers, want) || s.Stage != joinapi.EncryptionKeyAdded || s.Job == nil ||
			!strings.Contains(s.Job.Step, "on server a") {
			t.Errorf("on another server the status is %+v, the job %+v, %v", s, s.Job, err)
		}
		if err := b.Start(t.Context(), joinapi.EncryptionRotate); !errors.Is(err, ErrBusy) ||
			!strings.Contains(err.Error(), "on server a") {
			t.Errorf("a second change: %v", err)
		}
		if b.Unfinished(t.Context()) {
			t.Error("a change that goes on is called unfinished")
		}
		if back {
			c.start(false)
		} else {
			f.mu.Lock()
			f.members, f.servers = []string{"a", "b"}, f.servers[:2]
			f.mu.Unlock()
		}
		if job := a.finish(t); job.Error != "" {
			t.Errorf("at the end: %s", job.Error)
		}
		f.settled("key2")
	}
}

// What a server finds when it starts.
func TestAdopt(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	f := newFleet(t)
	defer f.end()
	var pre *problem.Precondition
	file := func(s *server) string {
		t.Helper()
		data, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	put := func(s *server, text string) {
		t.Helper()
		if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sealed := func() (r replicated.Record) {
		t.Helper()
		resp, err := f.etcd.Get(t.Context(), configKey)
		if err != nil || len(resp.Kvs) != 1 || json.Unmarshal(resp.Kvs[0].Value, &r) != nil {
			t.Fatalf("%v, %v", resp, err)
		}
		return r
	}

	f.reset("a", "b")
	a, b := f.servers[0], f.servers[1]
	a.run(t, joinapi.EncryptionEnable)
	old := file(b)
	b.kill()
	a.Controller.o.Cluster.Members = func() []replicated.Member { return named("a") } // b does not count now
	a.run(t, joinapi.EncryptionRotate)
	now := file(a)
	for what, before := range map[string]func(){
		"an older file":  func() { put(b, old) },
		"a damaged file": func() { put(b, "{") },
		"no file":        func() { os.Remove(b.path) },
	} {
		before()
		b.start(false)
		if file(b) != now {
			t.Errorf("with %s the server works with\n%s", what, file(b))
		}
		b.kill()
	}

	// Another service-account key.
	b.secret = "another one"
	if b.start(false); file(b) != now {
		t.Errorf("the server works with\n%s", file(b))
	}
	b.kill()
	r := sealed()
	if _, err := document(b.o.Cluster.Cluster).Open(&r); err != nil {
		t.Errorf("what the file has is not sealed anew: %v", err)
	}
	a.kill()
	put(a, old)
	if err := a.tryStart(false); !errors.As(err, &pre) || !errors.Is(err, replicated.ErrSealed) || file(a) != old {
		t.Errorf("with another key and another file: %v", err)
	}
	a.secret = b.secret
	a.start(false)
	if file(a) != now {
		t.Errorf("with the right key the server works with\n%s", file(a))
	}

	// Only the file has the key of what is stored.
	a.kill()
	cfg, err := parse("file", []byte(now))
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.addKey(); err != nil {
		t.Fatal(err)
	}
	cfg.promote()
	data, err := cfg.render()
	if err != nil {
		t.Fatal(err)
	}
	a.loaded = data
	f.write()
	put(a, string(data))
	if err := a.tryStart(false); !errors.As(err, &pre) ||
		!strings.Contains(err.Error(), "only this server has the key key3") {
		t.Errorf("a key that the others do not have: %v", err)
	}
	f.members = []string{"a"}
	a.start(false)
	if file(a) != string(data) || sealed().Hash != hash(data) {
		t.Errorf("the only server works with\n%s", file(a))
	}
	f.check()

	// The datastore of a version that kept nothing there.
	a.kill()
	if _, err := f.etcd.Delete(t.Context(), "/a4s/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	os.Remove(a.path)
	if err := a.tryStart(true); !errors.As(err, &pre) ||
		!strings.Contains(err.Error(), "Secrets are stored with key") {
		t.Errorf("without a file and without a copy of it: %v", err)
	}
	put(a, string(data))
	a.start(false)
	if file(a) != string(data) || sealed().Hash != hash(data) {
		t.Errorf("after an upgrade the server works with\n%s", file(a))
	}

	// The flag.
	for _, several := range []bool{true, false} {
		f.reset("a", "b")
		f.servers[0].kill()
		if !several {
			f.servers[1].kill()
			f.members = []string{"a"}
		}
		f.servers[0].start(true)
		cfg, err := read(f.servers[0].path)
		if err != nil || !several && cfg.stage() != joinapi.EncryptionEnabled {
			t.Errorf("with the flag, among several %v: %s, %v", several, cfg.stage(), err)
		}
		if several {
			if job := f.servers[0].finish(t); job.Error != "" {
				t.Error(job.Error)
			}
			f.settled("key1")
		}
	}
}

func TestTheFileNeverGetsOlder(t *testing.T) {
	c := copyOf{path: filepath.Join(t.TempDir(), "f")}
	for _, step := range []struct {
		text     string
		revision int64
	}{{"one", 1}, {"three", 3}, {"two", 2}} {
		if err := c.install([]byte(step.text), step.revision); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(c.path); err != nil || string(data) != "three" {
		t.Errorf("%q, %v", data, err)
	}
}
