package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
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
		{"another datastore joins", config.Server{DatastoreEndpoint: "https://192.0.2.1:2379",
			JoinURLs: []string{"https://192.0.2.1:6443"}}, "--server"},
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
