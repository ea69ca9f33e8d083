package spaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

func TestSpaces(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")

	t.Run("two tenants use the same names", func(t *testing.T) { testSameNames(t, p, a, b) })
	t.Run("seed examples of stored keys", func(t *testing.T) { testStoredKeys(t, p, a) })
	t.Run("URL forms", func(t *testing.T) { testURLForms(t, p, a, b) })
	t.Run("lists and watches are confined", func(t *testing.T) { testConfined(t, a, b) })
	t.Run("a system namespace called like a tenant", func(t *testing.T) { testNamespaceLikeTenant(t, p, a) })
	t.Run("patches", func(t *testing.T) { testPatches(t, a) })
	t.Run("identity", func(t *testing.T) { testIdentity(t, p, a, b) })
	t.Run("roles", func(t *testing.T) { testRoles(t, p, a, b) })
	t.Run("kinds of the system", func(t *testing.T) { testSystemKinds(t, a) })
	t.Run("bad input", func(t *testing.T) { testBadInput(t, p, a) })
	t.Run("discovery", func(t *testing.T) { testDiscovery(t, a) })
	t.Run("protobuf", func(t *testing.T) { testProtobuf(t, a) })
	t.Run("lists in protobuf", func(t *testing.T) { testListsInProtobuf(t, a) })
	t.Run("a deleted tenant leaves nothing", func(t *testing.T) { testDeletion(t, p, b) })
}

func deployment(name string) *appsv1.Deployment {
	one := int32(1)
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/none"}}},
			},
		},
	}
}

// testSameNames runs upstream's controllers in two spaces at once.
func testSameNames(t *testing.T, p *plane, spaces ...*space) {
	for _, s := range spaces {
		if _, err := s.client.AppsV1().Deployments("default").
			Create(t.Context(), deployment("web"), metav1.CreateOptions{}); err != nil {
			t.Fatalf("tenant %s: %v", s.name, err)
		}
		if _, err := s.client.CoreV1().PersistentVolumes().Create(t.Context(), volume("pv1"),
			metav1.CreateOptions{}); err != nil {
			t.Fatalf("tenant %s: %v", s.name, err)
		}
	}
	for _, s := range spaces {
		eventually(t, "the pod of the deployment of "+s.name, func(ctx context.Context) (bool, error) {
			pods, err := s.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			if err != nil || len(pods.Items) != 1 {
				return false, err
			}
			pod := pods.Items[0]
			if pod.Namespace != "default" || len(pod.OwnerReferences) != 1 ||
				!strings.HasPrefix(pod.OwnerReferences[0].Name, "web-") {
				return false, fmt.Errorf("pod %s/%s, owners %v", pod.Namespace, pod.Name, pod.OwnerReferences)
			}
			return true, nil
		})
		d, err := s.client.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || d.Namespace != "default" {
			t.Errorf("tenant %s: deployment in %q, %v", s.name, d.Namespace, err)
		}
		volumes, err := s.client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(volumes.Items) != 1 || volumes.Items[0].Name != "pv1" {
			t.Errorf("tenant %s: volumes %v, %v", s.name, volumes.Items, err)
		}
	}
	if _, err := p.admin.AppsV1().Deployments("default.a").Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Errorf("the composite view: %v", err)
	}
}

func volume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "192.0.2.9",
				Path: "/nonexistent"}},
			StorageClassName: "by-hand",
		},
	}
}

// testStoredKeys looks for the examples of the seed's section "ETCD Key Paths".
func testStoredKeys(t *testing.T, p *plane, a *space) {
	for _, key := range []string{
		"/registry/apiregistration.k8s.io/apiservices/v1.apps",
		"/registry/serviceaccounts/kube-system/job-controller",
		"/registry/namespaces/a/kube-public",
		"/registry/persistentvolumes/a/pv1",
		"/registry/deployments/a/default/web",
		"/registry/serviceaccounts/a/default/default",
		"/registry/clusterrolebindings/a/",
	} {
		if len(p.keys(t, key)) == 0 {
			t.Errorf("no key %s", key)
		}
	}
	for _, composite := range []string{"/default.a", ".a.tenant"} {
		if found := p.keys(t, composite); len(found) > 0 {
			t.Errorf("composite names in keys: %v", found)
		}
	}
}

func testURLForms(t *testing.T, p *plane, a, b *space) {
	const short = "/api/v1/namespaces/default/serviceaccounts/default"
	const full = "/api/v1/tenants/a/namespaces/default/serviceaccounts/default"
	for _, c := range []struct {
		user *rest.Config
		path string
		code int
	}{
		{a.config, short, http.StatusOK},
		{a.config, full, http.StatusOK},
		{a.config, "/tenants/a" + short, http.StatusOK},
		{p.Admin, full, http.StatusOK},
		{p.Admin, "/tenants/a" + short, http.StatusOK},
		{b.config, full, http.StatusForbidden},
		{b.config, "/tenants/a" + short, http.StatusForbidden},
		{b.config, "/api/v1/tenants/nobody/namespaces/default/serviceaccounts/default", http.StatusForbidden},
		{b.config, "/api/v1/tenants/system/namespaces/default/serviceaccounts/default", http.StatusForbidden},
		{b.config, "/api/v1/tenants/all/serviceaccounts", http.StatusForbidden},
		{p.Admin, "/api/v1/tenants/nobody/namespaces/default/serviceaccounts/default", http.StatusNotFound},
	} {
		code, body := get(t, c.user, c.path)
		if code != c.code {
			t.Errorf("GET %s: %d, want %d: %.300s", c.path, code, c.code, body)
		}
		if code != http.StatusOK {
			continue
		}
		var sa struct {
			Metadata struct{ Name, Namespace, Tenant, SelfLink string }
		}
		if err := json.Unmarshal([]byte(body), &sa); err != nil {
			t.Fatal(err)
		}
		if m := sa.Metadata; m.Name != "default" || m.Namespace != "default" || m.Tenant != "a" || m.SelfLink != full {
			t.Errorf("GET %s: %+v", c.path, m)
		}
	}
	code, body := get(t, p.Admin, "/api/v1/tenants/all/serviceaccounts")
	for _, want := range []string{`"namespace":"default","`, `"tenant":"a"`, `"tenant":"b"`, `"tenant":"system"`} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("tenants/all: %d without %s", code, want)
		}
	}
}

func testConfined(t *testing.T, a, b *space) {
	events, err := a.client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{LabelSelector: "confined"})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for _, s := range []*space{b, a} {
		for i := range 5 {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i),
				Labels: map[string]string{"confined": s.name}}}
			if _, err := s.client.CoreV1().ConfigMaps("default").
				Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 5 {
		e := <-events.ResultChan()
		if cm, ok := e.Object.(*corev1.ConfigMap); !ok || e.Type != watch.Added || cm.Namespace != "default" ||
			cm.Labels["confined"] != "a" {
			t.Fatalf("watched %s %+v", e.Type, e.Object)
		}
	}
	var names []string
	opts := metav1.ListOptions{LabelSelector: "confined", Limit: 2}
	for {
		page, err := a.client.CoreV1().ConfigMaps("").List(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, cm := range page.Items {
			names = append(names, cm.Labels["confined"]+"/"+cm.Namespace+"/"+cm.Name)
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			break
		}
	}
	if want := []string{"a/default/c0", "a/default/c1", "a/default/c2", "a/default/c3",
		"a/default/c4"}; !slices.Equal(names, want) {
		t.Errorf("pages: %v", names)
	}
	byField, err := a.client.CoreV1().ConfigMaps("").List(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.namespace=default,metadata.name=c1"})
	if err != nil || len(byField.Items) != 1 {
		t.Errorf("by field: %d items, %v", len(byField.Items), err)
	}
	if err := a.client.CoreV1().ConfigMaps("default").DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "confined"}); err != nil {
		t.Fatal(err)
	}
	left, err := b.client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{LabelSelector: "confined"})
	if err != nil || len(left.Items) != 5 {
		t.Errorf("of the other tenant %d are left, %v", len(left.Items), err)
	}
	spaces, err := a.client.CoreV1().Namespaces().List(t.Context(),
		metav1.ListOptions{LabelSelector: "kubernetes.io/metadata.name=default"})
	if err != nil || len(spaces.Items) != 1 || spaces.Items[0].Name != "default" ||
		spaces.Items[0].Labels["kubernetes.io/metadata.name"] != "default" {
		t.Errorf("namespaces by label: %+v, %v", spaces.Items, err)
	}
	if _, ok := spaces.Items[0].Labels["a4s.io/tenant"]; ok {
		t.Error("the label of the tenant is visible")
	}
}

// testNamespaceLikeTenant: the prefix of namespace "a" of the system space is
// that of tenant "a".
func testNamespaceLikeTenant(t *testing.T, p *plane, a *space) {
	ctx := t.Context()
	if _, err := p.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.admin.CoreV1().ConfigMaps("a").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-the-system",
			Labels: map[string]string{"like": "x"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.client.CoreV1().ConfigMaps("default").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-the-tenant",
			Labels: map[string]string{"like": "x"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"", "0"} {
		for _, c := range []struct {
			who    string
			client kubernetes.Interface
			ns     string
			want   string
		}{
			{"tenant", a.client, "", "of-the-tenant"},
			{"system namespace", p.admin, "a", "of-the-system"},
		} {
			var list *corev1.ConfigMapList
			eventually(t, c.who+" to have something", func(ctx context.Context) (_ bool, err error) {
				list, err = c.client.CoreV1().ConfigMaps(c.ns).List(ctx,
					metav1.ListOptions{LabelSelector: "like", ResourceVersion: version})
				// Version 0 is any: a cache may not have what was just made.
				return err == nil && (version != "0" || len(list.Items) > 0), err
			})
			if len(list.Items) != 1 || list.Items[0].Name != c.want {
				t.Errorf("%s, version %q: %v", c.who, version, list.Items)
			}
		}
	}
}

func testPatches(t *testing.T, a *space) {
	ctx := t.Context()
	deployments := a.client.AppsV1().Deployments("default")
	for media, patch := range map[types.PatchType]string{
		types.JSONPatchType: `[{"op":"test","path":"/metadata/namespace","value":"default"},` +
			`{"op":"add","path":"/metadata/annotations","value":{"json":"1"}}]`,
		types.MergePatchType:          `{"metadata":{"namespace":"default","annotations":{"merge":"1"}}}`,
		types.StrategicMergePatchType: `{"metadata":{"annotations":{"strategic":"1"}}}`,
	} {
		d, err := deployments.Patch(ctx, "web", media, []byte(patch), metav1.PatchOptions{})
		if err != nil || d.Namespace != "default" || len(d.Annotations) == 0 {
			t.Errorf("%s: %v", media, err)
		}
	}
	applied, err := deployments.Apply(ctx, appsapply.Deployment("web", "default").
		WithLabels(map[string]string{"applied": "yes"}), metav1.ApplyOptions{FieldManager: "test"})
	if err != nil || applied.Labels["applied"] != "yes" {
		t.Fatalf("apply: %v", err)
	}
	if !slices.ContainsFunc(applied.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == "test" && f.Operation == metav1.ManagedFieldsOperationApply
	}) {
		t.Errorf("managed fields: %v", applied.ManagedFields)
	}
	if _, err := a.client.CoreV1().Namespaces().Apply(ctx, coreapply.Namespace("applied").
		WithLabels(map[string]string{"x": "y"}), metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Errorf("applying a namespace: %v", err)
	}
	dry, err := deployments.Create(ctx, deployment("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || dry.Namespace != "default" {
		t.Errorf("dry run: %v", err)
	}
	generated, err := a.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "gen-"}}, metav1.CreateOptions{})
	if err != nil || !strings.HasPrefix(generated.Name, "gen-") || len(generated.Name) != len("gen-")+5 {
		t.Errorf("generated name %q, %v", generated.Name, err)
	}
}

func testBadInput(t *testing.T, p *plane, a *space) {
	for _, c := range []struct {
		what, path, body string
		code             int
		contains         string
	}{
		{"no tenant in the body", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x","tenant":1}}`,
			http.StatusBadRequest, "metadata.tenant must be a string"},
		{"a namespace that is too long", "/api/v1/namespaces",
			`{"metadata":{"name":"` + strings.Repeat("n", 62) + `"}}`, http.StatusUnprocessableEntity, "61"},
		{"a namespace with a dot", "/api/v1/namespaces", `{"metadata":{"name":"x.y"}}`,
			http.StatusUnprocessableEntity, ""},
		{"a body that is no JSON", "/api/v1/namespaces/default/configmaps", `{"metadata":`, http.StatusBadRequest, ""},
		{"the wrong namespace in the body", "/api/v1/namespaces/default/configmaps",
			`{"metadata":{"name":"x","namespace":"other"}}`, http.StatusBadRequest,
			"namespace of the provided object does not match"},
		{"a namespace that is not there", "/api/v1/namespaces/nowhere/configmaps", `{"metadata":{"name":"x"}}`,
			http.StatusNotFound, `namespaces "nowhere" not found`},
	} {
		code, body := do(t, a.config, http.MethodPost, c.path, c.body, nil)
		if code != c.code || !strings.Contains(strings.ReplaceAll(body, `\"`, `"`), c.contains) ||
			!strings.Contains(body, `"kind":"Status"`) {
			t.Errorf("%s: %d, want %d: %s", c.what, code, c.code, body)
		}
		if strings.Contains(body, `.a\"`) || strings.Contains(body, `.a"`) {
			t.Errorf("%s: composite name in %s", c.what, body)
		}
	}
	if code, body := do(t, p.Admin, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"x.nobody"}}`,
		nil); code != http.StatusNotFound {
		t.Errorf("a namespace of an unknown tenant: %d %.300s", code, body)
	}
	if code, body := do(t, p.Admin, http.MethodPost, "/api/v1/persistentvolumes", `{"metadata":{"name":"x.tenant"}}`,
		nil); code != http.StatusUnprocessableEntity {
		t.Errorf("a name with the reserved suffix: %d %.300s", code, body)
	}
	_, err := a.client.CoreV1().Pods("default").Get(t.Context(), "none", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) || err.Error() != `pods "none" not found` {
		t.Errorf("a missing pod: %v", err)
	}
	_, err = a.client.CoreV1().PersistentVolumes().Get(t.Context(), "none", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) || err.Error() != `persistentvolumes "none" not found` {
		t.Errorf("a missing volume: %v", err)
	}
}

func testDiscovery(t *testing.T, a *space) {
	_, lists, err := a.client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			all[list.GroupVersion+"/"+r.Name] = true
			if slices.Contains(r.Verbs, "list") {
				all[list.GroupVersion+"/"+r.Name+" list"] = true
			}
		}
	}
	for name, want := range map[string]bool{
		"v1/pods": true, "v1/namespaces": true, "apps/v1/deployments": true, "storage.k8s.io/v1/storageclasses": true,
		"v1/nodes": true, "v1/nodes/status": false, "v1/tenants": false, "apps/v1/daemonsets": true,
		"apps/v1/daemonsets list":               true,
		"apiregistration.k8s.io/v1/apiservices": true, "apiregistration.k8s.io/v1/apiservices list": true,
		"flowcontrol.apiserver.k8s.io/v1/flowschemas": true,
	} {
		if all[name] != want {
			t.Errorf("%s in discovery: %v", name, !want)
		}
	}
	v3, err := a.client.Discovery().OpenAPIV3().Paths()
	if err != nil || v3["api/v1"] == nil || v3["apis/flowcontrol.apiserver.k8s.io/v1"] == nil ||
		v3["apis/internal.apiserver.k8s.io/v1alpha1"] != nil {
		t.Errorf("OpenAPI v3: %v, %v", v3, err)
	}
	if _, err := v3["api/v1"].Schema("application/com.github.proto-openapi.spec.v3@v1.0+protobuf"); err != nil {
		t.Errorf("OpenAPI v3 in protobuf: %v", err)
	}
	doc, err := a.client.Discovery().OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range doc.GetPaths().GetPath() {
		if strings.Contains(path.GetName(), "/nodes/{name}/") {
			t.Errorf("OpenAPI v2 has %s", path.GetName())
		}
	}
}

// testListsInProtobuf: the items of a list are what a GET of each is, as informers of
// metadata take them for. The list is too long to be translated as a whole.
func testListsInProtobuf(t *testing.T, a *space) {
	client, err := metadata.NewForConfig(a.config) // asks for protobuf
	if err != nil {
		t.Fatal(err)
	}
	secrets := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets"))
	for i := range 40 {
		if _, err := a.client.CoreV1().Secrets("default").Create(t.Context(),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("long-%d", i), Annotations: map[string]string{"a": strings.Repeat("x", 4<<10)},
			}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range []string{"default", ""} {
		list, err := secrets.Namespace(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) < 40 {
			t.Fatalf("%d items, %v", len(list.Items), err)
		}
		want := "/api/v1/tenants/a/secrets"
		if namespace != "" {
			want = "/api/v1/tenants/a/namespaces/default/secrets"
		}
		//lint:ignore SA1019 tenants see one
		if is := list.SelfLink; is != want {
			t.Errorf("the list says that it is %q, not %q", is, want)
		}
		for _, item := range list.Items {
			one, err := secrets.Namespace(item.Namespace).Get(t.Context(), item.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !apiequality.Semantic.DeepEqual(one.ObjectMeta, item.ObjectMeta) {
				t.Errorf("a list has %+v\nand a GET %+v", item.ObjectMeta, one.ObjectMeta)
			}
		}
	}
}

func testProtobuf(t *testing.T, a *space) {
	cfg := rest.CopyConfig(a.config)
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = cfg.ContentType
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	events, err := client.CoreV1().Services("").Watch(ctx, metav1.ListOptions{LabelSelector: "proto"})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	made, err := client.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "proto", Labels: map[string]string{"proto": "yes"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil || made.Namespace != "default" || made.Spec.ClusterIP == "" {
		t.Fatalf("create: %+v, %v", made, err)
	}
	if e := <-events.ResultChan(); e.Type != watch.Added || e.Object.(*corev1.Service).Namespace != "default" {
		t.Errorf("watched %s %+v", e.Type, e.Object)
	}
	list, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{LabelSelector: "proto"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Namespace != "default" {
		t.Errorf("list: %+v, %v", list, err)
	}
	generated, err := client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pgen-"}}, metav1.CreateOptions{})
	if err != nil || !strings.HasPrefix(generated.Name, "pgen-") || strings.Contains(generated.Name, ".") {
		t.Errorf("generated name %q, %v", generated.GetName(), err)
	}
	if _, err := client.CoreV1().Services("default").
		Get(ctx, "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) ||
		err.Error() != `services "none" not found` {
		t.Errorf("a missing service: %v", err)
	}
}

// testDeletion: deleting a tenant ends with no key of it in etcd.
func testDeletion(t *testing.T, p *plane, b *space) {
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := tenants.Delete(t.Context(), b.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenant to be gone", func(ctx context.Context) (bool, error) {
		_, err := tenants.Get(ctx, b.name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if left := p.keys(t, "/"+b.name+"/"); len(left) > 0 {
		t.Errorf("left in etcd: %v", left)
	}
	// The edge knows by a watch which tenants there are.
	eventually(t, "the space of the deleted tenant to be unknown", func(context.Context) (bool, error) {
		code, _, err := try(t, p.Admin, http.MethodGet, "/api/v1/tenants/"+b.name+"/pods", "", nil)
		return err == nil && code == http.StatusNotFound, nil
	})
	err = tenants.Delete(t.Context(), "system", metav1.DeleteOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("deleting the system space: %v", err)
	}
}
