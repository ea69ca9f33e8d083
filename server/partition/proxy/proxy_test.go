package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/partition/connect"
)

// lab is a proxy in front of a server of another partition.
type lab struct {
	files *pki.Files
	proxy *Proxy
	// front is where clients are served, behind the address of the other partition.
	front, behind *httptest.Server
	// got is the last request behind, and what it said of itself.
	got  *http.Request
	mark *Mark
	body string
	to   Target
}

func newLab(t *testing.T) *lab {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tls")
	files, err := pki.Ensure(dir, pki.Options{SANs: []string{"127.0.0.1", "kubernetes.default.svc"}})
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{files: files, to: Target{Partition: "tp2"}}
	peers, err := connect.New(files, func(partition string) []string {
		if partition != "tp2" {
			return nil
		}
		return []string{"127.0.0.1:1", strings.TrimPrefix(l.behind.URL, "https://")}
	})
	if err != nil {
		t.Fatal(err)
	}
	if l.proxy, err = New("main", peers, files, logrus.NewEntry(logrus.StandardLogger())); err != nil {
		t.Fatal(err)
	}
	l.behind = l.serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		l.mark = l.proxy.Received(req)
		body, _ := io.ReadAll(req.Body)
		l.got, l.body = req, string(body)
		w.Header().Set("Trailer", "X-End")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "answer")
		_ = http.NewResponseController(w).Flush() // of unknown length, or HTTP/1.1 has no trailers
		w.Header().Set("X-End", "reached")
	}))
	l.front = l.serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if mark := l.proxy.Received(req); mark != nil {
			t.Errorf("a client's request has the mark %+v", mark)
		}
		l.proxy.Forward(w, req, l.to)
	}))
	return l
}

func (l *lab) serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(l.files.ServingAPIServer.Cert, l.files.ServingAPIServer.Key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// client trusts the servers, and shows a certificate.
func (l *lab) client(t *testing.T, pair pki.Pair) *http.Client {
	t.Helper()
	bundle, err := os.ReadFile(l.files.ServerCA.Cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	c := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if pair.Cert != "" {
		cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	transport := &http.Transport{TLSClientConfig: c}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// forged are headers with which a client says that it is somebody else.
func forged() http.Header {
	return http.Header{
		"X-Remote-User": {"system:admin"}, "X-Remote-Group": {"system:masters"}, "X-Remote-Uid": {"1"},
		"X-Remote-Extra-A4s.io%2ftenant": {"system"}, "X-Remote-Extra-Any": {"x"},
		"A4s-Partition": {"tp2"}, "A4s-Tenant-Uid": {"forged"}, "X-Forwarded-For": {"203.0.113.1"},
		// What a client wants to be dropped on the way must not be what the proxy says.
		"Connection": {"X-Remote-User, X-Remote-Extra-A4s.io%2ftenant, A4s-Partition, A4s-Tenant-Uid"},
	}
}

func TestForwardSaysWhoAsks(t *testing.T) {
	l := newLab(t)
	l.to.User = &user.DefaultInfo{Name: "ann", UID: "7", Groups: []string{"dev", "ops"},
		Extra: map[string][]string{space.Extra: {"team-a"}, "a/b": {"c"}}}
	l.to.TenantUID = "uid-of-team-a"
	body := strings.Repeat("x", 10<<20)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, l.front.URL+"/api/v1/pods?a=b",
		strings.NewReader(body))
	req.Header = forged()
	req.Header.Set("Authorization", "Bearer secret")
	resp, err := l.client(t, pki.Pair{}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusTeapot || string(answer) != "answer" || resp.Trailer.Get("X-End") != "reached" {
		t.Errorf("got %s %q, trailers %v", resp.Status, answer, resp.Trailer)
	}
	if l.body != body || l.got.URL.RequestURI() != "/api/v1/pods?a=b" {
		t.Errorf("behind: %s with %d bytes", l.got.URL.RequestURI(), len(l.body))
	}
	want := http.Header{
		"X-Remote-User": {"ann"}, "X-Remote-Uid": {"7"}, "X-Remote-Group": {"dev", "ops"},
		"X-Remote-Extra-A4s.io%2ftenant": {"team-a"}, "X-Remote-Extra-A%2fb": {"c"},
	}
	for name, values := range l.got.Header {
		if strings.HasPrefix(name, frontProxy) && strings.Join(values, ",") != strings.Join(want[name], ",") {
			t.Errorf("%s: %q, want %q", name, values, want[name])
		}
	}
	for name := range want {
		if l.got.Header[name] == nil {
			t.Errorf("no %s in %v", name, l.got.Header)
		}
	}
	if l.mark == nil || l.mark.Partition != "main" || l.mark.TenantUID != "uid-of-team-a" ||
		l.mark.Tenant != "team-a" || l.mark.Address != "127.0.0.1" {
		t.Errorf("the mark is %+v", l.mark)
	}
	if l.got.Header.Get("Authorization") != "" || l.got.Header.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("headers behind: %v", l.got.Header)
	}
}

func TestForwardOfTheSystemSaysSo(t *testing.T) {
	l := newLab(t)
	l.to.User = &user.DefaultInfo{Name: "system:admin"}
	l.get(t, nil)
	if got := l.got.Header["X-Remote-Extra-A4s.io%2ftenant"]; len(got) != 1 || got[0] != space.System ||
		l.mark.Tenant != space.System {
		t.Errorf("the tenant is %q, the mark %+v", got, l.mark)
	}
}

// TestForwardOfATokenSaysNothing: the other side believes this connection all that it says.
func TestForwardOfATokenSaysNothing(t *testing.T) {
	l := newLab(t)
	h := forged()
	h.Set("Authorization", "Bearer secret")
	l.get(t, h)
	for name := range l.got.Header {
		if strings.HasPrefix(name, frontProxy) {
			t.Errorf("%s gets through", name)
		}
	}
	if l.mark == nil || l.mark.TenantUID != "" || l.mark.Tenant != "" || l.mark.Address != "127.0.0.1" ||
		l.got.Header.Get("Authorization") != "Bearer secret" {
		t.Errorf("the mark is %+v, headers %v", l.mark, l.got.Header)
	}
}

func (l *lab) get(t *testing.T, h http.Header) *http.Response {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, l.front.URL+"/api", nil)
	req.Header = h
	resp, err := l.client(t, pki.Pair{}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp
}

// TestRefusedBeforeItsBody: who is refused before their body came has the whole answer.
func TestRefusedBeforeItsBody(t *testing.T) {
	l := newLab(t)
	l.behind.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "no")
	})
	// A client that is answered with an error sends no more of its body, nor its end.
	body, more := io.Pipe()
	defer more.Close()
	ctx, cancel := context.WithTimeout(t.Context(), longest/2)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPatch, l.front.URL+"/api", body)
	client := l.client(t, pki.Pair{})
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || string(answer) != "no" {
		t.Errorf("got %s %q, %v", resp.Status, answer, err)
	}
}

// TestMarkNeedsAFrontProxy: the header counts on a connection of an API server only.
func TestMarkNeedsAFrontProxy(t *testing.T) {
	l := newLab(t)
	for pair, want := range map[pki.Pair]bool{
		{}: false, l.files.Admin: false, l.files.Partition: false, l.files.AuthProxy: true,
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, l.behind.URL, nil)
		req.Header = forged()
		delete(req.Header, "Connection")
		resp, err := l.client(t, pair).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if (l.mark != nil) != want || l.got.Header.Get(headerMark) != "" || l.got.Header.Get(headerUID) != "" {
			t.Errorf("%s: %+v, headers %v", pair.Cert, l.mark, l.got.Header)
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	l := newLab(t)
	l.to.Partition = "unknown"
	if resp := l.get(t, nil); resp.StatusCode != http.StatusServiceUnavailable ||
		resp.Header.Get("Retry-After") == "" || resp.Header.Get("Cache-Control") != "no-cache, private" {
		t.Errorf("got %s %v", resp.Status, resp.Header)
	}
	if err := l.proxy.peers.Ready(t.Context(), "unknown"); err == nil {
		t.Error("an unknown partition is ready")
	}
}

// TestUpgrade: exec and its like.
func TestUpgrade(t *testing.T) {
	l := newLab(t)
	l.behind.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		l.mark = l.proxy.Received(req)
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString("back: " + line)
		_ = rw.Flush()
	})
	l.to.User, l.to.Long = &user.DefaultInfo{Name: "ann"}, true
	conn, err := tls.Dial("tcp", strings.TrimPrefix(l.front.URL, "https://"),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	_, _ = io.WriteString(conn, "POST /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", resp, err)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if line, err := r.ReadString('\n'); line != "back: hello\n" || l.mark == nil {
		t.Errorf("got %q, %v; mark %+v", line, err, l.mark)
	}
}
