package controlplane_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestBrokenReloadOfAuthentication: a change of the file of issuers that is broken changes
// nothing and is counted, and one that is right counts without a restart.
func TestBrokenReloadOfAuthentication(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	const (
		none = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
		good = none + `jwt:
- issuer: {url: "https://127.0.0.1:1", audiences: [a]}
  claimMappings:
    username: {claim: sub, prefix: "a:"}
`
	)
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	put := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(good)
	cfg := settings(t.TempDir())
	cfg.KubeAPIServerArgs = []string{"authentication-config=" + file}
	p := start(t, cfg)
	t.Cleanup(func() { p.group.Stop() }) //nolint:errcheck // the test says what it found
	const prefix = `(?m)^apiserver_authentication_config_controller_`
	metric := func(ctx context.Context, pattern string) (string, error) {
		text, err := p.client.Discovery().RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
		if err != nil {
			return "", err
		}
		found := regexp.MustCompile(prefix + pattern).FindSubmatch(text)
		if found == nil {
			return "", nil
		}
		return string(found[1]), nil
	}
	const (
		read   = `last_config_info\{.*hash="(sha256:[0-9a-f]+)"`
		failed = `automatic_reloads_total\{.*status="failure"\} ([1-9][0-9]*)`
		loaded = `automatic_reloads_total\{.*status="success"\} ([1-9][0-9]*)`
	)
	first, err := metric(t.Context(), read)
	if err != nil || first == "" {
		t.Fatalf("what was read first: %q, %v", first, err)
	}
	put("jwt: [")
	eventually(t, "the broken file is counted", func(ctx context.Context) (bool, error) {
		n, err := metric(ctx, failed)
		return n != "", err
	})
	if now, err := metric(t.Context(), read); err != nil || now != first {
		t.Errorf("after the broken file the API server goes by %q, %v, want %q", now, err, first)
	}
	put(none) // upstream waits until it reaches every issuer of a new file
	eventually(t, "the next file is read", func(ctx context.Context) (bool, error) {
		n, err := metric(ctx, loaded)
		return n != "", err
	})
	eventually(t, "the API server to go by the right one", func(ctx context.Context) (bool, error) {
		now, err := metric(ctx, read)
		return err == nil && now != first && now != "", err
	})
}
