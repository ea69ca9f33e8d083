package spaces_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/nstest"
)

// cordon cordons a tenant, or ends that, and waits until the server knows.
func (p *plane) cordon(t *testing.T, s *space, cordoned bool) {
	t.Helper()
	body := `{"spec":{"cordoned":false}}`
	if cordoned {
		body = `{"spec":{"cordoned":true}}`
	}
	code, answer := do(t, p.Admin, http.MethodPatch, "/api/v1/tenants/"+s.name, body,
		[]string{"Content-Type: " + mergePatch})
	if code != http.StatusOK || !strings.Contains(answer, `"phase":"Active"`) {
		t.Fatalf("%d %s", code, answer)
	}
	eventually(t, "the server to know of the cordon", func(context.Context) (bool, error) {
		_, answer, err := try(t, s.config, http.MethodPost, "/api/v1/namespaces/default/configmaps?dryRun=All",
			`{"metadata":{"name":"asks"}}`, nil)
		return err == nil && strings.Contains(answer, "is cordoned") == cordoned, nil
	})
}

// TestCordonedSpaces: users of a cordoned tenant read and change nothing, whoever they are and by
// whichever path they come, while everybody and everything else goes on.
func TestCordonedSpaces(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.bareTenant(t, "a"), p.bareTenant(t, "b")
	account := accountOf(t, p, a)
	if _, err := a.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "account"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "default"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	one, labels := int32(1), map[string]string{"app": "web"}
	if _, err := a.client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := onePod(t, a, "")
	for _, field := range []string{"cordoned", "deletionProtection"} {
		// Whether it is so is for the administrators of the cluster.
		if code, answer := do(t, a.config, http.MethodPatch, "/api/v1/tenants/a", `{"spec":{"`+field+`":true}}`,
			[]string{"Content-Type: " + mergePatch}); code != http.StatusForbidden {
			t.Errorf("%s by the tenant: %d %s", field, code, answer)
		}
	}
	finish := slowWrite(t, a)
	p.cordon(t, a, true)
	if answer := finish(); strings.HasPrefix(answer, "20") {
		t.Errorf("a write that the cordon met is answered with %s", answer)
	}
	if code, _ := get(t, a.config, "/api/v1/namespaces/default/configmaps/slow"); code != http.StatusNotFound {
		t.Errorf("what a write made that the cordon met: %d", code)
	}
	asPrefix := rest.CopyConfig(a.config)
	asPrefix.Host += "/tenants/a"
	instead := rest.CopyConfig(p.Admin)
	instead.Host += "/tenants/a"
	instead.Impersonate.UserName = "admin"
	for who, cfg := range map[string]*rest.Config{"the administrator": a.config, "by prefix": asPrefix,
		"a service account": account.config, "who is one of the cluster": instead} {
		t.Run(who, func(t *testing.T) { testCordoned(t, cfg, pod) })
	}
	t.Run("every way to read is known", func(t *testing.T) { testViews(t, a, pod) })
	t.Run("nothing gets through", func(t *testing.T) { testCordonHolds(t, p, a) })
	if _, err := b.client.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	// The administrators of the cluster and the controllers go on.
	if code, answer := do(t, p.Admin, http.MethodDelete, "/tenants/a/api/v1/namespaces/default/pods/"+pod, "",
		nil); code != http.StatusOK {
		t.Errorf("an administrator of the cluster: %d %s", code, answer)
	}
	onePod(t, a, pod)
	p.cordon(t, a, false)
	if _, err := a.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/own"}}},
		metav1.CreateOptions{}); err != nil {
		t.Fatalf("after the cordon: %v", err)
	}
	// What has to finalize does so when the tenant is deleted.
	p.cordon(t, a, true)
	if code, answer := do(t, p.Admin, http.MethodDelete, "/api/v1/tenants/a", "", nil); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	eventually(t, "the tenant to finalize", func(context.Context) (bool, error) {
		code, _, err := try(t, a.config, http.MethodPatch, "/api/v1/namespaces/default/configmaps/held",
			`{"metadata":{"finalizers":null}}`, []string{"Content-Type: " + mergePatch})
		// The tenant may end while this is answered, and is gone, or its user, when it is tried again.
		return err == nil && (code == http.StatusOK || code == http.StatusNotFound ||
			code == http.StatusUnauthorized), nil
	})
	eventually(t, "the tenant to be gone", func(context.Context) (bool, error) {
		code, _ := get(t, p.Admin, "/api/v1/tenants/a")
		return code == http.StatusNotFound, nil
	})
}

// slowWrite begins to make an object, and returns when the server waits for its end. finish sends
// that, and is the answer.
func slowWrite(t *testing.T, s *space) (finish func() string) {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(s.config)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, ExpectContinueTimeout: deadline}
	t.Cleanup(transport.CloseIdleConnections)
	waits := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(waits) }})
	body, end := io.Pipe()
	t.Cleanup(func() { _ = end.Close() })
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		s.config.Host+"/api/v1/namespaces/default/configmaps", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Expect", "100-continue")
	answers := make(chan string, 1)
	go func() {
		resp, err := transport.RoundTrip(req)
		if err != nil {
			answers <- err.Error()
			return
		}
		_ = resp.Body.Close()
		answers <- resp.Status
	}()
	select {
	case <-waits:
	case answer := <-answers:
		t.Fatalf("a write is answered before its end: %s", answer)
	case <-time.After(deadline):
		t.Fatal("nobody reads what is written")
	}
	return func() string {
		t.Helper()
		// The server may have hung up.
		_, _ = io.WriteString(end, `{"metadata":{"name":"slow"}}`)
		_ = end.Close()
		select {
		case answer := <-answers:
			return answer
		case <-time.After(deadline):
			t.Fatal("a write that ended has no answer")
		}
		return ""
	}
}

// onePod waits for the one pod of a space that is not former and is not being deleted, until the
// scheduler has looked at it.
func onePod(t *testing.T, s *space, former string) (name string) {
	t.Helper()
	eventually(t, "the pod of the deployment", func(ctx context.Context) (bool, error) {
		list, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			if o := &list.Items[i]; o.DeletionTimestamp.IsZero() && o.Name != former &&
				len(o.Status.Conditions) > 0 {
				name = o.Name
			}
		}
		return name != "", nil
	})
	return name
}

func testCordoned(t *testing.T, cfg *rest.Config, pod string) {
	const core = "/api/v1/namespaces/default"
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{http.MethodGet, core + "/pods", "", http.StatusOK},
		{http.MethodGet, "/api/v1/tenants/a/namespaces/default/pods/" + pod, "", http.StatusOK},
		{http.MethodGet, core + "/pods?watch=1&timeoutSeconds=1", "", http.StatusOK},
		{http.MethodGet, "/apis/apps/v1/namespaces/default/deployments/web/scale", "", http.StatusOK},
		{http.MethodGet, "/openapi/v3", "", http.StatusOK},
		{http.MethodPost, core + "/configmaps", `{"metadata":{"name":"x"}}`, http.StatusForbidden},
		{http.MethodPost, core + "/configmaps?dryRun=All", `{"metadata":{"name":"x"}}`, http.StatusForbidden},
		{http.MethodPost, "/api/v1/tenants/a/namespaces/default/configmaps", `{"metadata":{"name":"x"}}`,
			http.StatusForbidden},
		{http.MethodPost, core + "/serviceaccounts/default/token", `{}`, http.StatusForbidden},
		{http.MethodPost, core + "/pods/" + pod + "/exec?command=sh&stdout=1", "", http.StatusForbidden},
		{http.MethodPost, core + "/pods/" + pod + "/eviction", `{}`, http.StatusForbidden},
		{http.MethodGet, core + "/pods/" + pod + "/proxy/", "", http.StatusForbidden},
		{http.MethodDelete, core + "/pods/" + pod, "", http.StatusForbidden},
		{http.MethodDelete, core + "/configmaps", "", http.StatusForbidden},
		{http.MethodDelete, "/api/v1/namespaces/default", "", http.StatusForbidden},
	} {
		if strings.HasSuffix(cfg.Host, "/tenants/a") && strings.HasPrefix(c.path, "/api/v1/tenants/a/") {
			continue // both forms at once are none
		}
		code, answer := do(t, cfg, c.method, c.path, c.body, nil)
		if code != c.code || (code == http.StatusForbidden) != strings.Contains(answer,
			"the space of tenant a is cordoned: its users can read, and change nothing, until an administrator") {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, answer)
		}
	}
	spec := `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods","namespace":"default"}}}`
	for _, resource := range []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"} {
		code, answer := do(t, cfg, http.MethodPost, "/apis/"+authorizationv1.GroupName+"/v1/"+resource,
			strings.Replace(spec, `"spec":{`, `"spec":{"namespace":"default",`, 1), nil)
		if code != http.StatusCreated {
			t.Errorf("%s: %d %s", resource, code, answer)
		}
	}
}

// testViews looks for what can be read of the space by the path of a subresource: it is decided
// whether that changes something.
func testViews(t *testing.T, a *space, pod string) {
	_, lists, err := a.client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	changes, found := []string{"exec", "attach", "portforward", "proxy"}, 0
	for _, list := range lists {
		for _, r := range list.APIResources {
			resource, sub, ok := strings.Cut(r.Name, "/")
			if !ok || !slices.Contains(r.Verbs, "get") {
				continue
			}
			found++
			path := "/apis/" + list.GroupVersion
			if list.GroupVersion == "v1" {
				path = "/api/v1"
			}
			if r.Namespaced {
				path += "/namespaces/default"
			}
			_, answer := get(t, a.config, path+"/"+resource+"/nothing/"+sub)
			if refused := strings.Contains(answer, "is cordoned"); refused != slices.Contains(changes, sub) {
				t.Errorf("%s of %s is refused: %t", r.Name, list.GroupVersion, refused)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d subresources in discovery", found)
	}
}

// testCordonHolds sends what the generator of hostile requests has: nothing of the space changes.
func testCordonHolds(t *testing.T, p *plane, a *space) {
	attackers := p.as(t, "a", p.user(t, "mallory", []string{"tenant:a"}, []string{"system:masters"}))
	client, err := rest.HTTPClientFor(attackers.config)
	if err != nil {
		t.Fatal(err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	// The controllers are not cordoned: they are to be through with what was made.
	eventually(t, "the controllers to be through", func(ctx context.Context) (bool, error) {
		web, err := a.client.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil || web.Status.ObservedGeneration != web.Generation || web.Status.UnavailableReplicas != 1 ||
			web.Status.Replicas != 1 {
			return false, err
		}
		namespaces, err := a.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range namespaces.Items {
			in := a.client.CoreV1().ConfigMaps(namespaces.Items[i].Name)
			if _, err := in.Get(ctx, "kube-root-ca.crt", metav1.GetOptions{}); err != nil {
				return false, ignoreNotFound(err)
			}
		}
		return len(namespaces.Items) > 0, nil
	})
	before := keyRevisions(t, p, "/"+a.name+"/")
	if len(before) < 20 {
		t.Fatalf("the space has %d keys", len(before))
	}
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() {
			g := &attacker{rand: rand.New(rand.NewPCG(7, uint64(i))), host: attackers.config.Host,
				kinds: customKinds()}
			for range 1000 {
				r := g.request()
				if g.chance(10) {
					r = g.hostile()
				}
				r.send(t.Context(), client)
			}
		})
	}
	workers.Wait()
	after := keyRevisions(t, p, "/"+a.name+"/")
	for key, revision := range after {
		// The scheduler goes on saying why the pod has no node.
		if before[key] != revision && !strings.HasPrefix(key, "/registry/events/") {
			t.Errorf("%s was written", key)
		}
		delete(before, key)
	}
	for key := range before { // events may expire
		if strings.HasPrefix(key, "/registry/events/") {
			continue
		}
		t.Errorf("%s was deleted", key)
	}
}

// keyRevisions are those of the keys that contain part, by key.
func keyRevisions(t *testing.T, p *plane, part string) map[string]int64 {
	t.Helper()
	resp, err := p.etcd.Get(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, kv := range resp.Kvs {
		if strings.Contains(string(kv.Key), part) {
			found[string(kv.Key)] = kv.ModRevision
		}
	}
	return found
}
