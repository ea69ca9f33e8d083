// Package objectstore tests snapshots in a real S3 server, which it starts on
// loopback: the store, and the commands that use it.
package objectstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
	"github.com/a4s-io/a4s/tests/objectstore"
)

// program is the S3 server, built once.
var program string

func TestMain(m *testing.M) {
	if endpoint := os.Getenv(envEndpoint); endpoint != "" {
		fmt.Println(checkOnly(endpoint))
		os.Exit(0)
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "a4s-objectstore-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
		if program, err = objectstore.Build(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// take writes a snapshot with content of that size.
func take(t *testing.T, dir archive.Dir, name string, size int) *archive.Entry {
	t.Helper()
	e, err := dir.Save(archive.Request{Name: name, Node: "n",
		Fill: func(string) (*archive.Manifest, []archive.Source, error) {
			return &archive.Manifest{Revision: 42},
				[]archive.Source{{Path: "server/token", Data: bytes.Repeat([]byte("x"), size)}}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func open(t *testing.T, cfg config.EtcdS3) *archive.Bucket {
	t.Helper()
	s, err := archive.NewBucket(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAStoreHasWholeSnapshots(t *testing.T) {
	server := objectstore.Start(t, program)
	dir := archive.Dir(t.TempDir())
	for _, folder := range []string{"", "clusters/one"} {
		t.Run("folder="+folder, func(t *testing.T) {
			s := open(t, server.Settings(folder))
			if err := s.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			var names []string
			// The second one is sent in parts.
			for _, size := range []int{1000, 70 << 20, 10} {
				e := take(t, dir, "etcd-snapshot", size)
				url, err := s.Upload(t.Context(), e.Path)
				if err != nil || url != s.URL(e.Name) {
					t.Fatalf("%s, %v", url, err)
				}
				want, err := os.ReadFile(e.Path)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(server.Object(filepath.Join(folder, e.Name))); err != nil ||
					!bytes.Equal(got, want) {
					t.Errorf("the server has %d bytes of %d, %v", len(got), len(want), err)
				}
				names = append(names, e.Name)
			}
			other := take(t, dir, "on-demand", 10)
			if _, err := s.Upload(t.Context(), other.Path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(server.Object(filepath.Join(folder, "notes.txt")), []byte("mine"),
				0o600); err != nil {
				t.Fatal(err)
			}
			list, err := s.List(t.Context())
			if err != nil || len(list) != 4 {
				t.Fatalf("%+v, %v", list, err)
			}
			for _, e := range list {
				if e.Err != nil || e.Manifest.Revision != 42 || e.Location != s.Location() ||
					e.Path != s.URL(e.Name) || e.Size == 0 {
					t.Errorf("listed: %+v", e)
				}
			}
			pruned, err := s.Prune(t.Context(), archive.Prefix("etcd-snapshot", "n"), 2)
			if err != nil || len(pruned) != 1 || pruned[0] != names[0] {
				t.Errorf("pruned %v, %v; want %s", pruned, err, names[0])
			}
			if found, err := s.Delete(t.Context(), other.Name); err != nil || !found {
				t.Errorf("deleting: %v, %v", found, err)
			}
			if found, err := s.Delete(t.Context(), other.Name); err != nil || found {
				t.Errorf("deleting again: %v, %v", found, err)
			}
			var out bytes.Buffer
			if err := s.Download(t.Context(), names[1], &out); err != nil {
				t.Fatal(err)
			}
			if _, err := archive.Read(&out, nil); err != nil {
				t.Error(err)
			}
			if list, err := s.List(t.Context()); err != nil || len(list) != 2 {
				t.Errorf("left: %+v, %v", list, err)
			}
			if _, err := os.Stat(server.Object(filepath.Join(folder, "notes.txt"))); err != nil {
				t.Error(err)
			}
		})
	}
}

// answer is an HTTP server that says the same to everything.
func answer(t *testing.T, status int, body string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// silent accepts connections and says nothing.
func silent(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func plain(c *config.EtcdS3, endpoint string) {
	c.Endpoint, c.Insecure, c.EndpointCA = endpoint, true, ""
}

func s3Error(code string) string {
	return `<?xml version="1.0"?><Error><Code>` + code +
		`</Code><Message>text with a4s-test-s3cret</Message><Region>eu-north-1</Region></Error>`
}

func TestFailuresNameFlagAndCure(t *testing.T) {
	server := objectstore.Start(t, program)
	for name, tc := range map[string]struct {
		change func(*config.EtcdS3)
		source string // of the problem
		text   string // in the error
	}{
		"access key": {func(c *config.EtcdS3) { c.AccessKey = "nobody" },
			"--etcd-s3-access-key", "AWS_ACCESS_KEY_ID"},
		"secret key": {func(c *config.EtcdS3) { c.SecretKey = "wrong-s3cret" },
			"--etcd-s3-secret-key", "AWS_SECRET_ACCESS_KEY"},
		"bucket": {func(c *config.EtcdS3) { c.Bucket = "none" }, "--etcd-s3-bucket", "no such bucket"},
		"bucket name": {func(c *config.EtcdS3) { c.Bucket = "A_B" },
			"--etcd-s3-bucket", "no bucket can have this name"},
		"region": {func(c *config.EtcdS3) { c.Region = "eu-west-1" }, "--etcd-s3-region", "another region"},
		"nobody listens": {func(c *config.EtcdS3) { c.Endpoint = "127.0.0.1:1" },
			"--etcd-s3-endpoint", "connection refused"},
		"no such host": {func(c *config.EtcdS3) { c.Endpoint = "s3.invalid" },
			"--etcd-s3-endpoint", "the connection to s3.invalid failed"},
		"unknown CA": {func(c *config.EtcdS3) { c.EndpointCA = "" },
			"--etcd-s3-endpoint-ca", "the CA that signed"},
		"no TLS there": {func(c *config.EtcdS3) { c.Endpoint = answer(t, 200, "hello") },
			"--etcd-s3-insecure", "does not speak TLS"},
		"TLS there": {func(c *config.EtcdS3) { plain(c, server.Endpoint) }, "--etcd-s3-endpoint", ""},
		"no S3 there": {func(c *config.EtcdS3) { plain(c, answer(t, 418, "tea")) },
			"--etcd-s3-endpoint", "not an S3 server"},
		"silence": {func(c *config.EtcdS3) { plain(c, silent(t)); c.Timeout = "1s" },
			"--etcd-s3-timeout", "did not end in time"},
		"denied": {func(c *config.EtcdS3) { plain(c, answer(t, 403, s3Error("AccessDenied"))) },
			"--etcd-s3-access-key", "permission to list"},
		"expired token": {func(c *config.EtcdS3) { plain(c, answer(t, 400, s3Error("ExpiredToken"))) },
			"--etcd-s3-session-token", "token"},
		"moved": {func(c *config.EtcdS3) { plain(c, answer(t, 301, s3Error("PermanentRedirect"))) },
			"--etcd-s3-region", "eu-north-1"},
		"key of AWS": {func(c *config.EtcdS3) { plain(c, answer(t, 403, s3Error("InvalidAccessKeyId"))) },
			"--etcd-s3-access-key", "not known"},
		"clock": {func(c *config.EtcdS3) { plain(c, answer(t, 403, s3Error("RequestTimeTooSkewed"))) },
			"clock of this machine", "the right time"},
		"CA that is none": {func(c *config.EtcdS3) { c.EndpointCA = os.Args[0] }, "--etcd-s3-endpoint-ca", "PEM"},
		"CA that is absent": {func(c *config.EtcdS3) { c.EndpointCA = "/nonexistent" },
			"--etcd-s3-endpoint-ca", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := server.Settings("f")
			tc.change(&cfg)
			s, err := archive.NewBucket(&cfg)
			if err == nil {
				err = s.Check(t.Context())
			}
			var in *problem.Input
			if !errors.As(err, &in) || in.Source != tc.source || in.Want == "" ||
				!strings.Contains(err.Error(), tc.text) {
				t.Fatalf("%v\nwant a problem of %s with %q", err, tc.source, tc.text)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error has the secret in it: %v", err)
			}
			if s == nil {
				return
			}
			// A file that could not be copied is still there, and that is said.
			e := take(t, archive.Dir(t.TempDir()), "s", 10)
			_, err = s.Upload(t.Context(), e.Path)
			var lost *archive.NotCopiedError
			if !errors.As(err, &lost) || !strings.Contains(err.Error(), "kept as "+e.Path) ||
				problem.ExitCode(err) != 1 || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("uploading: %v", err)
			}
			if err := archive.Verify(e.Path); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server that returns something else than it was given is found out before
// a snapshot counts as copied.
func TestAnUploadIsReadBack(t *testing.T) {
	server := objectstore.Start(t, program)
	for name, spoil := range map[string]func([]byte) []byte{
		"one bit":   func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"truncated": func(b []byte) []byte { return b[:len(b)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			proxy := httptest.NewServer(&httputil.ReverseProxy{
				Transport: trusting(t, server),
				Rewrite: func(r *httputil.ProxyRequest) {
					r.SetURL(&url.URL{Scheme: "https", Host: server.Endpoint})
					r.Out.Host = r.In.Host // which is signed
				},
				ModifyResponse: func(r *http.Response) error {
					if r.Request.Method != http.MethodGet || r.Request.URL.Query().Has("list-type") {
						return nil
					}
					body, err := io.ReadAll(r.Body)
					if err != nil {
						return err
					}
					body = spoil(body)
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
					r.Header.Set("Content-Length", fmt.Sprint(len(body)))
					return nil
				},
			})
			defer proxy.Close()
			cfg := server.Settings(strings.ReplaceAll(name, " ", "-"))
			plain(&cfg, proxy.Listener.Addr().String())
			e := take(t, archive.Dir(t.TempDir()), "s", 10_000)
			_, err := open(t, cfg).Upload(t.Context(), e.Path)
			if err == nil || !strings.Contains(err.Error(), "another content") {
				t.Errorf("%v, want that the content differs", err)
			}
			if _, err := os.Stat(server.Object(filepath.Join(cfg.Folder, e.Name))); !os.IsNotExist(err) {
				t.Errorf("the object: %v, want that it is gone", err)
			}
		})
	}
}

func trusting(t *testing.T, server *objectstore.Server) *http.Transport {
	t.Helper()
	tls, err := server.TLS()
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{TLSClientConfig: tls}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func entries(t *testing.T, text string) []archive.Entry {
	t.Helper()
	var out []archive.Entry
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// envEndpoint makes the test program look at the storage there and end. The
// environment of a process decides once about its proxies.
const envEndpoint = "A4S_TEST_S3_ENDPOINT"

func checkOnly(endpoint string) error {
	cfg := (&objectstore.Server{Endpoint: endpoint}).Settings("f")
	cfg.SkipSSLVerify = true // the name is another one
	s, err := archive.NewBucket(&cfg)
	if err != nil {
		return err
	}
	return s.Check(context.Background())
}

func TestProxiesOfTheEnvironment(t *testing.T) {
	server := objectstore.Start(t, program)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "s3.invalid:443" {
			http.Error(w, "not here", http.StatusForbidden)
			return
		}
		there, err := net.Dial("tcp", server.Endpoint)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusOK)
		here, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = there.Close()
			return
		}
		go func() {
			_, _ = io.Copy(there, buffered)
			_ = there.Close()
		}()
		_, _ = io.Copy(here, there)
		_ = here.Close()
	}))
	defer proxy.Close()
	check := func(proxy string) string {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), envEndpoint+"=s3.invalid", "HTTPS_PROXY="+proxy)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if out := check(proxy.URL); out != "<nil>" {
		t.Errorf("through a proxy: %s", out)
	}
	if out := check("http://user:pr0xy-s3cret@127.0.0.1:1"); !strings.Contains(out, "--etcd-s3-endpoint") ||
		!strings.Contains(out, "127.0.0.1:1") || !strings.Contains(out, "NO_PROXY") ||
		strings.Contains(out, "s3cret") {
		t.Errorf("without the proxy: %s", out)
	}
}
