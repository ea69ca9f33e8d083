package joining

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/problem"
)

func TestJoinedNodeStartsWithWhatItGot(t *testing.T) {
	c := newCluster(t)
	opts := c.machine("node")
	opts.Token = c.tokens.Agent().Encode()
	if saved, err := join.Saved(opts); err != nil || saved != nil {
		t.Fatalf("before a join: %+v, %v", saved, err)
	}
	joined := c.mustJoin(opts)
	saved, err := join.Saved(opts)
	if err != nil || !reflect.DeepEqual(saved, joined) {
		t.Errorf("saved %+v, %v; want %+v", saved, err, joined)
	}

	other := opts
	other.NodeName = "renamed"
	if saved, err := join.Saved(other); err != nil || saved != nil {
		t.Errorf("under another name: %+v, %v; want nothing", saved, err)
	}
	if err := os.WriteFile(filepath.Join(opts.Dir, "cluster.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var pre *problem.Precondition
	if _, err := join.Saved(opts); !errors.As(err, &pre) {
		t.Errorf("a damaged file: error %v, want a precondition", err)
	}
	if err := os.Remove(joined.ServerCA); err != nil {
		t.Fatal(err)
	}
	c.mustJoin(opts) // repairs both
	if saved, err := join.Saved(opts); err != nil || saved == nil {
		t.Errorf("after the next join: %+v, %v", saved, err)
	}
}

func TestPlaceholdersAreReplacedByTheJoin(t *testing.T) {
	c := newCluster(t)
	opts := c.machine("node")
	opts.Token = c.tokens.Agent().Encode()
	began, err := join.Placeholder(opts)
	if err != nil {
		t.Fatal(err)
	}
	// Good enough for the kubelet to start, and for nobody else.
	if _, err := tls.LoadX509KeyPair(began.ServingCert, began.ServingKey); err != nil {
		t.Errorf("serving certificate: %v", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(readCert(t, began.ClientCA))) {
		t.Error("the client CA is no certificate")
	}
	if !began.Config.ClusterDNS.IsValid() || began.Config.ClusterDomain == "" {
		t.Errorf("configuration %+v", began.Config)
	}
	if saved, err := join.Saved(opts); err != nil || saved != nil {
		t.Errorf("placeholders pass for a join: %+v, %v", saved, err)
	}
	before := readCert(t, began.ServingCert)
	joined := c.mustJoin(opts)
	if joined.ServingCert != began.ServingCert || joined.ClientCA != began.ClientCA ||
		joined.ServingKey != began.ServingKey {
		t.Errorf("the kubelet looks at %+v, the join wrote %+v", began, joined)
	}
	if readCert(t, joined.ServingCert) == before {
		t.Error("the placeholder is still there")
	}
	if _, err := tls.LoadX509KeyPair(joined.ServingCert, joined.ServingKey); err != nil {
		t.Errorf("serving certificate after the join: %v", err)
	}
}
