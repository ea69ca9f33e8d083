package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/tests/hosts"
)

// TestAuthoritiesOfSeveralServers replaces the CAs of three servers and an agent
// as documented, one server after the other, while objects are written.
func TestAuthoritiesOfSeveralServers(t *testing.T) {
	onDemand(t)
	one := ownCluster(t, "caone", "--cluster-init", "--disable-agent")
	two := joinServer(t, "catwo", one, "--disable-agent")
	three := joinServer(t, "cathree", one) // with a node
	all := []*cluster{one, two, three}
	one.waitServers(t, all...)
	worker := newAgent(t, "caworker", one)
	one.waitNodeReady(t, worker.host.Name, worker.started)
	three.waitOwnNode(t)
	old, oldToken := one.authorities(t), one.serverToken(t)
	for _, c := range all {
		c.serves(t, old)
	}

	refused := func(c *cluster, what, says string, args ...string) {
		t.Helper()
		r := c.a4s(t, append([]string{"certificate", "rotate-ca"}, args...)...)
		if r.ExitCode == 0 || !strings.Contains(r.Stderr, says) {
			t.Errorf("%s: exit code %d, want an error that says %q\n%s%s", what, r.ExitCode, says, r.Stdout, r.Stderr)
		}
	}
	if err := one.host.WriteFile(dataDir+"/nothing/here", ""); err != nil {
		t.Fatal(err)
	}
	refused(one, "nothing to finish", "none was replaced", "--finish")
	refused(one, "a directory without CAs", "has no CA in it", "--path", dataDir+"/nothing")
	if err := three.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	refused(one, "a server is down", "cathree does not answer")
	refused(one, "a server is down, by force", "cathree does not answer", "--force")
	refused(three, "a stopped server of several", "start a4s on this machine")
	three.restart(t)
	one.waitServers(t, all...)
	three.waitOwnNode(t)
	for _, c := range all {
		if c.fetched(t) || !slices.EqualFunc(c.authorities(t), old, (*x509.Certificate).Equal) {
			t.Fatalf("a refused replacement has changed server %s", c.host.Name)
		}
	}

	writes := startScribe(t, one.namespace(t), all...) // as those who know only the old CAs
	out := strings.TrimSpace(one.must(t, "certificate", "rotate-ca"))
	token := out[strings.LastIndexByte(out, '\n')+1:]
	if !strings.HasPrefix(token, "K10") || token == oldToken || strings.Contains(out, "not yet fetched") {
		t.Errorf("the command prints:\n%s", out)
	}
	for _, c := range all {
		if !c.fetched(t) {
			t.Errorf("server %s has not fetched the new CAs", c.host.Name)
		}
		c.serves(t, old)
	}
	refused(two, "a second replacement", "wait for the restart of caone, cathree, catwo")
	refused(two, "an end before the servers were restarted", "wait for the restart", "--finish")
	restart := func(c *cluster) {
		t.Helper()
		if err := c.proc.Stop(stopTimeout); err != nil {
			t.Fatal(err)
		}
		c.restart(t)
	}
	writes.during(t, "a server takes new CAs", func() { restart(one) })
	refused(one, "an end before all servers were restarted",
		"catwo has the CAs of this server, but was not restarted since", "--finish")
	writes.during(t, "another server takes new CAs", func() { two.proc.Kill(); two.restart(t) })
	writes.during(t, "the last server takes new CAs", func() { restart(three) })
	one.waitServers(t, all...)
	now := one.authorities(t)
	for i, ca := range now {
		if ca.Equal(old[i]) {
			t.Errorf("CA %q was not replaced", ca.Subject.CommonName)
		}
	}
	for _, c := range all {
		c.serves(t, now)
		if got := c.serverToken(t); got != token {
			t.Errorf("server %s has token %s, the command printed %s", c.host.Name, got, token)
		}
	}
	if err := worker.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	if err := worker.start(); err != nil { // with the old token
		t.Fatal(err)
	}
	one.waitNodeReady(t, worker.host.Name, worker.started)
	worker.servesKubelet(t, now[0])
	three.waitOwnNode(t)
	three.servesKubelet(t, now[0])

	// Those who know the old CAs have done their work.
	writes.end()
	writes.check(t, all...)
	outdated := one.client
	for _, c := range all {
		c.client = nil
		c.waitReady(t)
	}
	after := startScribe(t, one.namespace(t), all...)
	hosts.Until(t, soon, "all servers say that they were restarted", func(context.Context) error {
		if r := two.a4s(t, "certificate", "rotate-ca", "--finish"); r.ExitCode != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	for _, c := range all { // two and three have the old token in their arguments
		after.during(t, "server "+c.host.Name+" forgets the old CAs", func() { restart(c) })
	}
	one.waitServers(t, all...)
	for _, c := range all {
		c.serves(t, now)
		b, err := os.ReadFile(c.host.Path(dataDir + "/server/tls/etcd/peer-ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		if certs, err := pki.ParseCerts(b); err != nil || len(certs) != 1 || c.fetched(t) {
			t.Errorf("server %s trusts %d CAs among members, %v", c.host.Name, len(certs), err)
		}
	}
	if _, err := outdated.Discovery().ServerVersion(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a client with the old CA: %v", err)
	}
	if err := worker.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	if err := worker.start(); err != nil {
		t.Fatal(err)
	}
	one.waitNodeReady(t, worker.host.Name, worker.started)
	three.waitOwnNode(t)

	// The cluster grows as before.
	four := joinServer(t, "cafour", two, "--disable-agent")
	four.serves(t, now)
	another := newAgent(t, "canode", four)
	one.waitNodeReady(t, another.host.Name, another.started)
	another.servesKubelet(t, now[0])
	after.end()
	writes.check(t, one, two, three, four)
	after.check(t, one, two, three, four)
}

// authorities are the CAs that sign on a server: that of servers, and the two
// of the datastore.
func (c *cluster) authorities(t *testing.T) []*x509.Certificate {
	t.Helper()
	f := pki.FilesIn(c.host.Path(dataDir + "/server/tls"))
	var out []*x509.Certificate
	for _, file := range []string{f.ServerCA.Cert, f.EtcdServerCA.Cert, f.EtcdPeerCA.Cert} {
		cert, err := pki.ReadCert(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, cert)
	}
	return out
}

// fetched says whether a server has CAs for its next start.
func (c *cluster) fetched(t *testing.T) bool {
	t.Helper()
	found, err := filepath.Glob(c.host.Path(dataDir + "/server/db/authorities.next"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found) == 1
}

// serves checks who signed what the ports of a server show.
func (c *cluster) serves(t *testing.T, signers []*x509.Certificate) {
	t.Helper()
	for i, port := range []string{"6443", "2379", "2380"} {
		if err := c.signedBy(t.Context(), port, signers[i]); err != nil {
			t.Errorf("server %s: %v", c.host.Name, err)
		}
	}
	config, err := clientcmd.LoadFromFile(c.host.Path(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		if ca, err := pki.ParseCerts(cluster.CertificateAuthorityData); err != nil || !ca[0].Equal(signers[0]) {
			t.Errorf("the kubeconfig of server %s has another CA, %v", c.host.Name, err)
		}
	}
}

// servesKubelet waits until the port of the kubelet has a certificate of ca.
func (n *node) servesKubelet(t *testing.T, ca *x509.Certificate) {
	t.Helper()
	hosts.Until(t, soon, "the kubelet of "+n.host.Name+" serves a certificate of the CA",
		func(ctx context.Context) error {
			return n.signedBy(ctx, "10250", ca)
		})
}

func (n *node) signedBy(ctx context.Context, port string, ca *x509.Certificate) error {
	var shown []*x509.Certificate
	d := tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, // what it shows is the question
		VerifyConnection: func(s tls.ConnectionState) error {
			shown = s.PeerCertificates
			return nil
		},
	}}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(n.host.IP.String(), port))
	if err == nil {
		err = conn.Close()
	}
	if len(shown) == 0 {
		return fmt.Errorf("port %s shows no certificate: %w", port, err)
	}
	if err := shown[0].CheckSignatureFrom(ca); err != nil {
		return fmt.Errorf("port %s shows a certificate of %q: %w", port, shown[0].Issuer.CommonName, err)
	}
	return nil
}
