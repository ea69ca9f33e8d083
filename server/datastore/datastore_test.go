package datastore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/embedded/kine"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/tests/databases"
	"github.com/a4s-io/a4s/tests/nstest"
)

func parse(t *testing.T, endpoint string) *dsn.Endpoint {
	t.Helper()
	e, err := dsn.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantPrecondition checks the kind of an error and that it says all of parts.
func wantPrecondition(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	var p *problem.Precondition
	if !errors.As(err, &p) {
		t.Errorf("%s: %v, want a problem.Precondition", what, err)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q in it", what, err, part)
		}
	}
}

func TestServerKeepsItsDatastore(t *testing.T) {
	etcd, sqlite, fresh, broken := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(etcd, "db", "etcd", "member", "snap", "db"), "")
	write(t, filepath.Join(sqlite, "db", "datastore.json"),
		`{"kind":"sqlite","where":"SQLite in /x.db","cluster":"c","claimed":true}`)
	write(t, filepath.Join(broken, "db", "datastore.json"), `{`)
	for _, c := range []struct {
		dir, endpoint, refusal string
	}{
		{fresh, "", ""},
		{fresh, "sqlite", ""},
		{etcd, "", ""},
		{etcd, "sqlite", "it has been embedded etcd so far"},
		{etcd, "https://a:2379", "to be external etcd at https://a:2379"},
		{sqlite, "sqlite:///y.db", ""},
		{sqlite, "", "it has been SQLite in /x.db so far, and now it is to be embedded etcd"},
		{sqlite, "postgres://u:hush@h/db", "to be PostgreSQL at h, database db"},
		{broken, "sqlite", "does not say which datastore"},
	} {
		err := datastore.CheckRecord(c.dir, parse(t, c.endpoint))
		if c.refusal == "" && err != nil {
			t.Errorf("%s after %s: %v", c.endpoint, c.dir, err)
		}
		if c.refusal != "" {
			wantPrecondition(t, c.endpoint, err, c.refusal)
		}
	}
	for dir, refusal := range map[string]string{fresh: "", etcd: "",
		sqlite: "snapshots are of embedded etcd only: stop the server and copy " + sqlite} {
		err := datastore.OnlyEmbedded(dir)
		if refusal == "" && err != nil {
			t.Errorf("a snapshot of %s: %v", dir, err)
		}
		if refusal != "" {
			wantPrecondition(t, "a snapshot", err, refusal)
		}
	}
}

func TestDatastoreIsOfOneServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	e := parse(t, "sqlite://"+file)
	log := logrus.NewEntry(logrus.StandardLogger())
	socket := filepath.Join(t.TempDir(), "s")
	s, err := kine.New(kine.Options{Endpoint: e, Path: file, Socket: socket, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	group := component.NewGroup(log)
	t.Cleanup(func() {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := group.StartAndWait(t.Context(), s.Component()); err != nil {
		t.Fatal(err)
	}
	to := datastore.Endpoint{URLs: []string{s.URL()}}
	client, err := clientv3.New(clientv3.Config{Endpoints: to.URLs})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	claim := func(dir string) error { return datastore.Claim(t.Context(), dir, e, to) }

	// Somebody's objects.
	if _, err := client.Put(t.Context(), "/registry/pods/default/x", "v"); err != nil {
		t.Fatal(err)
	}
	mine, other := t.TempDir(), t.TempDir()
	wantPrecondition(t, "a cluster of others", claim(mine), "objects of another Kubernetes cluster")
	if _, err := client.Delete(t.Context(), "/registry/pods/default/x"); err != nil {
		t.Fatal(err)
	}

	for range 2 {
		if err := claim(mine); err != nil {
			t.Fatal(err)
		}
	}
	r, err := datastore.ReadRecord(mine)
	if err != nil || !r.Claimed || r.Kind != dsn.SQLite || r.Where != "SQLite in "+file {
		t.Errorf("record %+v, %v", r, err)
	}
	// A kill before the claim was remembered.
	write(t, filepath.Join(mine, "db", "datastore.json"), `{"kind":"sqlite","where":"x","cluster":"`+r.Cluster+`"}`)
	if err := claim(mine); err != nil {
		t.Error(err)
	}
	wantPrecondition(t, "a new server", claim(other), "it is that of another server")
	write(t, filepath.Join(other, "db", "datastore.json"),
		`{"kind":"sqlite","where":"x","cluster":"theirs","claimed":true}`)
	wantPrecondition(t, "another server", claim(other), "it is that of another cluster")
	if _, err := client.Delete(t.Context(), "/a4s/cluster"); err != nil {
		t.Fatal(err)
	}
	wantPrecondition(t, "an emptied datastore", claim(mine), "it is empty or another one")
}

func TestEtcdOfOthersIsChecked(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	there := databases.StartEtcd(t)
	good := datastore.Endpoint{CAFile: there.CAFile, CertFile: there.CertFile, KeyFile: there.KeyFile}
	check := func(endpoint string, with datastore.Endpoint) error {
		return datastore.NewExternal(parse(t, endpoint), with).Check(t.Context())
	}
	if err := check(there.Endpoint, good); err != nil {
		t.Error(err)
	}
	// One of two is enough.
	if err := check("https://127.0.0.1:1,"+there.Endpoint, good); err != nil {
		t.Error(err)
	}
	wantPrecondition(t, "nobody there", check("https://127.0.0.1:1", good), "https://127.0.0.1:1",
		"--datastore-endpoint", "connection refused", "start the etcd")
	wantPrecondition(t, "another CA", check(there.Endpoint, datastore.Endpoint{}),
		"certificate signed by unknown authority", "--datastore-cafile")
	wantPrecondition(t, "no client certificate", check(there.Endpoint, datastore.Endpoint{CAFile: there.CAFile}),
		"certificate", "--datastore-certfile")
	junk := write(t, filepath.Join(t.TempDir(), "junk.pem"), "junk")
	for flag, with := range map[string]datastore.Endpoint{
		"--datastore-cafile":  {CAFile: junk},
		"--datastore-keyfile": {CAFile: there.CAFile, CertFile: there.CertFile, KeyFile: junk},
	} {
		err := check(there.Endpoint, with)
		var in *problem.Input
		if !errors.As(err, &in) || !strings.Contains(in.Source, flag) {
			t.Errorf("%s: %v, want a problem.Input", flag, err)
		}
	}
}
