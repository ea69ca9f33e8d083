package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// world is a proxy that serves, and whose tables the test changes.
type world struct {
	t testing.TB
	*proxy
	http, https string
}

func silent() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return logrus.NewEntry(log)
}

func listener(t testing.TB) net.Listener {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() }) //nolint:errcheck // it may be closed
	return l
}

func newWorld(t testing.TB, limits Limits, lines ...joinapi.IngressLine) *world {
	o := Options{HTTP: listener(t), HTTPS: listener(t), Log: silent(), Limits: limits, Drain: time.Millisecond}
	fallback, err := selfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, proxy: newProxy(o.withDefaults()), http: o.HTTP.Addr().String(), https: o.HTTPS.Addr().String()}
	w.tell(lines...)
	requests, cancel := context.WithCancel(context.Background())
	server := w.server(requests, fallback)
	w.listen(server)
	t.Cleanup(func() { w.drain(server, cancel) })
	return w
}

// tell is one batch.
func (w *world) tell(lines ...joinapi.IngressLine) {
	for _, line := range append(lines, joinapi.IngressLine{Complete: true}) {
		w.tables.apply(line)
	}
}

// client connects to the proxy whatever the host.
func (w *world) client(set func(*http.Transport)) *http.Client {
	return clientOfProxy(w.t, w.http, w.https, set)
}

func clientOfProxy(t testing.TB, plainAt, tlsAt string, set func(*http.Transport)) *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			to := plainAt
			if _, port, _ := net.SplitHostPort(address); port == "443" {
				to = tlsAt
			}
			return (&net.Dialer{}).DialContext(ctx, network, to)
		},
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true},
		MaxIdleConnsPerHost: 100,
	}
	if set != nil {
		set(transport)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

func onlyH2C(t *http.Transport) {
	t.Protocols = &http.Protocols{}
	t.Protocols.SetUnencryptedHTTP2(true)
}

func h2OverTLS(t *http.Transport) {
	t.Protocols = &http.Protocols{}
	t.Protocols.SetHTTP2(true)
}

// get returns status and body of a request.
func get(t testing.TB, c *http.Client, url string) (int, string) {
	t.Helper()
	resp, body := do(t, c, request(t, http.MethodGet, url, nil))
	return resp.StatusCode, body
}

func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func do(t testing.TB, c *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is read below
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond) // between two looks only
	}
}

// pod is a server of a backend.
func pod(t testing.TB, h http.HandlerFunc) netip.AddrPort {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return addrPort(s.Listener)
}

func says(word string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, word) } //nolint:errcheck // a test sees it
}

func h2cPod(t testing.TB, h http.HandlerFunc) netip.AddrPort {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = &http.Protocols{}
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return addrPort(s.Listener)
}

func addrPort(l net.Listener) netip.AddrPort {
	return netip.MustParseAddrPort(l.Addr().String())
}

// nowhere is an address that refuses connections.
func nowhere(t testing.TB) netip.AddrPort {
	l := listener(t)
	defer l.Close() //nolint:errcheck // it was not used
	return addrPort(l)
}

func hostLine(name, tenant string, paths ...joinapi.IngressPath) joinapi.IngressLine {
	return joinapi.IngressLine{Host: &joinapi.IngressHost{Name: name, Tenant: tenant, Paths: paths}}
}

func all(backend string) joinapi.IngressPath { return joinapi.IngressPath{Path: "/", Backend: backend} }

func backendLine(id, tenant, protocol string, at ...netip.AddrPort) joinapi.IngressLine {
	return joinapi.IngressLine{Backend: &joinapi.IngressBackend{
		ID: id, Tenant: tenant, Protocol: protocol, Endpoints: at,
	}}
}

// site is a host of a tenant with one backend, both of one name.
func site(name, tenant string, at ...netip.AddrPort) []joinapi.IngressLine {
	return []joinapi.IngressLine{hostLine(name, tenant, all(name)), backendLine(name, tenant, "", at...)}
}

// certificateLine is a self-signed certificate for names.
func certificateLine(t testing.TB, id, tenant string, names ...string) joinapi.IngressLine {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: id}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return joinapi.IngressLine{Certificate: &joinapi.IngressCertificate{
		ID: id, Tenant: tenant,
		Chain: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:   pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}}
}
