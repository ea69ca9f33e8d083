package charthost

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Archive is that of a chart with these files, besides Chart.yaml.
func Archive(t testing.TB, name, version string, files map[string]string) []byte {
	t.Helper()
	all := map[string]string{"Chart.yaml": fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version)}
	maps.Copy(all, files)
	var buf bytes.Buffer
	zipped := gzip.NewWriter(&buf)
	tarred := tar.NewWriter(zipped)
	for _, file := range slices.Sorted(maps.Keys(all)) {
		if err := tarred.WriteHeader(&tar.Header{Name: name + "/" + file, Mode: 0o644, Typeflag: tar.TypeReg,
			Size: int64(len(all[file]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := tarred.Write([]byte(all[file])); err != nil {
			t.Fatal(err)
		}
	}
	if err := tarred.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Says reports whether a HelmChart has a condition with a status, and this text in its message.
func Says(chart *unstructured.Unstructured, condition, status, text string) bool {
	list, _, _ := unstructured.NestedSlice(chart.Object, "status", "conditions") // none if it is another thing
	return slices.ContainsFunc(list, func(one any) bool {
		m, _ := one.(map[string]any)
		message, _ := m["message"].(string)
		return m["type"] == condition && m["status"] == status && strings.Contains(message, text)
	})
}

// Host serves charts.
type Host struct {
	// URL is that of the repository, and Registry that of the registry, with oci://.
	URL, Registry string
	// CA verifies the host in PEM, if it has TLS.
	CA []byte
	// Username and Password are asked for, if they are set.
	Username, Password string

	mu        sync.Mutex
	charts    map[string]map[string][]byte // by name and version
	elsewhere string
	asked     []string
}

// New starts a host without TLS.
func New(t testing.TB) *Host { return start(t, httptest.NewServer) }

// On starts a host without TLS that listens where the caller says.
func On(t testing.TB, listener net.Listener) *Host {
	return start(t, func(h http.Handler) *httptest.Server {
		server := httptest.NewUnstartedServer(h)
		server.Listener.Close() //nolint:errcheck // nobody knows of it
		server.Listener = listener
		server.Start()
		return server
	})
}

// NewTLS starts one whose certificate nobody trusts but who has its CA.
func NewTLS(t testing.TB) *Host { return start(t, httptest.NewTLSServer) }

func start(t testing.TB, listen func(http.Handler) *httptest.Server) *Host {
	t.Helper()
	h := &Host{charts: map[string]map[string][]byte{}}
	server := listen(h)
	t.Cleanup(server.Close)
	h.URL = server.URL
	h.Registry = "oci://" + strings.TrimPrefix(strings.TrimPrefix(server.URL, "https://"), "http://")
	if c := server.Certificate(); c != nil {
		h.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	}
	return h
}

// Address is the host and port.
func (h *Host) Address() string { return strings.TrimPrefix(h.Registry, "oci://") }

// Add has it serve a chart. In the registry it is charts/NAME.
func (h *Host) Add(name, version string, archive []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.charts[name] == nil {
		h.charts[name] = map[string][]byte{}
	}
	h.charts[name][version] = archive
}

// RefersTo has the index say that the archives are at another host.
func (h *Host) RefersTo(other string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.elsewhere = other
}

// Asked are the requests that it got: method, path and the user's name, if there was one.
func (h *Host) Asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

// ServeHTTP implements http.Handler.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	user, password, _ := r.BasicAuth()
	h.asked = append(h.asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+user))
	if h.Username != "" && (user != h.Username || password != h.Password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	switch path := r.URL.Path; {
	case path == "/index.yaml":
		h.index(w)
	case strings.HasPrefix(path, "/archives/"):
		name, version, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(path, "/archives/"), ".tgz"), "/")
		h.send(w, r, "application/gzip", h.charts[name][version])
	case strings.HasPrefix(path, "/v2/charts/"):
		name, rest, _ := strings.Cut(strings.TrimPrefix(path, "/v2/charts/"), "/")
		h.registry(w, r, name, rest)
	default:
		http.NotFound(w, r)
	}
}

func (h *Host) index(w http.ResponseWriter) {
	entries := map[string]any{}
	for name, versions := range h.charts {
		var list []any
		for version := range versions {
			list = append(list, map[string]any{"apiVersion": "v2", "name": name, "version": version,
				"urls": []string{h.elsewhere + "/archives/" + name + "/" + version + ".tgz"}})
		}
		entries[name] = list
	}
	if err := json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "entries": entries}); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (h *Host) send(w http.ResponseWriter, r *http.Request, mediaType string, data []byte) {
	if data == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.Header().Set("Docker-Content-Digest", digest(data))
	if r.Method != http.MethodHead {
		w.Write(data) //nolint:errcheck // the client is gone
	}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// registry answers as one of OCI does to who pulls.
func (h *Host) registry(w http.ResponseWriter, r *http.Request, name, rest string) {
	versions := h.charts[name]
	switch what, reference, _ := strings.Cut(rest, "/"); what {
	case "tags":
		tags := []string{"latest"}
		for version := range versions {
			tags = append(tags, strings.ReplaceAll(version, "+", "_"))
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"name": name, "tags": tags}); err != nil {
			panic(http.ErrAbortHandler)
		}
	case "manifests":
		for version, archive := range versions {
			if m := manifest(archive); strings.ReplaceAll(version, "+", "_") == reference || digest(m) == reference {
				h.send(w, r, manifestType, m)
				return
			}
		}
		http.NotFound(w, r)
	case "blobs":
		for _, archive := range versions {
			if digest(archive) == reference {
				h.send(w, r, "application/octet-stream", archive)
				return
			}
		}
		http.NotFound(w, r)
	}
}

// manifest is that of a chart as Helm pushes it.
func manifest(archive []byte) []byte {
	descriptor := func(mediaType string, data []byte) map[string]any {
		return map[string]any{"mediaType": mediaType, "digest": digest(data), "size": len(data)}
	}
	data, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": manifestType,
		"config": descriptor("application/vnd.cncf.helm.config.v1+json", []byte("{}")),
		"layers": []any{descriptor("application/vnd.cncf.helm.chart.content.v1.tar+gzip", archive)}})
	if err != nil {
		panic(err)
	}
	return data
}

// ManifestDigest is that of a chart in the registry.
func ManifestDigest(archive []byte) string { return digest(manifest(archive)) }

// Closed is a URL at which nobody listens: others take ports at 127.0.0.1.
func Closed(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nobody has connected
	return (&url.URL{Scheme: "http", Host: l.Addr().String()}).String()
}
