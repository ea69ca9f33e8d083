package encryption

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/cluster/replicated"
	"github.com/a4s-io/a4s/tests/databases"
)

const soon = 3 * time.Minute

// fleet is several servers on one etcd. Their API servers are simulated: each
// works with what it has last read of its file.
type fleet struct {
	t    *testing.T
	etcd *clientv3.Client

	mu      sync.Mutex
	servers []*server
	members []string
	written int
}

// server is one of a fleet. What it works with survives its end in the files.
type server struct {
	*Controller
	f      *fleet
	name   string
	path   string
	secret string
	asked  int
	dead   bool // it can do nothing any more
	// crash is asked before and after each change of the configuration.
	crash  func(before bool) bool
	loaded []byte
	stop   func()
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	there := databases.StartEtcd(t)
	tls, err := transport.TLSInfo{TrustedCAFile: there.CAFile, CertFile: there.CertFile,
		KeyFile: there.KeyFile}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{there.Endpoint}, TLS: tls, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &fleet{t: t, etcd: client}
}

// reset begins a new cluster of servers with the given names.
func (f *fleet) reset(names ...string) {
	f.t.Helper()
	f.end()
	if _, err := f.etcd.Delete(f.t.Context(), "/", clientv3.WithPrefix()); err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	f.members, f.servers = names, nil
	dir := f.t.TempDir()
	for _, name := range names {
		f.servers = append(f.servers, &server{f: f, name: name, path: filepath.Join(dir, name, "encryption.yaml"),
			secret: "of all servers"})
	}
	f.mu.Unlock()
	for _, s := range f.servers {
		s.start(false)
	}
	for range 10 {
		f.write()
	}
}

func (f *fleet) end() {
	for _, s := range f.servers {
		s.kill()
	}
}

// start is that of the process.
func (s *server) start(on bool) {
	s.f.t.Helper()
	if err := s.tryStart(on); err != nil {
		s.f.t.Fatalf("starting %s: %v", s.name, err)
	}
}

func (s *server) tryStart(on bool) error {
	log := logrus.New()
	log.SetOutput(s.f.t.Output())
	c := New(Options{
		Path:   s.path,
		Store:  func() (Store, error) { return &connection{Client: s.f.etcd, s: s}, nil },
		Loaded: s.read,
		Cluster: &Cluster{
			Cluster: &replicated.Cluster{
				Name: s.name, Several: true,
				Members: func() []replicated.Member {
					s.f.mu.Lock()
					defer s.f.mu.Unlock()
					return named(s.f.members...)
				},
				Secret: func() ([]byte, error) { return []byte(s.secret), nil },
			},
			Store: func() (ClusterStore, error) { return &connection{Client: s.f.etcd, s: s}, nil },
		},
		Log: log.WithField("server", s.name),
	})
	c.pace = quick()
	s.f.mu.Lock()
	s.Controller, s.dead = c, false
	s.f.mu.Unlock()
	if err := c.Adopt(s.f.t.Context(), on); err != nil {
		return err
	}
	data, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	s.f.mu.Lock()
	s.loaded = data
	s.f.mu.Unlock()
	ctx, cancel := context.WithCancel(s.f.t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = c.Component().Run(ctx, func() {}) })
	s.stop = func() { cancel(); done.Wait() }
	return nil
}

func named(names ...string) (out []replicated.Member) {
	for _, name := range names {
		out = append(out, replicated.Member{ID: "id-" + name, Name: name})
	}
	return out
}

// kill ends the process, and nothing it has begun is tidied up.
func (s *server) kill() {
	s.f.mu.Lock()
	s.dead, s.loaded = true, nil
	s.f.mu.Unlock()
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// read is what a simulated API server says of itself. It reads its file only
// now and then.
func (s *server) read() (string, error) {
	data, err := os.ReadFile(s.path)
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.asked++; s.asked%3 == 0 && err == nil && !s.dead && !bytes.Equal(s.loaded, data) {
		s.loaded = data
		s.f.compare()
	}
	return hash(s.loaded), nil
}

// connection is that of a server to the datastore.
type connection struct {
	*clientv3.Client
	s *server
}

func (c *connection) Close() error { return nil }

func (c *connection) gone() bool {
	c.s.f.mu.Lock()
	defer c.s.f.mu.Unlock()
	return c.s.dead
}

func (c *connection) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if c.gone() {
		return nil, errKilled
	}
	return c.Client.Get(ctx, key, opts...)
}

func (c *connection) Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	if c.gone() {
		return nil, errKilled
	}
	return c.Client.Revoke(ctx, id)
}

func (c *connection) Txn(ctx context.Context) clientv3.Txn {
	return &transaction{Txn: c.Client.Txn(ctx), c: c}
}

type transaction struct {
	clientv3.Txn
	c   *connection
	key string
}

func (t *transaction) If(cs ...clientv3.Cmp) clientv3.Txn { t.Txn = t.Txn.If(cs...); return t }
func (t *transaction) Else(o ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(o...); return t }
func (t *transaction) Then(o ...clientv3.Op) clientv3.Txn {
	t.key = string(o[0].KeyBytes())
	t.Txn = t.Txn.Then(o...)
	return t
}

func (t *transaction) Commit() (*clientv3.TxnResponse, error) {
	s := t.c.s
	crash := func(before bool) bool {
		if t.key == configKey && s.crash != nil && s.crash(before) {
			s.f.mu.Lock()
			s.dead = true
			s.f.mu.Unlock()
		}
		return t.c.gone()
	}
	if crash(true) {
		return nil, errKilled
	}
	resp, err := t.Txn.Commit()
	s.f.write()
	s.f.check()
	if crash(false) {
		return nil, errKilled
	}
	return resp, err
}

// write stores a Secret through the API of one of the servers.
func (f *fleet) write() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written++
	var up []*server
	for _, s := range f.servers {
		if s.loaded != nil {
			up = append(up, s)
		}
	}
	if len(up) == 0 {
		return
	}
	key := fmt.Sprintf("%s%04d", secretsPrefix, f.written%40)
	sealed, err := f.transformer(up[rand.N(len(up))].loaded).TransformToStorage(f.t.Context(),
		[]byte("k8s\x00secret of "+key), value.DefaultContext(key))
	if err == nil {
		_, err = f.etcd.Put(f.t.Context(), key, string(sealed))
	}
	if err != nil && f.t.Context().Err() == nil {
		f.t.Error(err)
	}
}

func (f *fleet) transformer(data []byte) value.Transformer {
	f.t.Helper()
	cfg, err := parse("loaded", data)
	if err != nil {
		f.t.Fatal(err)
	}
	tr, err := cfg.transformer()
	if err != nil {
		f.t.Fatal(err)
	}
	return tr
}

// check fails unless every API server can read every Secret, and what every
// other one would write now.
func (f *fleet) check() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.compare()
}

// compare is check for holders of the lock.
func (f *fleet) compare() {
	f.t.Helper()
	if f.t.Context().Err() != nil {
		return
	}
	resp, err := f.etcd.Get(f.t.Context(), secretsPrefix, clientv3.WithPrefix())
	if err != nil {
		f.t.Error(err)
		return
	}
	for _, s := range f.servers {
		if s.loaded == nil {
			continue
		}
		tr := f.transformer(s.loaded)
		for _, kv := range resp.Kvs {
			if object, _, err := tr.TransformFromStorage(f.t.Context(), kv.Value,
				value.DefaultContext(kv.Key)); err != nil || string(object) != "k8s\x00secret of "+string(kv.Key) {
				f.t.Errorf("server %s reads %s, stored with %s, as %q: %v", s.name, kv.Key,
					storedWith(kv.Value), object, err)
			}
		}
		for _, other := range f.servers {
			if other.loaded == nil {
				continue
			}
			sealed, err := f.transformer(other.loaded).TransformToStorage(f.t.Context(), []byte("k8s\x00x"),
				value.DefaultContext("x"))
			if err == nil {
				_, _, err = tr.TransformFromStorage(f.t.Context(), sealed, value.DefaultContext("x"))
			}
			if err != nil {
				f.t.Errorf("server %s cannot read what %s writes: %v", s.name, other.name, err)
			}
		}
	}
}

// settled fails unless the files of all servers are the same, all Secrets are
// stored with the key, and the datastore has no key in clear.
func (f *fleet) settled(want string) {
	f.t.Helper()
	f.check()
	first, err := os.ReadFile(f.servers[0].path)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range f.servers[1:] {
		until(f.t, "the file of "+s.name+" is that of all", func() bool {
			data, err := os.ReadFile(s.path)
			return err == nil && bytes.Equal(data, first)
		})
	}
	stored, err := count(f.t.Context(), f.etcd)
	if err != nil || len(stored) != 1 || stored[want] == 0 {
		f.t.Errorf("Secrets are stored with %v, %v; want %s", stored, err, want)
	}
	cfg, err := parse("file", first)
	if err != nil {
		f.t.Fatal(err)
	}
	resp, err := f.etcd.Get(f.t.Context(), "/a4s/", clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) < 2 {
		f.t.Fatalf("%d keys, %v", len(resp.Kvs), err)
	}
	for _, k := range cfg.keys() {
		raw, err := k.bytes()
		if err != nil {
			f.t.Fatal(err)
		}
		for _, kv := range resp.Kvs {
			if bytes.Contains(kv.Value, []byte(k.Secret)) || bytes.Contains(kv.Value, raw[:]) {
				f.t.Errorf("%s has %s in clear", kv.Key, k.Name)
			}
		}
	}
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(soon); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// finish waits for the end of the change that s makes.
func (s *server) finish(t *testing.T) joinapi.EncryptionJob {
	t.Helper()
	var job joinapi.EncryptionJob
	until(t, "the change on "+s.name+" ends", func() bool {
		s.progress.mu.Lock()
		defer s.progress.mu.Unlock()
		job = *s.progress.job
		return !job.Running
	})
	return job
}

// run makes a change on one server.
func (s *server) run(t *testing.T, action joinapi.EncryptionAction) {
	t.Helper()
	if err := s.Start(t.Context(), action); err != nil {
		t.Fatalf("%s on %s: %v", action, s.name, err)
	}
	if job := s.finish(t); job.Error != "" {
		t.Fatalf("%s on %s: %s", action, s.name, job.Error)
	}
}
