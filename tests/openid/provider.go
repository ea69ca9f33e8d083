package openid

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/tests/process"
)

const (
	// Client is the ID of the only client that a provider has.
	Client = "a4s"
	// Password is that of all users.
	Password = "password"

	secret       = "secret"
	redirect     = "http://localhost:9999/auth/callback"
	buildTimeout = 8 * time.Minute
	// built is where a test that runs in a copy of itself finds what it has built.
	built = "A4S_TEST_OIDCSERVER"
)

// Build builds the program of the provider, once for a test and its copies in namespaces of their own.
func Build(t testing.TB) string {
	t.Helper()
	if program := os.Getenv(built); program != "" {
		return program
	}
	ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
	defer cancel()
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), "tests", "oidcserver")
	program := filepath.Join(t.TempDir(), "oidcserver")
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", module, "-o", program, ".").
		CombinedOutput(); err != nil {
		t.Fatalf("building the provider: %v\n%s", err, out)
	}
	if err := os.Setenv(built, program); err != nil { // for the copy of the test
		t.Fatal(err)
	}
	return program
}

// Provider is a provider of OpenID Connect.
type Provider struct {
	// URL is its issuer, CA verifies it, in PEM.
	URL, CA string

	program, dir string
	listener     *os.File
	client       *http.Client
	process      *exec.Cmd
	exited       chan struct{}
}

// New makes one that listens with a TCP listener, and starts it. It ends with the test.
func New(t testing.TB, program string, listener net.Listener) *Provider {
	t.Helper()
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		t.Fatalf("a provider cannot listen with a %T", listener)
	}
	file, err := tcp.File()
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{URL: "https://" + listener.Addr().String(), program: program, dir: t.TempDir(), listener: file}
	t.Cleanup(func() {
		p.Stop()
		_ = file.Close() // nobody uses it any more
	})
	p.certify(t, listener.Addr())
	p.Users(t, nil)
	p.Start(t)
	return p
}

func (p *Provider) file(name string) string { return filepath.Join(p.dir, name) }

func (p *Provider) write(t testing.TB, name string, data []byte) {
	t.Helper()
	// At once: the provider may be reading it.
	if err := os.WriteFile(p.file(name)+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.file(name)+".new", p.file(name)); err != nil {
		t.Fatal(err)
	}
}

// certify makes the certificate of the provider, which verifies itself.
func (p *Provider) certify(t testing.TB, at net.Addr) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(at.String())
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "provider"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.ParseIP(host)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	p.write(t, "tls.crt", cert)
	p.write(t, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	p.CA = string(cert)
	p.client = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}
}

// Users are those of the provider from now on, with the claims that their tokens have besides sub.
func (p *Provider) Users(t testing.TB, claims map[string]map[string]any) {
	t.Helper()
	data, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "users.json", data)
}

// Start starts the provider, with a key of its own.
func (p *Provider) Start(t testing.TB) {
	t.Helper()
	log, err := os.Create(p.file("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // the provider has it, too
	p.process = exec.Command(p.program, "-issuer", p.URL, "-cert", p.file("tls.crt"), "-key", p.file("tls.key"),
		"-users", p.file("users.json"), "-client", Client, "-fd", "3")
	p.process.Stdout, p.process.Stderr, p.process.ExtraFiles = log, log, []*os.File{p.listener}
	wait, err := process.Start(p.process)
	if err != nil {
		t.Fatal(err)
	}
	p.exited = make(chan struct{})
	go func() {
		defer close(p.exited)
		_ = wait() // it is killed
	}()
	// The socket listens already: the answer comes when it serves.
	if _, err := p.get(t, p.URL+"/.well-known/openid-configuration"); err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("the provider does not start: %v\n%s", err, text)
	}
}

// Stop ends the provider. What connects to it then waits for an answer in vain.
func (p *Provider) Stop() {
	if p.process == nil {
		return
	}
	_ = p.process.Process.Kill() // it may have ended
	<-p.exited
	p.process = nil
}

// Login logs a user in, and returns their token.
func (p *Provider) Login(t testing.TB, user string) string {
	t.Helper()
	token, err := p.login(t, user)
	if err != nil {
		text, _ := os.ReadFile(p.file("log"))
		t.Fatalf("logging %s in: %v\n%s", user, err, text)
	}
	return token
}

func (p *Provider) login(t testing.TB, user string) (string, error) {
	ask := url.Values{"client_id": {Client}, "redirect_uri": {redirect}, "response_type": {"code"},
		"scope": {"openid"}, "state": {"x"}}
	page, err := p.get(t, p.URL+"/auth?"+ask.Encode())
	if err != nil {
		return "", err
	}
	back, err := p.post(t, page, url.Values{"id": {page.Query().Get("authRequestID")}, "username": {user},
		"password": {Password}})
	if err != nil {
		return "", err
	}
	given, err := p.get(t, back.String())
	if err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {given.Query().Get("code")},
		"redirect_uri": {redirect}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/oauth/token",
		strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(Client, secret)
	resp, err := p.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	var answer struct {
		Token string `json:"id_token"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Token == "" {
		return "", fmt.Errorf("%s: %s", resp.Status, body)
	}
	return answer.Token, nil
}

// get returns where the answer leads to, which is nowhere if it is a page.
func (p *Provider) get(t testing.TB, at string) (*url.URL, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	return p.follow(req)
}

func (p *Provider) post(t testing.TB, at *url.URL, form url.Values) (*url.URL, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return p.follow(req)
}

func (p *Provider) follow(req *http.Request) (*url.URL, error) {
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("%s: %s", resp.Status, body)
	}
	if resp.Header.Get("Location") == "" {
		return req.URL, nil
	}
	return resp.Location()
}
