package registries

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker/config"

	"github.com/a4s-io/a4s/internal/problem"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func load(t *testing.T, content string) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "registries.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(file)
}

// TestGolden renders every testdata/*.yaml; DIR in it is a directory with a
// key pair.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	dir := writeKeyPair(t)
	for _, input := range inputs {
		t.Run(filepath.Base(input), func(t *testing.T) {
			content, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			c, err := load(t, strings.ReplaceAll(string(content), "DIR", dir))
			if err != nil {
				t.Fatal(err)
			}
			files, err := c.hostFiles()
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, name := range slices.Sorted(maps.Keys(files)) {
				fmt.Fprintf(&b, "-- %s --\n%s", name, files[name])
			}
			auths := c.Auths()
			for _, name := range slices.Sorted(maps.Keys(auths)) {
				fmt.Fprintf(&b, "-- auth %s --\n%+v\n", name, auths[name])
			}
			got := strings.ReplaceAll(b.String(), dir, "DIR")
			golden := strings.TrimSuffix(input, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// TestContainerdReadsIt asks containerd's own code what it makes of the files.
func TestContainerdReadsIt(t *testing.T) {
	c, err := load(t, `
mirrors:
  docker.io:
    endpoint: ["https://a.example", "http://b.example:5000/proxy/v2"]
  registry.example:5000:
    endpoint: ["http://c.example:5000"]
    rewrite: {"^(.*)$": "mirror/all/$1"}
  "*":
    endpoint: ["d.example"]
configs:
  tls.example:
    tls: {insecure_skip_verify: true}
`)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "certs.d")
	for range 2 { // the second time replaces the first
		if err := c.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	hosts := config.ConfigureHosts(t.Context(), config.HostOptions{HostDir: config.HostDirFromRoot(dir)})
	for registry, want := range map[string][]string{
		"docker.io": {"https://a.example/v2", "http://b.example:5000/proxy/v2",
			"https://registry-1.docker.io/v2"},
		"registry.example:5000": {"http://c.example:5000/v2/mirror/all", "https://registry.example:5000/v2"},
		"tls.example":           {"https://d.example/v2", "https://tls.example/v2"},
		"other.example":         {"https://d.example/v2", "https://other.example/v2"},
	} {
		rhosts, err := hosts(registry)
		if err != nil {
			t.Errorf("%s: %v", registry, err)
			continue
		}
		var got []string
		for _, h := range rhosts {
			got = append(got, h.Scheme+"://"+h.Host+h.Path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: containerd tries %v, want %v", registry, got, want)
		}
	}
}

func TestLoadRejects(t *testing.T) {
	tests := []struct{ name, content, key string }{
		{"unknown key", "mirors: {}", "mirors"},
		{"not yaml", "mirrors: [", "line 1"},
		{"registry with a path", `mirrors: {"docker.io/library": {}}`, "mirrors"},
		{"registry with a scheme", `configs: {"https://a.example": {}}`, "configs"},
		{"endpoint with another scheme", `mirrors: {a.example: {endpoint: ["ftp://b"]}}`,
			"mirrors.a.example.endpoint[0]"},
		{"endpoint with a secret", `mirrors: {a.example: {endpoint: ["https://u:p@b"]}}`,
			"mirrors.a.example.endpoint[0]"},
		{"rewrite by pattern", `mirrors: {a.example: {endpoint: ["https://b"], rewrite: {"^x/(.*)": "y/$1"}}}`,
			"mirrors.a.example.rewrite"},
		{"rewrite to the host", `mirrors: {a.example: {endpoint: ["https://b"], rewrite: {"(.*)": "../$1"}}}`,
			"mirrors.a.example.rewrite"},
		{"empty auth", `configs: {a.example: {auth: {}}}`, "configs.a.example.auth"},
		{"auth is not base64", `configs: {a.example: {auth: {auth: "s3cret!"}}}`, "configs.a.example.auth.auth"},
		{"auth for everyone", `configs: {"*": {auth: {username: u, password: p}}}`, "configs.*.auth"},
		{"missing CA file", `configs: {a.example: {tls: {ca_file: /nonexistent}}}`, "configs.a.example.tls.ca_file"},
		{"certificate without key", `configs: {a.example: {tls: {cert_file: /nonexistent}}}`, "configs.a.example.tls"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, tt.content)
			var input *problem.Input
			if !errors.As(err, &input) {
				t.Fatalf("error = %v, want a problem.Input", err)
			}
			if !strings.Contains(err.Error(), "registries.yaml") || !strings.Contains(err.Error(), tt.key) {
				t.Errorf("error %q does not name the file and %q", err, tt.key)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error %q shows a secret", err)
			}
		})
	}
}

// TestMistakesShowNoSecrets: where a secret stands in the wrong place, too.
func TestMistakesShowNoSecrets(t *testing.T) {
	for _, content := range []string{
		"configs: {r.example: {auth: s3cret}}",
		"configs: {r.example: {auth: {username: u, password: [s3cret]}}}",
		"configs: [s3cret]",
		"configs: s3cret",
	} {
		_, err := load(t, content)
		if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v", content, err)
		}
	}
}

func TestLoadMissingFile(t *testing.T) {
	var input *problem.Input
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.As(err, &input) {
		t.Errorf("error = %v, want a problem.Input", err)
	}
}

func writeKeyPair(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert},
		"key.pem":  {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
