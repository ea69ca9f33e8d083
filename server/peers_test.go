package server

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/join"
	"github.com/a4s-io/a4s/server/cluster/settings"
	"github.com/a4s-io/a4s/server/datastore"
)

// What is refused before anything is started or changed.
func TestPeersAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		cfg    config.Server
		source string // of the problem.Input, "" for a problem.Precondition
	}{
		{"another datastore begins a cluster",
			config.Server{DatastoreEndpoint: "sqlite", ClusterInit: true}, "--cluster-init"},
		{"a database joins", config.Server{DatastoreEndpoint: "sqlite",
			JoinURLs: []string{"https://192.0.2.1:6443"}}, "--server"},
		{"an etcd of others joins without a token", config.Server{DatastoreEndpoint: "https://192.0.2.1:2379",
			JoinURLs: []string{"https://192.0.2.1:6443"}}, "--token"},
		{"an etcd of others begins a cluster", config.Server{DatastoreEndpoint: "https://192.0.2.1:2379",
			ClusterInit: true}, "--cluster-init"},
		{"an etcd of others is reset", config.Server{DatastoreEndpoint: "https://192.0.2.1:2379",
			ClusterReset: true}, "--cluster-reset"},
		{"another datastore is reset",
			config.Server{DatastoreEndpoint: "sqlite", ClusterReset: true}, "--cluster-reset"},
		{"joins without a token", config.Server{JoinURLs: []string{"https://192.0.2.1:6443"}}, "--token"},
		{"reset without data", config.Server{ClusterReset: true}, ""},
	} {
		p := &peers{cfg: &tc.cfg, dir: t.TempDir()}
		err := p.prepare()
		var in *problem.Input
		var pre *problem.Precondition
		if tc.source != "" && (!errors.As(err, &in) || in.Source != tc.source) ||
			tc.source == "" && !errors.As(err, &pre) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// A server that shares an etcd joins once.
func TestSharedEtcdIsJoinedOnce(t *testing.T) {
	cfg := &config.Server{DatastoreEndpoint: "https://192.0.2.1:2379", JoinURLs: []string{"https://192.0.2.1:6443"}}
	cfg.Token = "K10" + strings.Repeat("a", 64) + "::server:pa55word"
	dir := t.TempDir()
	p := &peers{cfg: cfg, dir: dir}
	if err := p.prepare(); err != nil || p.token == nil || !p.several() || p.clustered {
		t.Fatalf("%v, %+v", err, p)
	}
	if err := datastore.Join(dir, p.shared, "cluster"); err != nil {
		t.Fatal(err)
	}
	p = &peers{cfg: cfg, dir: dir}
	if err := p.prepare(); err != nil || p.token != nil || !p.several() {
		t.Errorf("the second start: %v, %+v", err, p)
	}
}

// A server whose datastore alone is gone joins again with the token it has.
func TestTokenOnDiskIsGoodForJoining(t *testing.T) {
	p := &peers{cfg: &config.Server{JoinURLs: []string{"https://192.0.2.1:6443"}}, dir: t.TempDir()}
	const token = "K10aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa::server:pa55word\n"
	if err := os.WriteFile(filepath.Join(p.dir, "token"), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.prepare(); err != nil || p.token == nil || p.token.Password != "pa55word" || !p.clustered {
		t.Errorf("%v, %+v", err, p)
	}
}

// A server without a member of embedded etcd asks what servers share at each start, and
// neither loses sight of their datastore nor of its own.
func TestServerWithoutMember(t *testing.T) {
	cfg := config.Server{DisableEtcd: true, JoinURLs: []string{"https://192.0.2.1:6443"}}
	cfg.Token = "K10" + strings.Repeat("a", 64) + "::server:pa55word"
	dir := t.TempDir()
	prepare := func(cfg config.Server) (*peers, error) {
		p := &peers{cfg: &cfg, dir: dir}
		return p, p.prepare()
	}
	if p, err := prepare(cfg); err != nil || p.token == nil || p.known || !p.several() {
		t.Fatalf("%v, %+v", err, p)
	}
	if err := os.MkdirAll(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	kept := []byte(`{"members":["https://192.0.2.1:2379"]}`)
	if err := os.WriteFile(datastore.MembersFile(dir), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := prepare(cfg); err != nil || p.token == nil || !p.known {
		t.Errorf("the second start: %v, %+v", err, p)
	}
	var pre *problem.Precondition
	if err := datastore.OnlyEmbedded(dir); !errors.As(err, &pre) || !strings.Contains(err.Error(), "--disable-etcd") {
		t.Errorf("a snapshot: %v", err)
	}
	if _, err := prepare(config.Server{}); !errors.As(err, &pre) || !strings.Contains(err.Error(), "new and empty") {
		t.Errorf("a start as the first server: %v", err)
	}
	member := cfg
	member.DisableEtcd = false
	if p, err := prepare(member); err != nil || p.token == nil || p.known {
		t.Errorf("a start with a member: %v, %+v", err, p)
	}
	// One that has a member.
	if err := datastore.ForgetMembers(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "db", "etcd", "member", "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "db", "etcd", "member", "wal", "0.wal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := prepare(cfg); !errors.As(err, &pre) || !strings.Contains(err.Error(), "has a member") {
		t.Errorf("a start without the member that it has: %v", err)
	}
}

// TestAnAnswerThatDiffersIsRefused: a server that has what servers share from an earlier start goes on with it if
// nobody answers, but not if one answers that has other settings.
func TestAnAnswerThatDiffersIsRefused(t *testing.T) {
	cfg, _, err := config.LoadServer(config.Source{DefaultFile: t.TempDir() + "/none.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	other := settings.OfServers(cfg)
	other[0].Value = "10.52.0.0/16"
	var ca []byte
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == joinapi.PathCACerts {
			_, _ = w.Write(ca)
			return
		}
		_ = json.NewEncoder(w).Encode(joinapi.ServerBundle{Settings: other,
			Datastore: []string{"https://192.0.2.1:2379"}})
	}))
	defer server.Close()
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	hash, err := pki.HashBundle(ca)
	if err != nil {
		t.Fatal(err)
	}
	cfg.JoinURLs = []string{server.URL}
	p := &peers{cfg: cfg, dir: t.TempDir(), known: true,
		token: &jointoken.Token{CAHash: hash, User: joinapi.UserServer, Password: "x"}}
	log := logrus.NewEntry(logrus.StandardLogger())
	if _, err := p.fetch(t.Context(), log); !errors.Is(err, join.ErrDiffers) {
		t.Errorf("it has other settings: %v", err)
	}
	server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if bundle, err := p.fetch(ctx, log); bundle != nil || err != nil {
		t.Errorf("nobody answers: %v, %v", bundle, err)
	}
}
