package nodeidentity

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/nodeapi/nodelife"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// TestLivesOfCopies: of a node of another partition its copy says which certificates are good,
// and what the node is being told ends when that changes.
func TestLivesOfCopies(t *testing.T) {
	copied := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "copy",
		Labels:      map[string]string{nodecopies.Label: "b"},
		Annotations: map[string]string{pki.NodeLife: "x"}}}
	client := fake.NewClientset(copied, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "older",
		Labels: map[string]string{nodecopies.Label: "b"}}})
	f := informers.NewSharedInformerFactory(client, 0)
	g := New(Options{Authenticated: authn.Authenticated, Self: "c",
		Several: func() bool { return true }, Alive: func(node, life string) error {
			if node == "own" && life == "x" {
				return nil
			}
			return nodelife.ErrDead
		}})
	if err := g.Follow(f.Core().V1().Nodes()); err != nil {
		t.Fatal(err)
	}
	if err := g.Alive("copy", "x"); !errors.Is(err, errNotYet) {
		t.Errorf("before the nodes are known: %v", err)
	}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	for _, c := range []struct {
		node, life string
		good       bool
	}{
		{"copy", "x", true}, {"copy", "y", false}, {"copy", "", false}, {"older", "", true}, {"older", "y", true},
		{"own", "x", true}, {"own", "y", false},
	} {
		if err := g.Alive(c.node, c.life); (err == nil) != c.good {
			t.Errorf("node %s, life %q: %v", c.node, c.life, err)
		}
	}
	ctx, done := g.Hold(t.Context(), "copy", "x")
	defer done()
	if ctx.Err() != nil {
		t.Fatal("it ends at once")
	}
	next := copied.DeepCopy()
	next.Annotations[pki.NodeLife] = "y"
	if _, err := client.CoreV1().Nodes().Update(t.Context(), next, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(2 * time.Minute):
		t.Error("what the node is being told goes on")
	}
	dead, end := g.Hold(t.Context(), "copy", "x")
	if dead.Err() == nil {
		t.Error("what begins afterwards goes on")
	}
	end()
	done()
	if len(g.holds.all) != 0 {
		t.Errorf("%d are still held", len(g.holds.all))
	}
}

// TestDeadCertificates are answered with 401, whomever they impersonate.
func TestDeadCertificates(t *testing.T) {
	var dead atomic.Bool
	g := New(Options{Authenticated: authn.Authenticated, Self: "main",
		Several: func() bool { return false }, Alive: func(_, life string) error {
			if dead.Load() || life != "x" {
				return nodelife.ErrDead
			}
			return nil
		}})
	node := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup},
		Extra: map[string][]string{pki.NodeLife: {"x"}}}
	a := authn.Wrap(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: node}, true, nil
	}), authn.Options{})
	ask := func() (int, string) {
		req, _, _, err := authn.Early(a, httptest.NewRequest(http.MethodGet, "/api", nil), "")
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w,
			req.WithContext(context.WithoutCancel(req.Context())))
		return w.Code, w.Body.String()
	}
	if code, body := ask(); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	dead.Store(true)
	if code, body := ask(); code != http.StatusUnauthorized || !strings.Contains(body, "not good any more") {
		t.Errorf("%d %s", code, body)
	}
	dead.Store(false)
	node.Extra[pki.NodeLife] = []string{"x", "y"}
	if code, body := ask(); code != http.StatusUnauthorized {
		t.Errorf("with two lives: %d %s", code, body)
	}
}
