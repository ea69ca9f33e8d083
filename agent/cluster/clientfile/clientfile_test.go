package clientfile

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/tests/nodecert"
)

// header is what the transport of the test adds.
const header = "X-Wrapped"

type adds struct {
	http.RoundTripper
	value string
}

func (a adds) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(header, a.value)
	return a.RoundTripper.RoundTrip(r)
}

// node makes a server that wants a certificate, and what a kubeconfig of a node for it says.
func node(t *testing.T, answer http.HandlerFunc) kubeconfig.Options {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	dir := t.TempDir()
	made, err := pki.Ensure(filepath.Join(dir, "server"),
		pki.Options{SANs: []string{"127.0.0.1"}, Log: logrus.NewEntry(log)})
	if err != nil {
		t.Fatal(err)
	}
	serving, err := tls.LoadX509KeyPair(made.ServingAPIServer.Cert, made.ServingAPIServer.Key)
	if err != nil {
		t.Fatal(err)
	}
	out := kubeconfig.Options{CAFile: made.ServerCA.Cert,
		CertFile: filepath.Join(dir, "client.crt"), KeyFile: filepath.Join(dir, "client.key")}
	nodecert.Write(t, made, "n1", pki.Pair{Cert: out.CertFile, Key: out.KeyFile})
	clientCA, err := os.ReadFile(made.ClientCA.Cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(clientCA)
	s := httptest.NewUnstartedServer(answer)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: pool}
	s.StartTLS()
	t.Cleanup(s.Close)
	out.Server = s.URL
	return out
}

// TestClientsOfAFile: clients that are made of files as kube-proxy and flannel make them have the
// transport of their file, and its credentials, whatever form they speak.
func TestClientsOfAFile(t *testing.T) {
	o := node(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","items":[`+
			`{"metadata":{"name":"seen","labels":{"user":%q,"transport":%q,"accepts":%q}}}]}`,
			r.TLS.PeerCertificates[0].Subject.CommonName, r.Header.Get(header), r.Header.Get("Accept"))
	})
	write := func(name string, provider *api.AuthProviderConfig) string {
		o.Path, o.AuthProvider = filepath.Join(t.TempDir(), name), provider
		if err := kubeconfig.Write(o); err != nil {
			t.Fatal(err)
		}
		return o.Path
	}
	files := map[string]string{write("plain", nil): ""}
	for _, value := range []string{"one", "two"} {
		provider, err := Register(func(inner http.RoundTripper) http.RoundTripper { return adds{inner, value} })
		if err != nil {
			t.Fatal(err)
		}
		files[write(value, provider)] = value
	}
	for path, want := range files {
		asFlannel, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		asProxy, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, &clientcmd.ConfigOverrides{}).ClientConfig()
		if err != nil {
			t.Fatal(err)
		}
		asProxy.ContentType = "application/vnd.kubernetes.protobuf"
		asProxy.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
		for _, config := range []*rest.Config{asFlannel, asProxy} {
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			list, err := client.DiscoveryV1().EndpointSlices("").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 {
				t.Fatalf("%s: %v %v", filepath.Base(path), list, err)
			}
			seen := list.Items[0].Labels
			if seen["user"] != "system:node:n1" || seen["transport"] != want ||
				!strings.HasPrefix(seen["accepts"], config.ContentType) {
				t.Errorf("%s: the server has seen %v", filepath.Base(path), seen)
			}
		}
	}
}

// TestElsewhere: a process that has not written the file refuses it, and says why.
func TestElsewhere(t *testing.T) {
	o := node(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	o.Path = filepath.Join(t.TempDir(), "kubeconfig")
	o.AuthProvider = &api.AuthProviderConfig{Name: prefix + "another"}
	if err := kubeconfig.Write(o); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfig(config); err == nil || !strings.Contains(err.Error(), prefix) {
		t.Error(err)
	}
}
