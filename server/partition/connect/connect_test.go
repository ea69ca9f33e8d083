package connect

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/pki"
)

// TestConfigAsksNoProxy: a proxy in the environment, which is there for images, is not asked for
// another partition. Go reads that environment once in a process, so the test is a process.
func TestConfigAsksNoProxy(t *testing.T) {
	const inside = "A4S_TEST_WITH_PROXY"
	if os.Getenv(inside) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), inside+"=1", "HTTPS_PROXY=http://192.0.2.9:3128", "NO_PROXY=")
		if said, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		return
	}
	files, err := pki.Ensure(filepath.Join(t.TempDir(), "tls"), pki.Options{SANs: []string{"127.0.0.1", serverName}})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(files.ServingAPIServer.Cert, files.ServingAPIServer.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "tp2")
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	peers, err := New(files, func(string) []string { return []string{strings.TrimPrefix(server.URL, "https://")} })
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(peers.Config("tp2"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	res, err := client.Get(URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "tp2" {
		t.Errorf("the partition answers %q, %v", body, err)
	}
}
