package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestDatastoreSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	etcd := "--datastore-endpoint=https://a:2379,https://b:2379"
	for _, tc := range []struct {
		args []string
		bad  string
	}{
		{[]string{etcd}, ""},
		{[]string{etcd, "--datastore-cafile=" + file, "--datastore-certfile=" + file, "--datastore-keyfile=" + file},
			""},
		{[]string{"--datastore-endpoint=sqlite", "--etcd-disable-snapshots"}, ""},
		{[]string{"--datastore-endpoint=postgres://u:hush@h/db", "--datastore-cafile=" + file}, ""},
		{[]string{"--datastore-endpoint=postgres//u:hush@h/db"}, "--datastore-endpoint"},
		{[]string{etcd, "--datastore-cafile=/no/such/file"}, "--datastore-cafile"},
		{[]string{etcd, "--datastore-certfile=" + file}, "--datastore-keyfile"},
		{[]string{"--datastore-cafile=" + file}, "--datastore-cafile"},
		{[]string{"--datastore-endpoint=sqlite", "--datastore-cafile=" + file}, "--datastore-cafile"},
		{[]string{"--datastore-endpoint=http://a:2379", "--datastore-cafile=" + file}, "--datastore-cafile"},
		{[]string{etcd, "--etcd-arg=quota-backend-bytes=1"}, "--etcd-arg"},
		{[]string{"--datastore-endpoint=mysql://u:hush@tcp(h)/db", "--etcd-snapshot-schedule-cron=@every 1h"},
			"--etcd-snapshot-schedule-cron"},
		{[]string{"--datastore-endpoint=sqlite", "--etcd-snapshot-compress"}, "--etcd-snapshot-compress"},
		{[]string{"--disable-etcd", "--server=https://a:6443"}, ""},
		{[]string{"--disable-etcd"}, "--disable-etcd"},
		{[]string{"--disable-etcd", "--server=https://a:6443", "--cluster-init"}, "--disable-etcd"},
		{[]string{"--disable-etcd", "--server=https://a:6443", "--cluster-reset"}, "--disable-etcd"},
		{[]string{"--disable-etcd", "--server=https://a:6443", "--etcd-arg=quota-backend-bytes=1"}, "--disable-etcd"},
		{[]string{"--disable-etcd", "--server=https://a:6443", etcd}, "--disable-etcd"},
	} {
		_, _, err := LoadServer(Source{Args: tc.args, DefaultFile: "/nonexistent"})
		var in *problem.Input
		switch {
		case tc.bad == "" && err != nil:
			t.Errorf("%s: %v", tc.args, err)
		case tc.bad != "" && (!errors.As(err, &in) || !strings.HasPrefix(in.Source, tc.bad)):
			t.Errorf("%s: %v, want a problem of %s", tc.args, err, tc.bad)
		case err != nil && strings.Contains(err.Error(), "hush"):
			t.Errorf("the password is in the error: %v", err)
		}
	}
}

func TestDatastoreFromTheEnvironment(t *testing.T) {
	env := map[string]string{"A4S_DATASTORE_ENDPOINT": "nats://u:hush@h"}
	s, _, err := LoadServer(Source{DefaultFile: "/nonexistent",
		LookupEnv: func(k string) (string, bool) { v, ok := env[k]; return v, ok }})
	if err != nil || s.DatastoreEndpoint != env["A4S_DATASTORE_ENDPOINT"] {
		t.Errorf("%q, %v", s.DatastoreEndpoint, err)
	}
	env["A4S_DATASTORE_ENDPOINT"] = "nats:u:hush@h"
	if _, _, err = LoadServer(Source{DefaultFile: "/nonexistent",
		LookupEnv: func(k string) (string, bool) { v, ok := env[k]; return v, ok }}); err == nil ||
		strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "A4S_DATASTORE_ENDPOINT") {
		t.Errorf("%v", err)
	}
}
