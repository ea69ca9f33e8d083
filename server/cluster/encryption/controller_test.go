package encryption

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
)

var errKilled = errors.New("killed")

// memory is a datastore with Secrets. It fails once writes are used up.
type memory struct {
	mu       sync.Mutex
	keys     []string // in order
	values   map[string][]byte
	revision map[string]int64
	now      int64
	writes   int
	// onTxn is called once, before the next transaction.
	onTxn func()
}

func newMemory(n int) *memory {
	m := &memory{values: map[string][]byte{}, revision: map[string]int64{}, writes: -1}
	for i := range n {
		k := fmt.Sprintf("%s%04d", secretsPrefix, i)
		m.keys = append(m.keys, k)
		m.put(k, []byte("k8s\x00secret of "+k))
	}
	return m
}

func (m *memory) put(k string, v []byte) {
	m.now++
	m.values[k], m.revision[k] = v, m.now
}

func (m *memory) Close() error { return nil }

func (m *memory) Get(_ context.Context, from string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	resp := &clientv3.GetResponse{}
	for _, k := range m.keys {
		if k < from {
			continue
		}
		if len(resp.Kvs) == page {
			resp.More = true
			break
		}
		resp.Kvs = append(resp.Kvs, &mvccpb.KeyValue{Key: []byte(k), Value: m.values[k], ModRevision: m.revision[k]})
	}
	return resp, nil
}

func (m *memory) Txn(context.Context) clientv3.Txn { return &txn{m: m} }

type txn struct {
	m    *memory
	cmp  clientv3.Cmp
	then clientv3.Op
}

func (t *txn) If(cs ...clientv3.Cmp) clientv3.Txn { t.cmp = cs[0]; return t }
func (t *txn) Then(o ...clientv3.Op) clientv3.Txn { t.then = o[0]; return t }
func (t *txn) Else(_ ...clientv3.Op) clientv3.Txn { return t }
func (t *txn) Commit() (*clientv3.TxnResponse, error) {
	m := t.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.onTxn; f != nil {
		m.onTxn = nil
		f()
	}
	if m.writes == 0 {
		return nil, errKilled
	}
	m.writes--
	k := string(t.then.KeyBytes())
	want := t.cmp.GetCompare().GetModRevision()
	if m.revision[k] != want {
		now := &pb.RangeResponse{
			Kvs: []*mvccpb.KeyValue{{Key: []byte(k), Value: m.values[k], ModRevision: m.revision[k]}},
		}
		return &clientv3.TxnResponse{
			Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponseRange{ResponseRange: now}}},
		}, nil
	}
	m.put(k, t.then.ValueBytes())
	return &clientv3.TxnResponse{Succeeded: true}, nil
}

// quick is the pace of tests.
func quick() pace {
	const soon = 2 * time.Millisecond
	return pace{poll: soon, startPoll: soon, load: time.Minute, drain: soon, drainAmongServers: soon,
		nameAfter: 10 * soon, slowPoll: soon, retry: soon}
}

type bench struct {
	*Controller
	store *memory
}

// newBench is a controller of n Secrets whose API server reads the file at once.
func newBench(t *testing.T, n int, on bool) *bench {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := Ensure(path, on); err != nil {
		t.Fatal(err)
	}
	b := &bench{store: newMemory(n)}
	b.Controller = New(Options{
		Path: path, Store: func() (Store, error) { return b.store, nil },
		Loaded: func() (string, error) { return hashOf(path) },
		Log:    logrus.WithField("component", Name),
	})
	b.pace = quick()
	return b
}

// check fails unless all Secrets are stored with the key and are readable.
func (b *bench) check(t *testing.T, want string) {
	t.Helper()
	cfg, err := read(b.o.Path)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := cfg.transformer()
	if err != nil {
		t.Fatal(err)
	}
	for k, stored := range b.store.values {
		if got := storedWith(stored); got != want {
			t.Errorf("%s is stored with %s, want %s", k, got, want)
		}
		if want != plain && strings.Contains(string(stored), "secret of") {
			t.Errorf("%s is readable", k)
		}
		object, _, err := tr.TransformFromStorage(t.Context(), stored, value.DefaultContext(k))
		if err != nil || !strings.HasPrefix(string(object), "k8s\x00secret of "+k) {
			t.Errorf("%s is read as %q, %v", k, object, err)
		}
	}
}

func TestLifeOfKeys(t *testing.T) {
	b := newBench(t, 120, false)
	for _, step := range []struct {
		action joinapi.EncryptionAction
		want   string
		keys   string
	}{
		{joinapi.EncryptionReencrypt, plain, ""},
		{joinapi.EncryptionEnable, "key1", "key1"},
		{joinapi.EncryptionRotate, "key2", "key2"},
		{joinapi.EncryptionRotate, "key3", "key3"},
		{joinapi.EncryptionDisable, plain, "key3"},
		{joinapi.EncryptionEnable, "key3", "key3"},
		{joinapi.EncryptionReencrypt, "key3", "key3"},
	} {
		if err := b.change(t.Context(), step.action); err != nil {
			t.Fatalf("%s: %v", step.action, err)
		}
		b.check(t, step.want)
		s, err := b.Status(t.Context())
		if err != nil || strings.Join(s.Keys, " ") != step.keys || s.Pending != 0 || s.Stored[step.want] != 120 ||
			s.Hash != s.LoadedHash {
			t.Errorf("after %s the status is %+v, %v", step.action, s, err)
		}
	}
}

// Whenever a change is killed, the same command ends it, and every Secret is
// readable in between.
func TestKilledRotationGoesOn(t *testing.T) {
	b := newBench(t, 60, true)
	if err := b.change(t.Context(), joinapi.EncryptionReencrypt); err != nil {
		t.Fatal(err)
	}
	b.store.writes = 25
	if err := b.change(t.Context(), joinapi.EncryptionRotate); !errors.Is(err, errKilled) {
		t.Fatalf("do = %v", err)
	}
	s, err := b.Status(t.Context())
	if err != nil || s.Stage != joinapi.EncryptionKeyPromoted || s.Stored["key1"] == 0 || s.Stored["key2"] == 0 {
		t.Fatalf("in the middle the status is %+v, %v", s, err)
	}
	for _, a := range []joinapi.EncryptionAction{joinapi.EncryptionEnable, joinapi.EncryptionDisable} {
		var in *problem.Input
		if err := b.Start(t.Context(), a); !errors.As(err, &in) {
			t.Errorf("%s in the middle of a rotation: %v", a, err)
		}
	}
	b.store.writes = -1
	if err := b.change(t.Context(), joinapi.EncryptionRotate); err != nil {
		t.Fatal(err)
	}
	b.check(t, "key2")

	// Killed before the new key was used at all.
	cfg, err := read(b.o.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.addKey(); err != nil {
		t.Fatal(err)
	}
	data, err := cfg.render()
	if err := errors.Join(err, writeFile(b.o.Path, data)); err != nil {
		t.Fatal(err)
	}
	if err := b.change(t.Context(), joinapi.EncryptionRotate); err != nil {
		t.Fatal(err)
	}
	b.check(t, "key3")
}

func TestAChangedSecretIsNotOverwritten(t *testing.T) {
	b := newBench(t, 1, false)
	k := b.store.keys[0]
	b.store.onTxn = func() { b.store.put(k, []byte("k8s\x00secret of "+k+", changed")) }
	if err := b.change(t.Context(), joinapi.EncryptionEnable); err != nil {
		t.Fatal(err)
	}
	b.check(t, "key1")
	cfg, _ := read(b.o.Path)
	tr, _ := cfg.transformer()
	if object, _, err := tr.TransformFromStorage(t.Context(), b.store.values[k],
		value.DefaultContext(k)); err != nil || !strings.HasSuffix(string(object), ", changed") {
		t.Errorf("the Secret is %q, %v", object, err)
	}
}

func TestNoKeyIsDroppedThatIsNeeded(t *testing.T) {
	b := newBench(t, 3, true)
	b.store.put(b.store.keys[1], []byte(boxPrefix+"lost:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"))
	if err := b.change(t.Context(), joinapi.EncryptionRotate); !errors.Is(err, errForeign) {
		t.Errorf("do = %v, want that a Secret is unreadable", err)
	}
	if s, err := b.Status(t.Context()); err != nil || len(s.Keys) != 2 {
		t.Errorf("the status is %+v, %v", s, err)
	}
}

func TestOneChangeAtATime(t *testing.T) {
	b := newBench(t, 3, false)
	if err := b.Start(t.Context(), joinapi.EncryptionRotate); err == nil {
		t.Error("a rotation began although nothing is encrypted")
	}
	if err := b.Start(t.Context(), joinapi.EncryptionEnable); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context(), joinapi.EncryptionEnable); !errors.Is(err, ErrBusy) {
		t.Errorf("a second change: %v", err)
	}
}
