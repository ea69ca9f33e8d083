package nodeidentity

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// guardOf has a node of its own and a copy of one of partition b.
func guardOf(t *testing.T, self string, several bool) *Guard {
	t.Helper()
	f := informers.NewSharedInformerFactory(fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "own"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "copy",
			Labels: map[string]string{nodecopies.Label: "b"}}}), 0)
	g := New(Options{Authenticated: authn.Authenticated, Self: self, Several: func() bool { return several }})
	if err := g.Follow(f.Core().V1().Nodes()); err != nil {
		t.Fatal(err)
	}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	return g
}

func groups(partitions ...string) []string {
	out := []string{user.NodesGroup}
	for _, p := range partitions {
		out = append(out, "system:a4s:nodes-of:"+p)
	}
	return out
}

func TestCheck(t *testing.T) {
	type in struct {
		self, node string
		groups     []string
	}
	for what, c := range map[string]struct {
		in   in
		good bool
	}{
		"own node at home":                     {in{"main", "own", groups()}, true},
		"own node elsewhere":                   {in{"c", "own", groups("c")}, true},
		"own node that registers itself":       {in{"c", "new", groups("c")}, true},
		"copy, of the partition that has it":   {in{"c", "copy", groups("b")}, true},
		"copy, of this partition":              {in{"c", "copy", groups("c")}, false},
		"copy, of a third one":                 {in{"c", "copy", groups("d")}, false},
		"copy, of home":                        {in{"c", "copy", groups()}, false},
		"own node, of another partition":       {in{"main", "own", groups("b")}, false},
		"own node, of home":                    {in{"c", "own", groups()}, false},
		"unknown node of another partition":    {in{"main", "new", groups("b")}, false},
		"unknown node of home, elsewhere":      {in{"c", "new", groups()}, false},
		"of two partitions":                    {in{"c", "own", groups("c", "b")}, false},
		"of a partition without a name":        {in{"c", "own", groups("")}, false},
		"twice the same, which says the same":  {in{"c", "own", groups("c", "c")}, true},
		"home by its name, which says as much": {in{"main", "own", groups("main")}, true},
	} {
		t.Run(what, func(t *testing.T) {
			err := guardOf(t, c.in.self, true).Check(c.in.node, c.in.groups)
			if (err == nil) != c.good {
				t.Errorf("got %v", err)
			}
		})
	}
	alone := guardOf(t, "main", false)
	if err := alone.Check("own", groups("b")); err == nil {
		t.Error("home without other partitions takes a node of another one")
	}
	for _, node := range []string{"own", "copy", "new"} {
		if err := alone.Check(node, groups()); err != nil {
			t.Errorf("home without other partitions refuses its node %s: %v", node, err)
		}
	}
}

// TestBeforeNodesAreKnown: nobody is let in by accident, and it is not called a refusal.
func TestBeforeNodesAreKnown(t *testing.T) {
	g := New(Options{Authenticated: authn.Authenticated, Self: "main", Several: func() bool { return true }})
	decision, reason, err := g.Authorizer(allowed()).Authorize(t.Context(), by("system:node:own", groups()...))
	if decision == authorizer.DecisionAllow || reason != "" || err == nil {
		t.Errorf("%v %q %v", decision, reason, err)
	}
}

func allowed() authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(
		context.Context, authorizer.Attributes,
	) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
}

func by(name string, groups ...string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name, Groups: groups}}
}

// TestWhoIsJudged: who sent the request, not whom it is about.
func TestWhoIsJudged(t *testing.T) {
	a := guardOf(t, "main", true).Authorizer(allowed())
	sent := func(u user.Info) context.Context { return request.WithUser(t.Context(), u) }
	foreigner := []string{"system:a4s:nodes-of:b"}
	admin := &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	foreign := &user.DefaultInfo{Name: "system:node:own", Groups: groups("b")}
	for what, c := range map[string]struct {
		ctx  context.Context
		attr authorizer.Attributes
		want authorizer.Decision
	}{
		"its own node":            {t.Context(), by("system:node:own", groups()...), authorizer.DecisionAllow},
		"a node of another":       {t.Context(), by("system:node:own", groups("b")...), authorizer.DecisionDeny},
		"no node":                 {t.Context(), by("system:node:own", foreigner...), authorizer.DecisionAllow},
		"a question about a node": {sent(admin), by("system:node:own", groups("b")...), authorizer.DecisionAllow},
		"a question of a node":    {sent(foreign), by("somebody"), authorizer.DecisionDeny},
		"a tenant's user of the name": {t.Context(), authorizer.AttributesRecord{User: &user.DefaultInfo{
			Name: "system:node:own", Groups: groups("b"), Extra: map[string][]string{space.Extra: {"t1"}}}},
			authorizer.DecisionAllow}, // the border of the tenant judges them
	} {
		decision, reason, err := a.Authorize(c.ctx, c.attr)
		if decision != c.want || err != nil ||
			(c.want == authorizer.DecisionDeny) != strings.Contains(reason, "partition") {
			t.Errorf("%s: %v %q %v", what, decision, reason, err)
		}
		if d := a.ConditionsAwareAuthorize(c.ctx, c.attr); d.IsAllow() != (c.want == authorizer.DecisionAllow) {
			t.Errorf("%s: with conditions it is %v", what, d)
		}
	}
}

func TestElsewhere(t *testing.T) {
	g := guardOf(t, "c", true)
	asked := ""
	g.o.Ask = func(_ context.Context, node string) string { asked = node; return "d" }
	for node, want := range map[string]string{"own": "", "copy": "b"} {
		if got := g.Elsewhere(t.Context(), node); got != want || asked != "" {
			t.Errorf("%s: got %q, asked for %q", node, got, asked)
		}
	}
	if got := g.Elsewhere(t.Context(), "new"); got != "d" || asked != "new" {
		t.Errorf("got %q, asked for %q", got, asked)
	}
	g.o.Several = func() bool { return false }
	if got := g.Elsewhere(t.Context(), "copy"); got != "" {
		t.Errorf("without other partitions: %q", got)
	}
}

// TestHandler: nodes that cannot be judged yet are asked to come again, all others go on.
func TestHandler(t *testing.T) {
	several := true
	g := New(Options{Authenticated: authn.Authenticated, Self: "main", Several: func() bool { return several }})
	ask := func(name string, of ...string) *httptest.ResponseRecorder {
		a := authn.Wrap(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: name, Groups: groups(of...),
				Extra: map[string][]string{space.Extra: {space.System}}}}, true, nil
		}), authn.Options{})
		req, _, _, err := authn.Early(a, httptest.NewRequest(http.MethodGet, "/api/v1/nodes/own", nil), "")
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
		})).ServeHTTP(w, req)
		return w
	}
	passes := func(what string, w *httptest.ResponseRecorder) {
		t.Helper()
		if w.Code != http.StatusTeapot {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	for _, of := range [][]string{nil, {"b"}} {
		w := ask("system:node:own", of...)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" ||
			w.Header().Get("Cache-Control") != "no-cache, private" ||
			!strings.Contains(w.Body.String(), "just started") {
			t.Errorf("%v: %d %v %s", of, w.Code, w.Header(), w.Body)
		}
	}
	passes("no node", ask("somebody"))
	passes("a certificate of two partitions, which the authorizer refuses", ask("system:node:own", "b", "c"))
	several = false
	passes("the only partition", ask("system:node:own"))
	several = true
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	g.Follow(f.Core().V1().Nodes())
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	passes("the nodes are known", ask("system:node:own"))
}
