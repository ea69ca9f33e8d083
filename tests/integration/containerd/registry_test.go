package containerd_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/runtime/images"
)

// TestRegistry checks that a pull list goes to the mirror of the registries
// file, with its prefix and its credential, and that a changed file needs no restart.
func TestRegistry(t *testing.T) {
	n := newNode(t)
	var asked atomic.Value // the path of the first request with the credential
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "u" || password != "p" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		asked.CompareAndSwap(nil, r.URL.Path)
		http.NotFound(w, r)
	}))
	defer mirror.Close()
	address := strings.TrimPrefix(mirror.URL, "http://")
	n.registries = `
mirrors:
  registry.invalid:
    endpoint: ["` + mirror.URL + `"]
    rewrite: {"^(.*)$": "hub/$1"}
configs:
  "` + address + `":
    auth: {username: u, password: p}
`
	n.start()
	defer n.stop()
	dir := images.Dir(n.Data)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "list.txt"), []byte("registry.invalid/a/b:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	follower, err := n.importAndFollow(n.ctx, logrus.WithField("test", t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(n.ctx)
	ended := make(chan error, 1)
	go func() { ended <- follower.Run(ctx, func() {}) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	n.waitFor("the mirror is asked with the credential", func() bool { return asked.Load() != nil })
	if got, want := asked.Load(), "/v2/hub/a/b/manifests/1"; got != want {
		t.Errorf("the mirror was asked for %v, want %v", got, want)
	}
	// The file is read again while containerd runs.
	var later atomic.Value
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		later.CompareAndSwap(nil, r.URL.Path)
		http.NotFound(w, r)
	}))
	defer other.Close()
	if err := os.WriteFile(filepath.Join(n.Data, "registries.yaml"),
		[]byte(strings.Replace(n.registries, mirror.URL, other.URL, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	n.waitFor("another mirror is asked", func() bool {
		_, _ = n.images.PullImage(n.ctx, &runtimeapi.PullImageRequest{
			Image: &runtimeapi.ImageSpec{Image: "registry.invalid/a/c:1"}})
		return later.Load() != nil
	})
	if got, want := later.Load(), "/v2/hub/a/c/manifests/1"; got != want {
		t.Errorf("the other mirror was asked for %v, want %v", got, want)
	}
}
