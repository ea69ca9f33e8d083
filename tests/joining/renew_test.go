package joining

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/agent/cluster/loadbalancer"
	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/internal/pki"
)

func TestRenew(t *testing.T) {
	c := newCluster(t)
	opts := c.machine("n1")
	res := c.mustJoin(opts)
	if err := kubeconfig.Write(kubeconfig.Options{
		Path: join.CredentialFile(opts.Dir), Server: opts.ServerURL, CAFile: res.ServerCA, CertFile: res.ClientCert,
		KeyFile: res.ClientKey,
	}); err != nil {
		t.Fatal(err)
	}
	known, err := join.Known(opts.Dir)
	if err != nil || known.ServerURL != opts.ServerURL || known.NodeName != "n1" ||
		!slices.Equal(known.NodeIPs, opts.NodeIPs) {
		t.Fatalf("known %+v, %v", known, err)
	}
	known.NodePasswordFile, known.Log = opts.NodePasswordFile, opts.Log

	keys := readCert(t, res.ClientKey) + readCert(t, res.ServingKey)
	client, serving := readCert(t, res.ClientCert), readCert(t, res.ServingCert)
	c.seen() // forgets the join
	if err := join.Renew(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	for _, r := range c.seen() {
		if r.credential || !r.cert {
			t.Errorf("a renewal without a token showed one, or no certificate: %+v", r)
		}
	}
	if readCert(t, res.ClientCert) == client || readCert(t, res.ServingCert) == serving {
		t.Error("a certificate is the old one")
	}
	if readCert(t, res.ClientKey)+readCert(t, res.ServingKey) != keys {
		t.Error("a running process may see a new key with an old certificate")
	}

	// It tries once: a server that is away is the business of the caller.
	c.server.Close()
	if err := join.Renew(t.Context(), known); err == nil {
		t.Error("no error without a server")
	}
	if _, err := pki.ReadCert(res.ClientCert); err != nil {
		t.Error(err)
	}
}

// TestRenewBehindALoadBalancer: the command that renews certificates works while
// nothing listens where the node's clients connect.
func TestRenewBehindALoadBalancer(t *testing.T) {
	c := newCluster(t)
	gone := httptest.NewTLSServer(http.NotFoundHandler())
	gone.Close()
	opts := c.machine("n1")
	res := c.mustJoin(opts)
	b := loadbalancer.New(loadbalancer.Options{
		Listen: "127.0.0.1:1", Configured: []string{gone.URL}, Dir: opts.Dir, Log: quiet(),
	})
	b.Learn([]string{strings.TrimPrefix(c.server.URL, "https://")})
	if err := kubeconfig.Write(kubeconfig.Options{
		Path: join.CredentialFile(opts.Dir), Server: b.URL(), CAFile: res.ServerCA, CertFile: res.ClientCert,
		KeyFile: res.ClientKey,
	}); err != nil {
		t.Fatal(err)
	}
	known, err := join.Known(opts.Dir)
	if err != nil || known.ServerURL != gone.URL {
		t.Fatalf("known %+v, %v", known, err)
	}
	known.NodePasswordFile, known.Log = opts.NodePasswordFile, opts.Log
	if err := join.Renew(t.Context(), known); err != nil {
		t.Fatal(err)
	}
}

func TestKnownWithoutANode(t *testing.T) {
	if _, err := join.Known(t.TempDir()); err == nil {
		t.Error("no error for a directory without a node")
	}
}
