package loadbalancer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/pki"
)

var errOther = errors.New("it is not so")

// dialerClient starts a dialer, and a client that knows it only.
func (c *cluster) dialerClient() (*Dialer, *http.Client) {
	c.t.Helper()
	d := NewDialer(Options{Files: c.files, Log: quiet(), timing: quick()})
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Run(ctx)
	}()
	c.t.Cleanup(func() {
		cancel()
		<-done
	})
	client, err := rest.HTTPClientFor(d.Config(rest.TLSClientConfig{CAFile: c.files.ServerCA,
		CertFile: c.files.Client.Cert, KeyFile: c.files.Client.Key}))
	if err != nil {
		c.t.Fatal(err)
	}
	return d, client
}

// askBy returns which server answers.
func askBy(client *http.Client) (string, error) {
	resp, err := client.Get(DialerURL)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// TestDialer: connections go to a server that answers, and away from one that hangs.
func TestDialer(t *testing.T) {
	c := newCluster(t)
	d, client := c.dialerClient()
	if _, err := askBy(client); err == nil {
		t.Error("it connects without a server")
	}
	one, two := c.start("one"), c.start("two")
	d.Learn([]string{one.address})
	until(t, "one answers", func() error { _, err := askBy(client); return err })
	got, err := askBy(client)
	if err != nil || got != "one" {
		t.Fatalf("%q answers: %v", got, err)
	}
	d.Learn([]string{one.address, two.address})
	until(t, "both are ready", func() error { return both(d) })
	one.hang()
	until(t, "two answers", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), quick().answer)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, DialerURL, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && string(body) != "two" {
			return errOther
		}
		return err
	})
	one.recover()
	// A server that leaves takes its connections with it.
	d.Learn([]string{one.address})
	until(t, "one answers again", func() error {
		got, err := askBy(client)
		if err == nil && got != "one" {
			return errOther
		}
		return err
	})
	utilnet.CloseIdleConnectionsFor(client.Transport)
	until(t, "no connection is counted", func() error {
		for _, s := range d.Servers() {
			if s.Connections > 0 {
				return errOther
			}
		}
		return nil
	})
}

// TestDialerAsksNoProxy: clients of a Dialer work where the environment has a proxy, which is
// there for images. Go reads that environment once in a process, so the test is a process.
func TestDialerAsksNoProxy(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDialer$")
	child.Env = append(os.Environ(), "HTTPS_PROXY=http://192.0.2.9:3128", "NO_PROXY=")
	if said, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}

// both returns an error unless two servers are ready.
func both(d *Dialer) error {
	ready := 0
	for _, s := range d.Servers() {
		if s.Health == Ready {
			ready++
		}
	}
	if ready != 2 {
		return errOther
	}
	return nil
}

// TestDialerKnowsServersOnly: what has another certificate of the CA, for example that of a
// node, is no server.
func TestDialerKnowsServersOnly(t *testing.T) {
	c := newCluster(t)
	d, client := c.dialerClient()
	ca, err := pki.LoadCA(c.made.ServerCA)
	if err != nil {
		t.Fatal(err)
	}
	key, keyPEM, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.SignNodeServing(key.Public(), "n2", []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if c.serving, err = tls.X509KeyPair(cert, keyPEM); err != nil {
		t.Fatal(err)
	}
	node := c.start("node")
	d.Learn([]string{node.address})
	until(t, "it was asked", func() error {
		for _, s := range d.Servers() {
			if s.Health == Dead {
				return nil
			}
		}
		return errOther
	})
	if got, err := askBy(client); err == nil {
		t.Errorf("%q answers", got)
	}
}
