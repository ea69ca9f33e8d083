package replicated

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/a4s-io/a4s/tests/databases"
	"github.com/a4s-io/a4s/tests/nstest"
)

type applied struct {
	Hash string `json:"hash"`
}

func dial(t *testing.T) *clientv3.Client {
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
	return client
}

func documentOf(name, secret string, members ...Member) *Document[applied] {
	return &Document[applied]{
		Cluster: &Cluster{
			Name: name, Several: true,
			Members: func() []Member { return members },
			Secret:  func() ([]byte, error) { return []byte(secret), nil },
		},
		Subject: "the document", Key: "/test/document", Reports: "/test/servers/", Purpose: "test",
		Hash: func(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) },
	}
}

var members = []Member{{ID: "1", Name: "a"}, {ID: "2", Name: "b"}, {ID: "3"}}

func TestRecords(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	etcd, ctx := dial(t), t.Context()
	d := documentOf("a", "of all servers", members...)
	none, before, err := d.Load(ctx, etcd)
	if !errors.Is(err, ErrNone) || none.Revision != 0 || before == 0 {
		t.Fatalf("%+v, %d, %v", none, before, err)
	}
	watch := d.Watch(ctx, etcd, before)

	first := &Record{From: "nothing", Replaced: []string{"all"}}
	if err := d.Replace(ctx, etcd, none.Revision, first, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := d.Replace(ctx, etcd, none.Revision, &Record{}, []byte("two")); !errors.Is(err, ErrChanged) {
		t.Errorf("a second first record: %v", err)
	}
	if err := d.Replace(ctx, etcd, first.Revision, &Record{}, []byte("two")); err != nil {
		t.Fatal(err)
	}
	if err := d.Replace(ctx, etcd, first.Revision, &Record{}, []byte("three")); !errors.Is(err, ErrChanged) {
		t.Errorf("a replacement of a replaced record: %v", err)
	}
	resp, err := etcd.Get(ctx, d.Key)
	if err != nil || strings.Contains(string(resp.Kvs[0].Value), "two") {
		t.Errorf("the datastore has the content in clear: %v", err)
	}

	for _, want := range []string{"one", "two"} {
		r, err := watch.Next(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Open(r); err != nil || string(got) != want {
			t.Errorf("the watch has %q, %v; want %s", got, err, want)
		}
	}
	if r, err := watch.Next(ctx, time.Millisecond); r != nil || err != nil {
		t.Errorf("without a change the watch has %+v, %v", r, err)
	}
	r, _, err := d.Load(ctx, etcd)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := documentOf("a", "another secret").Open(r); !errors.Is(err, ErrSealed) || got != nil {
		t.Errorf("with another secret: %q, %v", got, err)
	}
	r.Hash = d.Hash([]byte("three"))
	if got, err := d.Open(r); !errors.Is(err, ErrSealed) || got != nil {
		t.Errorf("with the hash of another content: %q, %v", got, err)
	}

	if _, err := etcd.Delete(ctx, d.Key); err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Next(ctx, 0); r != nil || !errors.Is(err, ErrNone) {
		t.Errorf("after a removal the watch has %+v, %v", r, err)
	}
}

// Records of servers before this package existed are read as they are.
func TestStoredFormat(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	etcd, ctx := dial(t), t.Context()
	d := documentOf("a", "of all servers", members...)
	for value, want := range map[string]string{
		`{"hash":"h","sealed":"AAEC"}`:                             "{ [] h [0 1 2] ",
		`{"from":"f","hash":"h","replaced":["x"],"sealed":"AAEC"}`: "{f [x] h [0 1 2] ",
	} {
		if _, err := etcd.Put(ctx, d.Key, value); err != nil {
			t.Fatal(err)
		}
		if r, _, err := d.Load(ctx, etcd); err != nil || !strings.HasPrefix(fmt.Sprint(*r), want) {
			t.Errorf("%s is read as %v, %v", value, r, err)
		}
	}
}

func TestReports(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	etcd, ctx := dial(t), t.Context()
	for _, byName := range []bool{false, true} {
		a, b := documentOf("a", "", members...), documentOf("b", "", members...)
		a.ByName, b.ByName = byName, byName
		want := func(r applied) bool { return r.Hash == "now" }
		missing := func(ctx context.Context) ([]string, error) { return a.Missing(ctx, etcd, want) }
		for _, text := range []string{"", "before"} {
			if text != "" {
				if err := b.Report(ctx, etcd, applied{text}); err != nil {
					t.Fatal(err)
				}
			}
			if names, err := missing(ctx); err != nil || !slices.Equal(names, []string{"b"}) {
				t.Errorf("with %q reported: missing %v, %v", text, names, err)
			}
		}
		looks := 0
		names, err := Wait(ctx, missing, func(names []string, _ time.Duration) (time.Duration, bool, error) {
			if looks++; looks == 2 {
				if err := b.Report(ctx, etcd, applied{"now"}); err != nil {
					return 0, false, err
				}
			}
			return time.Millisecond, len(names) == 0, nil
		})
		if err != nil || len(names) > 0 || looks != 3 {
			t.Errorf("after %d looks: missing %v, %v", looks, names, err)
		}
		key := map[bool]string{false: "/test/servers/2", true: "/test/servers/b"}[byName]
		if resp, err := etcd.Get(ctx, key); err != nil || len(resp.Kvs) != 1 ||
			string(resp.Kvs[0].Value) != `{"hash":"now"}` {
			t.Errorf("%s: %v, %v", key, resp, err)
		}
	}
	down := documentOf("a", "")
	if _, err := down.Missing(ctx, etcd, func(applied) bool { return true }); !errors.Is(err, ErrNoMembers) {
		t.Errorf("without members: %v", err)
	}
}

// A server that cannot follow tries again, and repeats no warning.
func TestFollow(t *testing.T) {
	var out strings.Builder
	log := logrus.New()
	log.SetOutput(&out)
	errs := []error{errors.New("one"), errors.New("one"), errors.New("two"), nil}
	Follow(t.Context(), logrus.NewEntry(log), "Tries again", time.Millisecond, func(context.Context) error {
		err := errs[0]
		errs = errs[1:]
		return err
	})
	if n := strings.Count(out.String(), "Tries again"); n != 2 || len(errs) > 0 {
		t.Errorf("%d warnings, %d tries left", n, len(errs))
	}
}
