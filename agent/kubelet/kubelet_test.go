package kubelet

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestPortTaken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	for _, arg := range []string{"healthz-port", "port"} {
		o := sample(t)
		o.Args = []string{"address=127.0.0.1", arg + "=" + taken}
		err := New(o).Run(t.Context(), func() { t.Error("ready") })
		var precondition *problem.Precondition
		if !errors.As(err, &precondition) {
			t.Errorf("%s taken: error = %v, want a problem.Precondition", arg, err)
		}
	}
}

// TestRuntimeThatDoesNotAnswer: a kubelet that has not begun starts again in its process.
func TestRuntimeThatDoesNotAnswer(t *testing.T) {
	away := fmt.Errorf("failed to run Kubelet: %w", fmt.Errorf("validate service connection: %w",
		status.Error(codes.Canceled, "context canceled")))
	if !ofRuntime(away) {
		t.Error("it is final that the runtime did not answer")
	}
	if ofRuntime(errors.New("failed to run Kubelet: no such file")) || ofRuntime(nil) {
		t.Error("whatever ended the kubelet is taken for the runtime")
	}
}

// TestClientTransport checks that every client goes through the seam.
func TestClientTransport(t *testing.T) {
	var mu sync.Mutex
	var paths []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := "all"
		if strings.Contains(r.URL.Path, "/leases/") {
			want = "heartbeats"
		}
		if got := r.Header.Get("X-Seam"); got != want {
			http.Error(w, "through "+got, http.StatusTeapot)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		paths = append(paths, r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write([]byte(`{}`)); err != nil {
			t.Error(err)
		}
	}))
	defer api.Close()
	o := sample(t)
	o.Kubeconfig = filepath.Join(o.DataDir, "kubeconfig")
	kubeconfig := `{"apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
		"clusters": [{"name": "x", "cluster": {"server": "` + api.URL + `"}}], "users": [{"name": "x", "user": {}}]}`
	if err := os.WriteFile(o.Kubeconfig, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := o.server(filepath.Join(o.DataDir, "kubelet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	seam := func(value string) func(http.RoundTripper) http.RoundTripper {
		return func(rt http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				r.Header.Set("X-Seam", value)
				return rt.RoundTrip(r)
			})
		}
	}
	to := &Connection{Server: api.URL, Transport: &http.Transport{}}
	c, err := newClients(server, to, seam("all"), seam("heartbeats"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, err1 := c.kube.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
	_, err2 := c.heartbeat.CoordinationV1().Leases("kube-node-lease").Get(ctx, "n1", metav1.GetOptions{})
	c.closeIdle()
	_, err3 := c.events.Events("default").Create(ctx, &corev1.Event{}, metav1.CreateOptions{})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Error(err)
	}
	if len(paths) != 3 {
		t.Errorf("the API saw %v", paths)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
