package joining

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

func readCert(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// wantInput fails unless err is bad input of the flag and says all of it.
func wantInput(t *testing.T, err error, flag string, says ...string) {
	t.Helper()
	var in *problem.Input
	if !errors.As(err, &in) || in.Source != flag {
		t.Fatalf("error %v, want an input error of %s", err, flag)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %q prints the secret", err)
	}
}

func TestJoinBringsEverythingHome(t *testing.T) {
	c := newCluster(t)
	for name, token := range map[string]string{
		"server-token": c.tokens.Server().Encode(), "agent-token": c.tokens.Agent().Encode(),
		"bare-server-password": serverPassword, "bare-agent-password": agentPassword,
	} {
		t.Run(name, func(t *testing.T) {
			opts := c.machine(name)
			opts.Token = token
			res := c.mustJoin(opts)
			if res.Config != clusterConfig {
				t.Errorf("config %+v", res.Config)
			}
			if readCert(t, res.ServerCA) != readCert(t, c.files.ServerCA.Cert) ||
				readCert(t, res.ClientCA) != readCert(t, c.files.ClientCA.Cert) {
				t.Error("the CAs differ from the server's")
			}
			for _, key := range []string{res.ClientKey, res.ServingKey, opts.NodePasswordFile} {
				if fi, err := os.Stat(key); err != nil || fi.Mode() != 0o600 {
					t.Errorf("%s: %v, %v", key, fi, err)
				}
			}
			serving, err := pki.ParseCerts([]byte(readCert(t, res.ServingCert)))
			if err != nil {
				t.Fatal(err)
			}
			for _, san := range []string{name, "192.0.2.10"} {
				if err := serving[0].VerifyHostname(san); err != nil {
					t.Error(err)
				}
			}
			// The client certificate works as the node's identity.
			if code, _, body := c.send(c.client(pki.Pair{Cert: res.ClientCert, Key: res.ClientKey}), http.MethodGet,
				joinapi.PathConfig, "", ""); code != http.StatusOK {
				t.Errorf("the node's certificate: %d %s", code, body)
			}
		})
	}
}

func TestNoCredentialBeforeTheCAIsVerified(t *testing.T) {
	c, other := newCluster(t), newCluster(t)
	opts := c.machine("n1")
	opts.Token = other.tokens.Agent().Encode()
	_, err := join.Join(t.Context(), opts)
	wantInput(t, err, "--token", c.tokens.Agent().CAHash, other.tokens.Agent().CAHash)
	for _, r := range c.seen() {
		if r.credential || r.cert || r.path != joinapi.PathCACerts {
			t.Errorf("the wrong server saw %+v", r)
		}
	}

	// A server that shows the right CA but has no certificate of it, as
	// somebody in between would, must not get the token either.
	asked := make(chan string, 10)
	mitm := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + r.Header.Get("Authorization")
		_, _ = w.Write([]byte(readCert(t, c.files.ServerCA.Cert)))
	}))
	defer mitm.Close()
	opts = c.machine("n1")
	opts.ServerURL = mitm.URL
	_, err = join.Join(t.Context(), opts)
	wantInput(t, err, "--server", "not signed by the CA")
	close(asked)
	for got := range asked {
		if got != joinapi.PathCACerts {
			t.Errorf("the server in between saw %q", got)
		}
	}
	if _, err := os.Stat(filepath.Join(opts.Dir, "tls", "server-ca.crt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a CA was pinned although nothing proved it: %v", err)
	}
}

func TestWrongToken(t *testing.T) {
	c := newCluster(t)
	good := c.tokens.Agent()
	for name, tok := range map[string]jointoken.Token{
		"password":        {CAHash: good.CAHash, User: joinapi.UserNode, Password: "other-s3cret"},
		"agent as server": {CAHash: good.CAHash, User: joinapi.UserServer, Password: agentPassword},
		"bootstrap":       {CAHash: good.CAHash, ID: "abcdef", Secret: "0123456789abcdef"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := c.machine("n1")
			opts.Token = tok.Encode()
			_, err := join.Join(t.Context(), opts)
			wantInput(t, err, "--token", "refused the token", c.server.URL)
		})
	}
	for name, tc := range map[string]struct {
		edit func(*join.Options)
		flag string
	}{
		"malformed": {func(o *join.Options) { o.Token = "K10s3cret" }, "--token"},
		"none":      {func(o *join.Options) { o.Token = "" }, "--token"},
		"http":      {func(o *join.Options) { o.ServerURL = "http://x:6443" }, "--server"},
		"path":      {func(o *join.Options) { o.ServerURL += "/api" }, "--server"},
		"name":      {func(o *join.Options) { o.NodeName = "Not_A_Name" }, "--node-name"},
		"address":   {func(o *join.Options) { o.NodeIPs = []string{"127.0.0.1"} }, "--node-ip"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := c.machine("n1")
			tc.edit(&opts)
			_, err := join.Join(t.Context(), opts)
			wantInput(t, err, tc.flag)
		})
	}
}

func TestDuplicateNodeName(t *testing.T) {
	c := newCluster(t)
	first := c.machine("n1")
	c.mustJoin(first)
	second := c.machine("n1")
	_, err := join.Join(t.Context(), second)
	wantInput(t, err, "--node-name", "another machine holds", "--with-node-id", "kubectl delete node n1")
	if _, err := os.Stat(filepath.Join(second.Dir, "tls", "client-node.crt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the second machine got a certificate: %v", err)
	}
	c.mustJoin(first) // its owner still may

	// Once the name is free, whoever comes first has it.
	if err := c.secrets.Delete(t.Context(), mustGet(t, c, "n1.node-password.a4s")); err != nil {
		t.Fatal(err)
	}
	c.mustJoin(second)
	_, err = join.Join(t.Context(), first) // its old certificate is not enough
	wantInput(t, err, "--node-name", "another machine holds")
}

func TestRestartUsesTheCertificateFirst(t *testing.T) {
	c := newCluster(t)
	opts := c.machine("n1")
	res := c.mustJoin(opts)
	key, cert := readCert(t, res.ClientKey), readCert(t, res.ClientCert)
	if _, err := c.tokens.Rotate(joinapi.UserNode, "replaced-s3cret"); err != nil {
		t.Fatal(err)
	}
	c.seen()
	for name, token := range map[string]string{"replaced token": opts.Token, "no token": "", "bare": agentPassword} {
		again := opts
		again.Token = token
		if _, err := join.Join(t.Context(), again); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, r := range c.seen() {
			if r.credential || !r.cert || r.statusCode != http.StatusOK {
				t.Errorf("%s: %+v, want the certificate and no token", name, r)
			}
		}
	}
	if readCert(t, res.ClientKey) != key {
		t.Error("the key changed")
	}
	if readCert(t, res.ClientCert) == cert {
		t.Error("the certificate was not renewed")
	}
	fresh := c.machine("n2")
	fresh.Token = opts.Token
	_, err := join.Join(t.Context(), fresh)
	wantInput(t, err, "--token", "refused the token")
}

func TestCertificateOfAFormerClusterFallsBackToTheToken(t *testing.T) {
	old, c := newCluster(t), newCluster(t)
	opts := old.machine("n1")
	res := old.mustJoin(opts)
	cert, key := readCert(t, res.ClientCert), readCert(t, res.ClientKey)

	// A complete token of the new cluster replaces the pin, and the old
	// cluster's certificate is not shown to the new one.
	opts.ServerURL, opts.Token = c.server.URL, c.tokens.Agent().Encode()
	c.mustJoin(opts)
	if readCert(t, res.ServerCA) != readCert(t, c.files.ServerCA.Cert) {
		t.Error("the pin is still that of the old cluster")
	}
	for _, r := range c.seen() {
		if r.cert {
			t.Errorf("the new cluster saw the certificate of the old one: %+v", r)
		}
	}

	// With the right pin the certificate is tried, and then the token.
	for path, data := range map[string]string{res.ClientCert: cert, res.ClientKey: key} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	noToken := opts
	noToken.Token = ""
	_, err := join.Join(t.Context(), noToken)
	wantInput(t, err, "--token", "does not accept the certificate", "no token")
	c.seen()
	c.mustJoin(opts)
	if got := c.seen(); len(got) != 3 || got[0].credential || got[0].statusCode != http.StatusUnauthorized ||
		!got[1].credential {
		t.Errorf("the server saw %+v, want the certificate refused and then the token", got)
	}
}

func TestBarePasswordNeedsThePinnedCA(t *testing.T) {
	old, c := newCluster(t), newCluster(t)
	opts := old.machine("n1")
	opts.Token = agentPassword
	hook := logtest.NewLocal(opts.Log.Logger)
	old.mustJoin(opts)
	warnings := 0
	for _, e := range hook.AllEntries() {
		if e.Level == logrus.WarnLevel && strings.Contains(e.Message, "first use") {
			warnings++
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings about trust on first use, want 1", warnings)
	}
	opts.ServerURL = c.server.URL
	_, err := join.Join(t.Context(), opts)
	wantInput(t, err, "--server", "not signed by the CA that this node trusts", "server-ca.crt")
	if got := c.seen(); len(got) != 0 {
		t.Errorf("the other server saw %+v", got)
	}
}

func TestJoinWaitsForTheServer(t *testing.T) {
	c := newCluster(t)
	c.secrets.fail(errors.New("not ready"))
	opts := c.machine("n1")
	hook := logtest.NewLocal(opts.Log.Logger)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := join.Join(ctx, opts)
		done <- err
	}()
	for refused := false; !refused; {
		for _, r := range c.seen() {
			refused = refused || r.statusCode == http.StatusServiceUnavailable
		}
		select {
		case err := <-done:
			t.Fatalf("the join ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	c.secrets.fail(nil)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	waits := 0
	for _, e := range hook.AllEntries() {
		if strings.Contains(e.Message, "waiting") && strings.Contains(e.Message, "not ready") {
			waits++
		}
	}
	if waits != 1 {
		t.Errorf("%d lines say what the join waits for, want 1", waits)
	}
}

func TestJoinEndsWithItsContext(t *testing.T) {
	c := newCluster(t)
	opts := c.machine("n1")
	c.server.Close() // connection refused
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	hook := logtest.NewLocal(opts.Log.Logger)
	done := make(chan error, 1)
	go func() {
		_, err := join.Join(ctx, opts)
		done <- err
	}()
	for hook.LastEntry() == nil {
		select {
		case err := <-done:
			t.Fatalf("the join ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel(stop)
	if err := <-done; !errors.Is(err, stop) || !strings.Contains(err.Error(), c.server.URL) {
		t.Fatalf("error %v", err)
	}
}

func TestDamagedFilesOfTheNode(t *testing.T) {
	c := newCluster(t)
	for _, name := range []string{"client-node.key", "serving-kubelet.key", "server-ca.crt"} {
		t.Run(name, func(t *testing.T) {
			opts := c.machine("d-" + strings.ReplaceAll(name, ".", "-"))
			c.mustJoin(opts)
			path := filepath.Join(opts.Dir, "tls", name)
			if err := os.WriteFile(path, []byte("garbage"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := join.Join(t.Context(), opts)
			var p *problem.Precondition
			if !errors.As(err, &p) || !strings.Contains(err.Error(), path) || p.Fix == "" {
				t.Fatalf("error %v, want a precondition that names %s", err, path)
			}
		})
	}
}

// TestJoinTriesAllServers: what one server cannot do another can, and one that
// is not of the cluster does not keep the node from the others.
func TestJoinTriesAllServers(t *testing.T) {
	c, other := newCluster(t), newCluster(t)
	gone := httptest.NewTLSServer(http.NotFoundHandler())
	gone.Close()
	for name, tc := range map[string]struct {
		servers []string
		joins   bool
		flag    string
	}{
		"the first is gone":                {[]string{gone.URL, c.server.URL}, true, ""},
		"the first is of another cluster":  {[]string{other.server.URL, c.server.URL}, true, ""},
		"the second is of another cluster": {[]string{c.server.URL, other.server.URL}, true, ""},
		"all are of another cluster":       {[]string{other.server.URL}, false, "--token"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := c.machine(strings.ReplaceAll(name, " ", "-"))
			opts.Servers = func(context.Context) []string { return tc.servers }
			_, err := join.Join(t.Context(), opts)
			if tc.joins && err != nil {
				t.Error(err)
			}
			if !tc.joins {
				wantInput(t, err, tc.flag)
			}
		})
	}
	// One that is away may come back, whatever the others are.
	waiting := c.machine("waiting")
	waiting.Servers = func(context.Context) []string { return []string{other.server.URL, gone.URL} }
	hook := logtest.NewLocal(waiting.Log.Logger)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := join.Join(ctx, waiting)
		done <- err
	}()
	for said := ""; !strings.Contains(said, gone.URL) || !strings.Contains(said, c.tokens.Agent().CAHash); {
		select {
		case err := <-done:
			t.Fatalf("the join ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		if last := hook.LastEntry(); last != nil {
			said = last.Message
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the end is %v", err)
	}
	// One that refuses the node does so for all of them.
	taken := c.machine("the-first-is-gone")
	taken.Servers = func(context.Context) []string { return []string{gone.URL, c.server.URL, gone.URL} }
	_, err := join.Join(t.Context(), taken)
	wantInput(t, err, "--node-name", "another machine holds")
	for _, r := range other.seen() {
		if r.credential || r.cert {
			t.Errorf("the other cluster saw %+v", r)
		}
	}
}
