package loadbalancer

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/tests/nodecert"
)

// patience bounds every wait of the tests.
const patience = 2 * time.Minute

// quick is timing for tests: pauses are short, limits are not, so that a busy
// machine is not taken for a dead server.
func quick() timing {
	return timing{
		used: 20 * time.Millisecond, idle: 40 * time.Millisecond, alone: 40 * time.Millisecond,
		again:  10 * time.Millisecond,
		answer: time.Second, dial: 2 * time.Second, resolve: 20 * time.Millisecond, drain: time.Second,
	}
}

// cluster is a CA, its servers and the credential of one node.
type cluster struct {
	t       *testing.T
	serving tls.Certificate
	made    *pki.Files
	files   pki.NodeFiles
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	made, err := pki.Ensure(filepath.Join(dir, "server"), pki.Options{
		SANs: []string{"127.0.0.1", serverName}, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, files: pki.NodeFilesIn(filepath.Join(dir, "node"))}
	c.made = made
	if c.serving, err = tls.LoadX509KeyPair(made.ServingAPIServer.Cert, made.ServingAPIServer.Key); err != nil {
		t.Fatal(err)
	}
	nodecert.WriteAll(t, c.made, "n1", c.files)
	return c
}

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	l.SetLevel(logrus.DebugLevel)
	return logrus.NewEntry(l)
}

// fake is a server. It can hang: it takes connections and says nothing.
type fake struct {
	*httptest.Server
	address string
	name    string
	status  atomic.Int32 // what it answers at /readyz; 0 is 200
	probes  atomic.Int32
	cert    atomic.Bool // whether the last probe showed a certificate

	mu   sync.Mutex
	hung chan struct{} // open while it hangs
}

func (c *cluster) start(name string) *fake {
	c.t.Helper()
	return c.startAt(name, "127.0.0.1:0")
}

func (c *cluster) startAt(name, address string) *fake {
	c.t.Helper()
	f := &fake{name: name, hung: make(chan struct{})}
	close(f.hung)
	l, err := net.Listen("tcp", address)
	if err != nil {
		c.t.Fatal(err)
	}
	f.address = l.Addr().String()
	f.Server = httptest.NewUnstartedServer(f)
	f.Server.Listener.Close()
	f.Server.Listener = hanging{l, f}
	f.Server.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.TLS = &tls.Config{Certificates: []tls.Certificate{c.serving}, ClientAuth: tls.RequestClientCert}
	f.StartTLS()
	c.t.Cleanup(f.kill)
	return f
}

// ServeHTTP tells who it is, at /stream without an end.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case readyPath, "/ping":
		f.probes.Add(1)
		f.cert.Store(len(r.TLS.PeerCertificates) > 0)
		if status := int(f.status.Load()); status != 0 {
			w.WriteHeader(status)
		}
	case "/stream":
		fmt.Fprintln(w, f.name)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		fmt.Fprint(w, f.name)
	}
}

func (f *fake) hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hung = make(chan struct{})
}

func (f *fake) recover() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.hung:
	default:
		close(f.hung)
	}
}

// kill ends the server and its connections at once.
func (f *fake) kill() {
	f.recover()
	f.CloseClientConnections()
	f.Close()
}

type hanging struct {
	net.Listener
	f *fake
}

func (h hanging) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return hangingConn{c, h.f}, nil
}

type hangingConn struct {
	net.Conn
	f *fake
}

func (c hangingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.f.mu.Lock()
	hung := c.f.hung
	c.f.mu.Unlock()
	<-hung
	return n, err
}

// balancer starts a load balancer of the node of c.
func (c *cluster) balancer(o Options) *Balancer {
	c.t.Helper()
	b := c.idle(o)
	run(c.t, b)
	return b
}

// idle makes a load balancer that does not run.
func (c *cluster) idle(o Options) *Balancer {
	c.t.Helper()
	if o.Listen == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			c.t.Fatal(err)
		}
		o.Listen = l.Addr().String()
		l.Close()
	}
	if o.Dir == "" {
		o.Dir = c.t.TempDir()
	}
	if o.Log == nil {
		o.Log = quiet()
	}
	if o.Files == (pki.NodeFiles{}) {
		o.Files = c.files
	}
	if o.timing == (timing{}) {
		o.timing = quick()
	}
	return New(o)
}

func run(t *testing.T, b *Balancer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- b.Component().Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// client is a client on the node: it knows the load balancer only.
func (c *cluster) client(b *Balancer) *http.Client {
	c.t.Helper()
	p := &prober{pool: b.pool}
	if err := p.prepare(true); err != nil {
		c.t.Fatal(err)
	}
	tr := p.client.Transport.(*http.Transport)
	tr.DialContext = nil
	c.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

// ask returns which server answers a new connection.
func (c *cluster) ask(b *Balancer) (string, error) {
	client := c.client(b)
	defer client.CloseIdleConnections()
	client.Timeout = 2 * time.Second
	resp, err := client.Get(b.URL())
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// stream opens a connection that ends with its server.
type stream struct {
	server string
	ended  chan struct{}
}

func (c *cluster) stream(b *Balancer) *stream {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL()+"/stream", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	client := c.client(b)
	client.Timeout = 0
	resp, err := client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	lines := bufio.NewReader(resp.Body)
	line, err := lines.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	s := &stream{server: strings.TrimSpace(line), ended: make(chan struct{})}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		resp.Body.Close()
		close(s.ended)
	}()
	c.t.Cleanup(func() { cancel(); <-s.ended })
	return s
}

func (s *stream) wait(t *testing.T) {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Fatalf("the connection to %s was not ended", s.server)
	}
}

func (s *stream) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waiting until %s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// is waits until a server is in a state.
func (b *Balancer) is(t *testing.T, address string, want Health) {
	t.Helper()
	until(t, address+" is "+want.String(), func() error {
		for _, s := range b.Servers() {
			if s.Address == address {
				if s.Health == want && (want == Ready) == (s.LastError == "") {
					return nil
				}
				return fmt.Errorf("it is %s: %s", s.Health, s.LastError)
			}
		}
		return errors.New("there is no such server")
	})
}

// warned returns whether there was a warning with the text.
func warned(hook *logtest.Hook, text string) bool {
	for _, e := range hook.AllEntries() {
		if e.Level == logrus.WarnLevel && strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}
