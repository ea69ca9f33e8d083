package registries

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker/config"

	"github.com/a4s-io/a4s/internal/health"
)

// endpoints are what containerd tries for a registry.
func endpoints(t *testing.T, dir, registry string) (out []string) {
	t.Helper()
	find := config.ConfigureHosts(t.Context(), config.HostOptions{HostDir: config.HostDirFromRoot(dir)})
	hosts, err := find(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		out = append(out, h.Host)
	}
	return out
}

// TestFollow: a changed file is what containerd goes by without a restart, once it has been the same twice;
// a broken one changes nothing and is reported until it is right; of other credentials it is said that they wait.
func TestFollow(t *testing.T) {
	file, dir := filepath.Join(t.TempDir(), "registries.yaml"), filepath.Join(t.TempDir(), "certs.d")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mirror := func(name string) string { return `mirrors: {r.example: {endpoint: ["https://` + name + `"]}}` }
	write(mirror("one.example"))
	f, err := Follow(file)
	if err != nil {
		t.Fatal(err)
	}
	f.look() // before containerd has started
	if _, err := f.Begin(dir); err != nil {
		t.Fatal(err)
	}
	found := health.NewRegistry()
	expect := func(when, first string, codes ...health.Code) {
		t.Helper()
		if got := endpoints(t, dir, "r.example"); got[0] != first {
			t.Errorf("%s: containerd tries %v, want %s first", when, got, first)
		}
		f.Check(t.Context(), found)
		var set []health.Code
		for _, p := range found.Problems() {
			set = append(set, p.Code)
		}
		if !slices.Equal(set, codes) {
			t.Errorf("%s: it is reported %v, want %v", when, found.Problems(), codes)
		}
	}
	expect("at first", "one.example")
	write(mirror("two.example"))
	f.look()
	expect("while it may still be written", "one.example")
	f.look()
	expect("changed", "two.example")
	write("mirrors: [")
	f.look()
	f.look()
	expect("broken", "two.example", health.RegistriesUnusable)
	if d := found.Problems()[0].Detail; !strings.Contains(d, file) || !strings.Contains(d, "line 1") {
		t.Errorf("it is not said what is wrong: %s", d)
	}
	// containerd starts again meanwhile.
	if c, err := f.Begin(dir); err != nil || c.Mirrors["r.example"].Endpoints[0] != "https://two.example" {
		t.Errorf("what it started with is %+v, %v", c, err)
	}
	// What the file names is there later than the file.
	ca := filepath.Join(filepath.Dir(file), "ca.pem")
	write(mirror("three.example") + "\nconfigs: {three.example: {tls: {ca_file: " + ca + "}}}")
	f.look()
	f.look()
	expect("without its CA", "two.example", health.RegistriesUnusable)
	pair := writeKeyPair(t)
	content, err := os.ReadFile(filepath.Join(pair, "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f.look()
	expect("with it", "three.example")
	write(mirror("four.example") + "\nconfigs: {four.example: {auth: {username: u, password: s3cret}}}")
	f.look()
	f.look()
	expect("with a credential", "four.example", health.RegistriesWaiting)
	if d := found.Problems()[0].Detail; d != "four.example" {
		t.Errorf("what waits is %q", d)
	}
	if _, err := f.Begin(dir); err != nil {
		t.Fatal(err)
	}
	expect("after a restart", "four.example")
	write("{}")
	f.look()
	f.look()
	expect("emptied", "r.example", health.RegistriesWaiting)
}

// TestWriteWhileItIsRead: containerd finds the old or the new endpoints of a registry, and never none.
func TestWriteWhileItIsRead(t *testing.T) {
	var both []*Config
	for _, name := range []string{"one.example", "two.example"} {
		c, err := load(t, `mirrors: {r.example: {endpoint: ["https://`+name+`"]}}`)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, c)
	}
	dir := filepath.Join(t.TempDir(), "certs.d")
	if err := both[0].Write(dir); err != nil {
		t.Fatal(err)
	}
	// What others left there goes.
	if err := os.MkdirAll(filepath.Join(dir, "other.example"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "r.example", "ca.crt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for i := range 500 {
			if err := both[(i+1)%2].Write(dir); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		if got := endpoints(t, dir, "r.example"); len(got) != 2 {
			t.Fatalf("containerd tries %v", got)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
			if err != nil || !slices.Equal(left, []string{filepath.Join(dir, "r.example", "hosts.toml")}) {
				t.Errorf("the directory has %v, %v", left, err)
			}
			return
		default:
		}
	}
}
