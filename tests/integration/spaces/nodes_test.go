package spaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/rewrite"
)

// plantNode makes a node with the word in everything that tenants do not see.
func plantNode(t *testing.T, p *plane, name, word string) {
	t.Helper()
	_, err := p.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "here"},
			Annotations: map[string]string{"note": word}},
		Spec: corev1.NodeSpec{ProviderID: word,
			Taints: []corev1.Taint{{Key: "example.com/kept", Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status := corev1.NodeStatus{
		Capacity: corev1.ResourceList{"cpu": quantity("4")},
		Conditions: []corev1.NodeCondition{{Type: "Noted", Status: corev1.ConditionTrue,
			Reason: "Noted", Message: word}},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: word}},
		NodeInfo: corev1.NodeSystemInfo{MachineID: word, SystemUUID: word, BootID: word, KubeletVersion: "v1.2.3",
			Architecture: "amd64"},
		Images:          []corev1.ContainerImage{{Names: []string{"example.com/" + word}}},
		VolumesInUse:    []corev1.UniqueVolumeName{corev1.UniqueVolumeName(word)},
		VolumesAttached: []corev1.AttachedVolume{{Name: corev1.UniqueVolumeName(word), DevicePath: word}},
		RuntimeHandlers: []corev1.NodeRuntimeHandler{{Name: word}},
	}
	// The controllers of the cluster write in it as soon as it is there.
	if _, err := rewrite.Status(t.Context(), p.admin.CoreV1().Nodes(), name, func(node *corev1.Node) {
		node.Status = status
	}); err != nil {
		t.Fatal(err)
	}
}

// showNodes sets spec.nodes of a Tenant.
func (p *plane) showNodes(t *testing.T, tenant string, value any) error {
	t.Helper()
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"nodes": value}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tenants.Patch(t.Context(), tenant, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// TestNodesOfATenant: with spec.nodes: ReadOnly, users of a tenant whom its roles
// let do so read nodes in every form, without what leads to machines or others,
// and nothing more; without it there are none, and their watches end.
func TestNodesOfATenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	const word = "zqhiddenzq"
	p := start(t, nil)
	a, b := p.bareTenant(t, "a"), p.bareTenant(t, "b")
	ctx := t.Context()
	plantNode(t, p, "n1", word)
	// Without the field there are none, and nothing can be written.
	none := func(s *space, when string) {
		t.Helper()
		list, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) > 0 || list.GetRemainingItemCount() != nil {
			t.Errorf("%s: %+v, %v", when, list, err)
		}
		if _, err := s.client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s, by its name: %v", when, err)
		}
		if code, body := do(t, s.config, http.MethodDelete, "/api/v1/nodes/n1", "",
			nil); code != http.StatusForbidden ||
			!strings.Contains(body, "spec.nodes") {
			t.Errorf("%s, deleting it: %d %s", when, code, body)
		}
		if code, body := get(t, s.config, "/api/v1/nodes?watch=true&timeoutSeconds=1&sendInitialEvents=true&"+
			"resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"); code != http.StatusOK ||
			strings.Contains(body, "n1") {
			t.Errorf("%s, watching: %d %s", when, code, body)
		}
	}
	none(a, "without the field")
	if err := p.showNodes(t, "a", "Everything"); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "ReadOnly") {
		t.Errorf("a value that is none: %v", err)
	}
	if err := p.showNodes(t, "a", "ReadOnly"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nodes are listed", func(ctx context.Context) (bool, error) {
		list, err := a.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) > 0, nil
	})
	node, err := a.client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
	if err != nil || node.Labels["zone"] != "here" || node.Status.NodeInfo.KubeletVersion != "v1.2.3" ||
		node.Status.Capacity.Cpu().Value() != 4 ||
		!slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/kept" }) ||
		!slices.ContainsFunc(node.Status.Conditions,
			func(c corev1.NodeCondition) bool { return c.Type == "Noted" && c.Reason == "Noted" }) {
		t.Errorf("the node is %+v, %v", node, err)
	}
	// Every form, every way.
	forms := []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	for _, as := range []string{"Table", "PartialObjectMetadataList", "PartialObjectMetadata"} {
		forms = append(forms, "application/json;as="+as+";v=v1;g=meta.k8s.io",
			"application/vnd.kubernetes.protobuf;as="+as+";v=v1;g=meta.k8s.io")
	}
	seen := map[[2]string]bool{}
	look := func(form string) {
		for _, path := range []string{"/api/v1/nodes", "/api/v1/nodes/n1", "/api/v1/tenants/a/nodes",
			"/tenants/a/api/v1/nodes/n1", "/api/v1/nodes?watch=true&timeoutSeconds=1",
			"/api/v1/watch/nodes/n1?timeoutSeconds=1",
			"/api/v1/nodes?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&" +
				"allowWatchBookmarks=true", "/api/v1/nodes?fieldSelector=metadata.name%3Dn1",
			"/api/v1/nodes?limit=1"} {
			code, body := do(t, a.config, http.MethodGet, path, "", []string{"Accept: " + form})
			if code == http.StatusOK && strings.Contains(body, "n1") {
				seen[[2]string{form, path}] = true
			}
			if strings.Contains(body, word) {
				t.Errorf("%s as %s shows what is hidden: %s", path, form, body)
			}
		}
	}
	// A watch of one second may end before a slow machine says in it what there is.
	eventually(t, "40 answers to have the node", func(context.Context) (bool, error) {
		for _, form := range forms {
			look(form)
		}
		return len(seen) >= 40, nil
	})
	// Nothing more.
	for _, r := range []struct{ method, path, body string }{
		{http.MethodGet, "/api/v1/nodes/n1/status", ""}, {http.MethodGet, "/api/v1/nodes/n1/proxy/", ""},
		{http.MethodGet, "/api/v1/nodes/n1:10250/proxy/pods", ""},
		{http.MethodPost, "/api/v1/nodes", `{"metadata":{"name":"x"}}`},
		{http.MethodPut, "/api/v1/nodes/n1", `{"metadata":{"name":"n1"}}`},
		{http.MethodDelete, "/api/v1/nodes/n1", ""}, {http.MethodDelete, "/api/v1/nodes", ""},
		{http.MethodPatch, "/api/v1/nodes/n1/status", `{}`}, {http.MethodPatch, "/api/v1/nodes/n1", `{}`},
		{http.MethodGet, "/apis/metrics.k8s.io/v1beta1/nodes", ""},
		{http.MethodGet, "/api/v1/tenants/system/nodes", ""}, {http.MethodGet, "/api/v1/tenants/b/nodes", ""},
	} {
		var headers []string
		if r.method == http.MethodPatch {
			headers = []string{"Content-Type: application/merge-patch+json"}
		}
		if code, body := do(t, a.config, r.method, r.path, r.body, headers); code != http.StatusForbidden ||
			strings.Contains(body, word) {
			t.Errorf("%s %s: %d %s", r.method, r.path, code, body)
		}
	}
	none(b, "another tenant")
	// The roles of the tenant decide.
	alice := p.as(t, "a", p.user(t, "alice", []string{"tenant:a"}, nil))
	if _, err := alice.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without a role: %v", err)
	}
	if _, err := a.client.RbacV1().ClusterRoles().Create(ctx,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nodes"},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""},
				Resources: []string{"nodes"}}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.client.RbacV1().ClusterRoleBindings().Create(ctx,
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "nodes"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nodes"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a user with a role lists nodes", func(ctx context.Context) (bool, error) {
		_, err := alice.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	// Discovery has them, and the lists of DaemonSets that tools ask for next.
	discovered := func(s *space) (verbs []string) {
		list, err := s.client.Discovery().ServerResourcesForGroupVersion("v1")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if strings.HasPrefix(r.Name, "nodes/") {
				t.Errorf("%s is in the discovery", r.Name)
			}
			if r.Name == "nodes" {
				verbs = r.Verbs
			}
		}
		return verbs
	}
	if got := discovered(a); !slices.Equal(got, []string{"get", "list", "watch"}) {
		t.Errorf("the verbs of nodes: %v", got)
	}
	if got := discovered(b); !slices.Equal(got, []string{"get", "list", "watch"}) {
		t.Errorf("of another tenant: %v", got)
	}
	systems := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: appsv1.DaemonSetSpec{Selector: deployment("agent").Spec.Selector,
			Template: deployment("agent").Spec.Template}}
	if _, err := p.admin.AppsV1().DaemonSets("kube-system").Create(ctx, systems, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if code, _ := do(t, a.config, http.MethodPost, "/apis/apps/v1/namespaces/default/daemonsets",
		`{"metadata":{"name":"x"}}`, nil); code != http.StatusForbidden {
		t.Errorf("making a DaemonSet: %d", code)
	}
	// An administrator of the cluster makes none in the space of a tenant, either.
	inside := p.as(t, "a", tenantapi.InSpace(p.Admin, "a")).client
	for ns, client := range map[string]kubernetes.Interface{"default.a": p.admin, "default": inside} {
		if _, err := client.AppsV1().DaemonSets(ns).Create(ctx, systems,
			metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "of the system") {
			t.Errorf("an administrator makes a DaemonSet in %s: %v", ns, err)
		}
	}
	if sets, err := a.client.AppsV1().DaemonSets("").List(ctx, metav1.ListOptions{}); err != nil ||
		len(sets.Items) > 0 {
		t.Errorf("DaemonSets: %+v, %v", sets, err)
	}

	// Taken away again.
	w, err := a.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := p.showNodes(t, "a", nil); err != nil {
		t.Fatal(err)
	}
	late := time.After(deadline)
	for open := true; open; {
		select {
		case _, open = <-w.ResultChan():
		case <-late:
			t.Fatal("the watch goes on")
		}
	}
	none(a, "after that")
}

// TestPathsAndDebuggingOfATenant: the root lists the paths that the space has,
// and a refusal of kubectl debug says which profile is not refused.
func TestPathsAndDebuggingOfATenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.bareTenant(t, "a")
	code, body := get(t, a.config, "/")
	var root metav1.RootPaths
	if err := json.Unmarshal([]byte(body), &root); code != http.StatusOK || err != nil {
		t.Fatalf("%d %s, %v", code, body, err)
	}
	for _, path := range root.Paths {
		if path == "/openapi/v2" || strings.HasPrefix(path, "/.well-known") || strings.HasPrefix(path, "/openid") {
			continue
		}
		if code, _ := get(t, a.config, path); code != http.StatusOK {
			t.Errorf("%s is listed and answers %d", path, code)
		}
	}
	for _, path := range []string{"/api", "/apis/apps/v1", "/healthz", "/version", "/openapi/v3"} {
		if !slices.Contains(root.Paths, path) {
			t.Errorf("%s is missing", path)
		}
	}
	for _, path := range []string{"/metrics", "/logs", "/apis/internal.apiserver.k8s.io", "/healthz/ping"} {
		if slices.Contains(root.Paths, path) {
			t.Errorf("%s is listed", path)
		}
	}
	if code, _ := get(t, p.user(t, "nobody", []string{"tenant:a"}, nil), "/"); code != http.StatusForbidden {
		t.Errorf("a user without a role: %d", code)
	}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := a.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const trace = `,"securityContext":{"capabilities":{"add":["SYS_PTRACE"]}}`
	debug := func(security string) (int, string) {
		return do(t, a.config, http.MethodPatch, "/api/v1/namespaces/default/pods/web/ephemeralcontainers",
			`{"spec":{"ephemeralContainers":[{"name":"debugger","image":"i"`+security+`}]}}`,
			[]string{"Content-Type: application/strategic-merge-patch+json"})
	}
	if code, body := debug(trace); code != http.StatusForbidden || !strings.Contains(body, "--profile=baseline") {
		t.Errorf("the default of kubectl debug: %d %s", code, body)
	}
	if code, body := debug(""); code != http.StatusOK {
		t.Errorf("with --profile=baseline: %d %s", code, body)
	}
	if code, body := do(t, a.config, http.MethodPost, "/api/v1/namespaces/default/pods",
		`{"metadata":{"name":"copy"},"spec":{"containers":[{"name":"debugger","image":"i"`+trace+`}]}}`,
		nil); code != http.StatusForbidden || !strings.Contains(body, "--profile=baseline") {
		t.Errorf("a copy: %d %s", code, body)
	}
	if code, body := do(t, a.config, http.MethodPost, "/api/v1/namespaces/default/pods",
		`{"metadata":{"name":"other"},"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}`,
		nil); code != http.StatusForbidden || strings.Contains(body, "--profile") {
		t.Errorf("something else: %d %s", code, body)
	}
}
