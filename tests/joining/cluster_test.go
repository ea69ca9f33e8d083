package joining

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/nodeapi"
)

// memory is supervisor.Secrets without an API.
type memory struct {
	mu      sync.Mutex
	objects map[string]*corev1.Secret
	err     error // answer to everything
}

var secretResource = schema.GroupResource{Resource: "secrets"}

func (m *memory) Get(_ context.Context, name string) (*corev1.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, m.err
	}
	if s, ok := m.objects[name]; ok {
		return s.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(secretResource, name)
}

func (m *memory) Create(_ context.Context, s *corev1.Secret) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	if _, ok := m.objects[s.Name]; ok {
		return apierrors.NewAlreadyExists(secretResource, s.Name)
	}
	m.objects[s.Name] = s.DeepCopy()
	return nil
}

func (m *memory) Delete(_ context.Context, s *corev1.Secret) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, s.Name)
	return nil
}

func (m *memory) ListType(context.Context, corev1.SecretType) ([]corev1.Secret, error) {
	return nil, apierrors.NewMethodNotSupported(secretResource, "list")
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// seen is what the server saw of one request.
type seen struct {
	path             string
	credential, cert bool
	statusCode       int
}

// cluster is a server that nodes can join.
type cluster struct {
	t       *testing.T
	dir     string
	files   *pki.Files
	tokens  *jointoken.ServerTokens
	secrets *memory
	server  *httptest.Server

	mu       sync.Mutex
	known    *joinapi.Partitions // what the server knows of partitions
	news     chan struct{}       // closed when that may be other ones
	requests []seen
	remote   string // where requests seem to come from, if not ""
}

type recorder struct {
	http.ResponseWriter
	code int
}

func (r *recorder) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

var clusterConfig = joinapi.ClusterConfig{
	ClusterCIDR: netip.MustParsePrefix("10.42.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.43.0.0/16"),
	ClusterDNS: netip.MustParseAddr("10.43.0.10"), ClusterDomain: "cluster.local", FlannelBackend: "vxlan",
}

const (
	serverPassword = "server-s3cret"
	agentPassword  = "agent-s3cret"
)

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return newClusterWith(t, func(*nodeapi.Options) {})
}

// newClusterWith has other options.
func newClusterWith(t *testing.T, change func(*nodeapi.Options)) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), secrets: &memory{objects: map[string]*corev1.Secret{}},
		news: make(chan struct{})}
	var err error
	if c.files, err = pki.Ensure(filepath.Join(c.dir, "tls"),
		pki.Options{SANs: []string{"127.0.0.1", "192.0.2.1", "api.example"}, Log: quiet()}); err != nil {
		t.Fatal(err)
	}
	serverCA, err := pki.LoadCA(c.files.ServerCA)
	if err != nil {
		t.Fatal(err)
	}
	clientCA, err := pki.LoadCA(c.files.ClientCA)
	if err != nil {
		t.Fatal(err)
	}
	if c.tokens, err = jointoken.EnsureServerTokens(c.dir, serverPassword, agentPassword,
		serverCA.CertPEM()); err != nil {
		t.Fatal(err)
	}
	opts := nodeapi.Options{
		ServerCA: serverCA, ClientCA: clientCA, Tokens: c.tokens, Secrets: c.secrets, Config: clusterConfig,
		Status: func() joinapi.ServerStatus { return joinapi.ServerStatus{Version: "v-test"} },
		TenantUse: func() joinapi.TenantUse {
			return joinapi.TenantUse{Processors: 2, Tenants: []joinapi.UseOfTenant{{Tenant: "acme"}}}
		},
		Renew: func(context.Context) ([]string, error) { return []string{"all"}, nil },
		Bundle: func() (*joinapi.ServerBundle, error) {
			return &joinapi.ServerBundle{ServerToken: serverPassword}, nil
		},
		Members: func() []joinapi.Member { return nil },
		RemoveMember: func(_ context.Context, member string) error {
			return map[string]error{"one": nodeapi.ErrLastMember, "two": nil, "none": nodeapi.ErrNoMember,
				"sick": errors.New("unhealthy cluster")}[member]
		},
		KnownPartitions: func() (joinapi.Partitions, <-chan struct{}, bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.known == nil {
				return joinapi.Partitions{}, c.news, false
			}
			return *c.known, c.news, true
		},
		ServerSANs: func() []string { return []string{"other", "192.0.2.2"} },
		Addresses:  nodeapi.NewAddresses(nil), // which never runs
		Volumes:    volumes{},
		LocalNode:  "local", ReservedSANs: []string{"192.0.2.1", "api.example", "local"}, Log: quiet(),
	}
	change(&opts)
	sup := nodeapi.New(opts)
	handler := sup.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "next")
	}))
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w, code: http.StatusOK}
		c.mu.Lock()
		r.RemoteAddr = cmp.Or(c.remote, r.RemoteAddr)
		c.mu.Unlock()
		handler.ServeHTTP(rec, r)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests = append(c.requests, seen{path: r.URL.Path, credential: r.Header.Get("Authorization") != "",
			cert: len(r.TLS.PeerCertificates) > 0, statusCode: rec.code})
	}))
	cert, err := tls.LoadX509KeyPair(c.files.ServingAPIServer.Cert, c.files.ServingAPIServer.Key)
	if err != nil {
		t.Fatal(err)
	}
	c.server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert}
	c.server.Config.ErrorLog = nil
	c.server.StartTLS()
	t.Cleanup(c.server.Close)
	return c
}

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

// seen returns what the server saw since the last call.
func (c *cluster) seen() []seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.requests
	c.requests = nil
	return out
}

// machine is one machine: its directory holds everything that a node keeps.
func (c *cluster) machine(name string) join.Options {
	dir := c.t.TempDir()
	return join.Options{
		ServerURL: c.server.URL, Token: c.tokens.Agent().Encode(), NodeName: name, NodeIPs: []string{"192.0.2.10"},
		Dir: filepath.Join(dir, "agent"), NodePasswordFile: filepath.Join(dir, "node", "password"), Log: quiet(),
	}
}

func (c *cluster) mustJoin(opts join.Options) *join.Result {
	c.t.Helper()
	res, err := join.Join(c.t.Context(), opts)
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

// client returns an HTTP client that trusts the cluster, with a certificate
// if pair names one.
func (c *cluster) client(pair pki.Pair) *http.Client {
	c.t.Helper()
	ca, err := os.ReadFile(c.files.ServerCA.Cert)
	if err != nil {
		c.t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(ca)
	if pair.Cert != "" {
		cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			c.t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	tr := &http.Transport{TLSClientConfig: config}
	c.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// send returns status, header and body of the answer to one request.
func (c *cluster) send(client *http.Client, method, path, authorization, body string) (int, http.Header, string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.server.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(data)
}

// volumes are not known yet; n1 has one.
type volumes struct{}

// Work implements supervisor.Volumes.
func (volumes) Work(string) (joinapi.LocalVolumes, <-chan struct{}, bool) {
	return joinapi.LocalVolumes{}, nil, false
}

// Done implements supervisor.Volumes.
func (volumes) Done(_ context.Context, node string, done joinapi.LocalVolumeDone) error {
	if node != "n1" || done.Name != "pvc-1" {
		return apierrors.NewNotFound(corev1.Resource("persistentvolumes"), done.Name)
	}
	return nil
}
