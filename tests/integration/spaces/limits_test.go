package spaces_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

func TestLimits(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	log := filepath.Join(t.TempDir(), "audit.log")
	p := start(t, func(c *config.Server) { c.AuditLogPath = log })
	a, b := p.tenant(t, "a"), p.tenant(t, "b")

	t.Run("namespaces", func(t *testing.T) { testNamespaceLimit(t, p, a, b) })
	t.Run("objects", func(t *testing.T) { testObjectLimit(t, p, a) })
	t.Run("a space below its limits", func(t *testing.T) { testTightSpace(t, p) })
	t.Run("requests in flight", func(t *testing.T) { testRequestsInFlight(t, p, a, b) })
	t.Run("fairness", func(t *testing.T) { testFairness(t, p, a) })
	t.Run("audit", func(t *testing.T) { testAudit(t, p, a, log) })
	t.Run("metrics", func(t *testing.T) { testTenantMetrics(t, p) })
}

// limit sets the limits of a tenant; "null" takes them away.
func (p *plane) limit(t *testing.T, tenant, limits string) {
	t.Helper()
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tenants.Patch(t.Context(), tenant, types.MergePatchType, []byte(`{"spec":{"limits":`+limits+`}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// refused checks the refusal of a creation.
func refused(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q is not in: %v", what, part, err)
		}
	}
	if strings.Contains(err.Error(), ".a") {
		t.Errorf("%s: a composite name in: %v", what, err)
	}
}

func testNamespaceLimit(t *testing.T, p *plane, a, b *space) {
	ctx := t.Context()
	make := func(s *space, name string) error {
		_, err := s.client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	p.limit(t, "a", `{"namespaces":4}`)
	// The server learns of it in an instant; what is made before does no harm.
	eventually(t, "the limit of namespaces", func(context.Context) (bool, error) {
		err := make(a, "one")
		if err == nil {
			err = make(a, "two")
			if err == nil {
				return false, a.client.CoreV1().Namespaces().Delete(ctx, "two", metav1.DeleteOptions{})
			}
		}
		return apierrors.IsForbidden(err), nil
	})
	eventually(t, "the namespace two to be gone", func(context.Context) (bool, error) {
		_, err := a.client.CoreV1().Namespaces().Get(ctx, "two", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	refused(t, "a namespace too many", make(a, "two"), `namespaces "two" is forbidden`,
		"namespaces, requested: 1, used: 4, limited: 4")
	if err := make(b, "one"); err != nil {
		t.Errorf("the limit is that of another tenant: %v", err)
	}
	p.limit(t, "a", `{"namespaces":5}`)
	eventually(t, "a higher limit", func(context.Context) (bool, error) { return make(a, "two") == nil, nil })
	refused(t, "a namespace too many again", make(a, "three"), "used: 5, limited: 5")
	p.limit(t, "a", "null")
	eventually(t, "no limit", func(context.Context) (bool, error) { return make(a, "three") == nil, nil })
}

// counted is how many objects of a tenant count.
func (p *plane) counted(t *testing.T, tenant string) int {
	t.Helper()
	n := 0
	for _, key := range p.keys(t, "/"+tenant+"/") {
		if !strings.HasPrefix(key, "/registry/events/") && !strings.HasPrefix(key, "/registry/leases/") {
			n++
		}
	}
	return n
}

func testObjectLimit(t *testing.T, p *plane, a *space) {
	ctx := t.Context()
	create := func(name string) error {
		_, err := a.client.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	eventually(t, "what Kubernetes puts into namespaces", func(context.Context) (bool, error) {
		namespaces, err := a.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		accounts, err := a.client.CoreV1().ServiceAccounts("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		certificates, err := a.client.CoreV1().ConfigMaps("").List(ctx,
			metav1.ListOptions{FieldSelector: "metadata.name=kube-root-ca.crt"})
		return len(accounts.Items) == len(namespaces.Items) && len(certificates.Items) == len(namespaces.Items), err
	})
	most := p.counted(t, "a") + 5
	// A namespace of the system with the name of the tenant does not count.
	if _, err := p.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.admin.CoreV1().ConfigMaps("a").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-the-system"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.bounded(t, "a", fmt.Sprintf(`{"objects":%d}`, most))
	var made atomic.Int64
	var group sync.WaitGroup
	for i := range 30 {
		group.Go(func() {
			if err := create(fmt.Sprintf("c%d", i)); err == nil {
				made.Add(1)
			} else if !apierrors.IsForbidden(err) {
				t.Errorf("creating at the limit: %v", err)
			}
		})
	}
	group.Wait()
	if made.Load() != 5 {
		t.Errorf("%d of 30 objects were made at once, there is room for 5", made.Load())
	}
	used := fmt.Sprintf("objects, requested: 1, used: %d, limited: %d", most, most)
	refused(t, "one too many", create("more"), `configmaps "more" is forbidden`, "exceeded", used)
	if _, err := a.client.CoreV1().ConfigMaps("default").Apply(ctx, coreapply.ConfigMap("applied", "default"),
		metav1.ApplyOptions{FieldManager: "test"}); err == nil {
		t.Error("apply makes objects past the limit")
	} else {
		refused(t, "applying one too many", err, used)
	}
	if _, err := p.admin.CoreV1().ConfigMaps("default.a").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "by-the-system"}},
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("made by the system: %v", err)
	}
	if _, err := a.client.CoreV1().ConfigMaps("default").Apply(ctx, coreapply.ConfigMap("kube-root-ca.crt", "default").
		WithLabels(map[string]string{"x": "y"}), metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Errorf("changing what is there: %v", err)
	}
	if _, err := a.client.CoordinationV1().Leases("default").Create(ctx,
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("a lease: %v", err)
	}
	if _, err := a.client.CoreV1().Events("default").Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "e"},
		InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Namespace: "default", Name: "more"},
	}, metav1.CreateOptions{}); err != nil {
		t.Errorf("an event: %v", err)
	}
	list, err := a.client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Items {
		if c.Name == "kube-root-ca.crt" {
			continue
		}
		if err := a.client.CoreV1().ConfigMaps("default").Delete(ctx, c.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		break
	}
	if err := create("again"); err != nil {
		t.Errorf("a deletion makes no room: %v", err)
	}
	refused(t, "one too many after that", create("more"), used)
	p.limit(t, "a", "null")
	eventually(t, "no limit", func(context.Context) (bool, error) { return create("more") == nil, nil })
}

// testTightSpace: limits below what every space has do not keep it from being
// made, and refuse everything else.
func testTightSpace(t *testing.T, p *plane) {
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	zero := int64(0)
	if _, err := tenants.Create(t.Context(), &tenantapi.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: "tight"},
		Spec:       tenantapi.TenantSpec{Limits: &tenantapi.TenantLimits{Namespaces: &zero, Objects: &zero}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := p.as(t, "tight", p.user(t, "admin", []string{"tenant:tight"}, nil))
	eventually(t, "the space of the tenant tight", func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().ServiceAccounts("kube-public").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	_, err = s.client.CoreV1().Secrets("default").Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	refused(t, "a secret", err, "limited: 0")
}

// answer is a request's answer with its header.
func answer(t *testing.T, cfg *rest.Config, method, path string, body io.Reader) (*http.Response, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return &http.Response{}, ""
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp, string(text)
}

// metric finds a line of the metrics, "" if there is none.
func (p *plane) metric(t *testing.T, series string) string {
	t.Helper()
	if found := p.metrics(t, series); len(found) > 0 {
		return found[0]
	}
	return ""
}

// metrics are the lines of the metrics that begin with something, without that.
func (p *plane) metrics(t *testing.T, begin string) (found []string) {
	t.Helper()
	_, text := get(t, p.Admin, "/metrics")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, begin); ok {
			found = append(found, strings.TrimSpace(rest))
		}
	}
	return found
}

func testRequestsInFlight(t *testing.T, p *plane, a, b *space) {
	p.limit(t, "a", `{"requestsInFlight":2}`)
	watch, err := a.client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	// A request is in flight while its body is on the way.
	var group sync.WaitGroup
	var bodies []*io.PipeWriter
	for i := range 2 {
		r, w := io.Pipe()
		bodies = append(bodies, w)
		group.Go(func() {
			if resp, text := answer(t, a.config, http.MethodPost, "/api/v1/namespaces/default/configmaps",
				r); resp.StatusCode != http.StatusCreated {
				t.Errorf("the slow request %d: %d %s", i, resp.StatusCode, text)
			}
		})
	}
	eventually(t, "two requests in flight", func(context.Context) (bool, error) {
		return p.metric(t, `a4s_tenant_requests_in_flight{tenant="a"}`) == "2", nil
	})
	eventually(t, "a refusal", func(context.Context) (bool, error) {
		resp, text := answer(t, a.config, http.MethodGet, "/api/v1/namespaces/default/pods", nil)
		if resp.StatusCode == http.StatusOK {
			return false, nil // the limit is not known yet
		}
		var status metav1.Status
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return false, err
		}
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" ||
			status.Kind != "Status" || status.Reason != metav1.StatusReasonTooManyRequests {
			t.Errorf("past the limit: %d, %v, %s", resp.StatusCode, resp.Header, text)
		}
		return true, nil
	})
	again, err := a.client.CoreV1().Services("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Errorf("a watch past the limit: %v", err)
	} else {
		again.Stop()
	}
	if code, text := get(t, b.config, "/api/v1/namespaces/default/pods"); code != http.StatusOK {
		t.Errorf("another tenant: %d %s", code, text)
	}
	if code, text := get(t, p.Admin, "/api/v1/tenants/a/pods"); code != http.StatusOK {
		t.Errorf("an administrator in the space: %d %s", code, text)
	}
	for i, w := range bodies {
		fmt.Fprintf(w, `{"metadata":{"name":"slow%d"}}`, i) //nolint:errcheck // shows in the answer
		w.Close()                                           //nolint:errcheck // never fails
	}
	group.Wait()
	// A request is counted for a moment after it was answered.
	eventually(t, "an answer with nothing in flight", func(context.Context) (bool, error) {
		code, text := get(t, a.config, "/api/v1/namespaces/default/pods")
		if code != http.StatusOK && code != http.StatusTooManyRequests {
			return false, fmt.Errorf("%d %s", code, text)
		}
		return code == http.StatusOK, nil
	})
	eventually(t, "the refusals to be counted", func(context.Context) (bool, error) {
		return p.metric(t, `a4s_tenant_requests_total{code="429",tenant="a",verb="list"}`) != "", nil
	})
	p.limit(t, "a", "null")
}

// testFairness: users of tenants have seats of their own, so priority and fairness does not
// see them, whatever groups they have.
func testFairness(t *testing.T, p *plane, a *space) {
	flow := func(cfg *rest.Config) string {
		resp, _ := answer(t, cfg, http.MethodGet, "/api/v1/namespaces/default/pods", nil)
		return resp.Header.Get("X-Kubernetes-Pf-Flowschema-Uid")
	}
	token, err := a.client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account := rest.AnonymousClientConfig(a.config)
	account.BearerToken = token.Status.Token
	for who, cfg := range map[string]*rest.Config{
		"the user admin":    a.config,
		"a service account": account,
		"a master":          p.user(t, "m", []string{"tenant:a"}, []string{"system:masters"}),
		"who has no rights": p.user(t, "nobody", []string{"tenant:a"}, nil),
	} {
		if schema := flow(cfg); schema != "" {
			t.Errorf("%s has the flow schema %s", who, schema)
		}
	}
	if flow(p.Admin) == "" {
		t.Error("an administrator of the cluster is taken for a tenant")
	}
}

type auditEvent struct {
	RequestURI     string
	Verb           string
	User           authenticationv1.UserInfo
	ObjectRef      struct{ Resource, Name string }
	ResponseStatus struct{ Code int32 }
	Annotations    map[string]string
}

func testAudit(t *testing.T, p *plane, a *space, log string) {
	for _, c := range []struct {
		what string
		cfg  *rest.Config
		path string
		code int
		want string
	}{
		{"a tenant's user", a.config, "/api/v1/namespaces/default/configmaps/audit1", http.StatusNotFound, "a"},
		{"a tenant's user who is refused", a.config, "/api/v1/tenantplacements/audit2", http.StatusForbidden, "a"},
		{"a tenant's user in another's space", a.config, "/api/v1/tenants/b/namespaces/default/configmaps/audit3",
			http.StatusForbidden, "b"},
		{"an administrator in a space", p.Admin, "/api/v1/tenants/a/namespaces/default/configmaps/audit4",
			http.StatusNotFound, "a"},
		{"an administrator by composite names", p.Admin, "/api/v1/namespaces/default.a/configmaps/audit5",
			http.StatusNotFound, "a"},
		{"an administrator in the system", p.Admin, "/api/v1/namespaces/default/configmaps/audit6",
			http.StatusNotFound, ""},
	} {
		if code, text := get(t, c.cfg, c.path); code != c.code {
			t.Errorf("%s: %d %s", c.what, code, text)
		}
		name := c.path[strings.LastIndexByte(c.path, '/')+1:]
		eventually(t, "the audit event of "+c.what, func(context.Context) (bool, error) {
			e, err := findEvent(log, name)
			if err != nil || e == nil {
				return false, err
			}
			if got := e.Annotations["a4s.io/tenant"]; got != c.want {
				t.Errorf("%s: the audit event names tenant %q, want %q: %+v", c.what, got, c.want, *e)
			}
			return true, nil
		})
	}
}

func findEvent(log, name string) (*auditEvent, error) {
	f, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), name) {
			continue
		}
		e := &auditEvent{}
		if err := json.Unmarshal(lines.Bytes(), e); err != nil {
			return nil, nil // the line is being written
		}
		return e, nil
	}
	return nil, lines.Err()
}

// testTenantMetrics: a tenant is named while it exists.
func testTenantMetrics(t *testing.T, p *plane) {
	c := p.tenant(t, "counted")
	get(t, c.config, "/api/v1/namespaces/default/pods/none")
	get(t, c.config, "/api/v1/tenantplacements")
	eventually(t, "the metrics of a tenant", func(context.Context) (bool, error) {
		return p.metric(t, `a4s_tenant_requests_total{code="404",tenant="counted",verb="get"}`) != "" &&
			p.metric(t, `a4s_tenant_requests_total{code="403",tenant="counted",verb="list"}`) == "1" &&
			p.metric(t, `a4s_tenant_requests_in_flight{tenant="counted"}`) == "0", nil
	})
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := tenants.Delete(t.Context(), "counted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the metrics of the tenant to go with it", func(context.Context) (bool, error) {
		_, text := get(t, p.Admin, "/metrics")
		return !strings.Contains(text, `tenant="counted"`), nil
	})
}
