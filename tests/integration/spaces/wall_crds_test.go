package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"

	"github.com/a4s-io/a4s/tests/nstest"
)

// approved lets a CRD into a group of Kubernetes, as far as Kubernetes
// is concerned.
func approved(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Annotations = map[string]string{
		"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1",
	}
}

// owned makes a config map in the namespace default that a custom resource owns.
func (s *space) owned(t *testing.T, name string, owner *unstructured.Unstructured) {
	t.Helper()
	blocks := true
	cm := configMap(name)
	cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(),
		Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: &blocks}}
	if _, err := s.client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatalf("%s in %s: %v", name, s.name, err)
	}
}

func (s *space) collected(t *testing.T, name string) {
	t.Helper()
	eventually(t, name+" of "+s.name+" to be collected", func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// nobody is an owner that never was.
func nobody(gvr schema.GroupVersionResource, kind string) *unstructured.Unstructured {
	object := foo(gvr, "nobody", nil)
	object.SetKind(kind)
	object.SetUID("00000000-0000-0000-0000-000000000000")
	return object
}

// TestWallV2OwnersOfCollidingKinds: whatever a tenant calls its kinds, what
// others' custom resources own goes with its owner and not before.
func TestWallV2OwnersOfCollidingKinds(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	ctx := t.Context()
	t1, t2, system := p.tenant(t, "t1"), p.tenant(t, "t2"), p.as(t, "system", p.Admin)
	const group = "victim.io"
	evil := t1.define(t, definition(group, named("widgets", "Evil"), clusterWide))
	fake := t1.define(t, definition(group, named("zwidgets", "Widget")))
	t1.define(t, definition(group, named("gadgets", "Widgets"), clusterWide,
		func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Names.Singular = "bars"
		}))
	t1.define(t, definition(group, named("zprivates", "Private")))
	t1.define(t, definition(group, named("privates", "Evil2"), clusterWide))
	t1.define(t, definition(group, named("zbars", "Bar"), func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Name = "v9"
	}))
	// The collector knows all that: it collects what no such thing owns.
	for _, kind := range []string{"Widget", "Evil", "Private"} {
		t1.owned(t, "of-no-"+strings.ToLower(kind), nobody(evil, kind))
	}
	for _, kind := range []string{"widget", "evil", "private"} {
		t1.collected(t, "of-no-"+kind)
	}
	widgets := t2.define(t, definition(group, named("widgets", "Widget")))
	bars := t2.define(t, definition(group, named("bars", "Bar"), clusterWide))
	privates := system.define(t, definition(group, named("privates", "Private")))

	victims := map[string]*space{}
	victim := func(s *space, name string, owner *unstructured.Unstructured) {
		s.owned(t, name, owner)
		victims[name] = s
	}
	round := func(round string) {
		t.Helper()
		widget := t2.makes(t, widgets, "default", foo(widgets, "web-"+round, nil))
		victim(t2, "of-widget-"+round, widget)
		bar := t2.makes(t, bars, "", foo(bars, "web-"+round, nil))
		victim(t2, "of-bar-"+round, bar)
		private := system.makes(t, privates, "default", foo(privates, "web-"+round, nil))
		victim(system, "of-private-"+round, private)
		// A custom resource that is owned.
		dependent := foo(widgets, "dependent-"+round, nil)
		dependent.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: group + "/v1", Kind: "Bar",
			Name: bar.GetName(), UID: bar.GetUID()}})
		t2.makes(t, widgets, "default", dependent)

		// The same of owners that go, in all ways, and of owners that never were.
		foreground := metav1.DeletePropagationForeground
		for _, o := range []struct {
			s     *space
			gvr   schema.GroupVersionResource
			where string
			kind  string
		}{{t2, widgets, "default", "Widget"}, {t2, bars, "", "Bar"}, {system, privates, "default", "Private"},
			{t1, fake, "default", "Widget"}} {
			name := o.gvr.Resource + "-" + round
			for _, policy := range []*metav1.DeletionPropagation{nil, &foreground} {
				goes := name + "-back"
				if policy != nil {
					goes = name + "-fore"
				}
				object := foo(o.gvr, goes, nil)
				object.SetKind(o.kind)
				o.s.owned(t, "of-"+goes, o.s.makes(t, o.gvr, o.where, object))
				if err := o.s.in(o.gvr, o.where).
					Delete(ctx, goes, metav1.DeleteOptions{PropagationPolicy: policy}); err != nil {
					t.Fatal(err)
				}
				o.s.collected(t, "of-"+goes)
				eventually(t, goes+" to go", func(ctx context.Context) (bool, error) {
					_, err := o.s.in(o.gvr, o.where).Get(ctx, goes, metav1.GetOptions{})
					return apierrors.IsNotFound(err), nil
				})
			}
			o.s.owned(t, "of-no-"+name, nobody(o.gvr, o.kind))
			o.s.collected(t, "of-no-"+name)
		}
		for name, s := range victims {
			if _, err := s.client.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{}); err != nil {
				t.Errorf("%s of %s in round %s: %v", name, s.name, round, err)
			}
		}
		if _, err := t2.in(widgets, "default").Get(ctx, "dependent-"+round, metav1.GetOptions{}); err != nil {
			t.Errorf("the dependent custom resource in round %s: %v", round, err)
		}
	}
	round("first")
	// What collided goes, comes back, and is something else.
	for _, name := range []string{"zwidgets", "widgets"} {
		if err := t1.definitions(t).Delete(ctx, name+"."+group, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the definitions of t1 to go", func(ctx context.Context) (bool, error) {
		list, err := t1.definitions(t).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 4, err
	})
	fake = t1.define(t, definition(group, named("awidgets", "Widget")))
	t1.define(t, definition(group, named("widgets", "Bar2"), clusterWide))
	round("second")

	// Its quotas count, and its namespaces are emptied.
	t2.namespace(t, "emptied", nil)
	counted := corev1.ResourceName("count/widgets." + group)
	if _, err := t2.client.CoreV1().ResourceQuotas("emptied").Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: quantity("5")}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Admission counts what is made once it knows of the quota, the controller what
	// is deleted.
	used := func(ctx context.Context) (string, error) {
		q, err := t2.client.CoreV1().ResourceQuotas("emptied").Get(ctx, "few", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		n, ok := q.Status.Used[counted]
		if !ok {
			return "", nil
		}
		return n.String(), nil
	}
	t2.makes(t, widgets, "emptied", foo(widgets, "kept", nil))
	eventually(t, "admission to count", func(ctx context.Context) (bool, error) {
		before, err := used(ctx)
		if err != nil || before == "" {
			return false, err
		}
		t2.makes(t, widgets, "emptied", foo(widgets, "one", nil))
		after, err := used(ctx)
		if err != nil || after != before {
			return err == nil, err
		}
		return false, t2.in(widgets, "emptied").Delete(ctx, "one", metav1.DeleteOptions{})
	})
	if err := t2.in(widgets, "emptied").Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the controller to count", func(ctx context.Context) (bool, error) {
		now, err := used(ctx)
		return now == "1", err
	})
	if err := t2.client.CoreV1().Namespaces().Delete(ctx, "emptied", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to go", func(ctx context.Context) (bool, error) {
		_, err := t2.client.CoreV1().Namespaces().Get(ctx, "emptied", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if left := p.keys(t, "/registry/"+group+"/widgets/t2/emptied/"); len(left) > 0 {
		t.Errorf("left in etcd: %v", left)
	}
	// Controllers are not told that a thing is not there which the space does not
	// define, and learn nothing about it by other names.
	controller := p.user(t, "system:serviceaccount:kube-system:generic-garbage-collector", nil, nil)
	for path, want := range map[string]int{
		"/namespaces/default.t2/widgets/web-first":         http.StatusOK,
		"/namespaces/default.t2/__widget/web-first":        http.StatusOK,
		"/namespaces/default.t2/__widget/none":             http.StatusNotFound,
		"/namespaces/default.t2/__bar/web-first.t2.tenant": http.StatusOK,
		"/namespaces/default.t2/__bar/none.t2.tenant":      http.StatusNotFound,
		"/namespaces/default.t2/__bar/web-first.t1.tenant": http.StatusServiceUnavailable,
		"/namespaces/default.t2/__bar/web-first":           http.StatusServiceUnavailable,
		"/bars~cluster/web-first.t2.tenant":                http.StatusOK,
		"/bars~cluster/none.t2.tenant":                     http.StatusNotFound,
		"/bars/web-first.t2.tenant":                        http.StatusServiceUnavailable,
		"/namespaces/default.t2/zwidgets/web-first":        http.StatusServiceUnavailable,
		"/namespaces/default.t2/awidgets/web-first":        http.StatusServiceUnavailable,
		"/namespaces/default.t1/widgets/web-first":         http.StatusServiceUnavailable,
		"/namespaces/default.t2/__evil/web-first":          http.StatusServiceUnavailable,
		"/namespaces/default.t2/__private/web-first":       http.StatusServiceUnavailable,
		"/namespaces/default/__private/web-first":          http.StatusOK,
		"/namespaces/default/__private/none":               http.StatusNotFound,
		"/namespaces/default/__widget/web-first":           http.StatusServiceUnavailable,
		"/namespaces/default.t2/zwidgets":                  http.StatusNotFound,
		"/widgets":                                         http.StatusOK,
		"/widgets~cluster":                                 http.StatusOK,
	} {
		accept := "Accept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
		if strings.Count(path, "/")%2 == 1 {
			accept = "Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
		}
		if code, answer := do(t, controller, http.MethodGet, "/apis/"+group+"/v1"+path, "",
			[]string{accept}); code != want {
			t.Errorf("%s: %d, want %d: %.300s", path, code, want, answer)
		}
	}
}

// TestWallV3BuiltInGroups: a tenant defines nothing in a group that the API has
// itself, and nothing that it defines is in the way of anybody's clients.
func TestWallV3BuiltInGroups(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	ctx := t.Context()
	t1, t2, system := p.tenant(t, "t1"), p.tenant(t, "t2"), p.as(t, "system", p.Admin)
	system.define(t, definition("shared.io"))
	client, err := discovery.NewDiscoveryClientForConfig(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	shown := func() (string, []*restmapper.APIGroupResources) {
		t.Helper()
		groups, err := restmapper.GetAPIGroupResources(client)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, g := range groups {
			for _, v := range g.Group.Versions {
				for _, r := range g.VersionedResources[v.Version] {
					fmt.Fprintln(&out, g.Group.PreferredVersion, v.Version, r.Name, r.Kind, r.Namespaced)
				}
			}
		}
		return out.String(), groups
	}
	eventually(t, "the system's own definition to be shown", func(context.Context) (bool, error) {
		all, _ := shown()
		return strings.Contains(all, "shared.io/v1"), nil
	})
	before, _ := shown()
	for _, c := range []struct{ plural, kind, group string }{
		{"zclusterroles", "ClusterRole", "rbac.authorization.k8s.io"},
		{"znetworkpolicies", "NetworkPolicy", "networking.k8s.io"},
		{"foos", "Foo", "metrics.k8s.io"},
		{"foos", "Foo", "apiextensions.k8s.io"},
		{"foos", "Foo", "apiregistration.k8s.io"},
		{"foos", "Foo", "policy"},
		{"deployments", "Deployment", "apps"},
	} {
		_, err := t1.definitions(t).Create(ctx, definition(c.group, named(c.plural, c.kind), approved),
			metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.group") {
			t.Errorf("%s in %s: %v", c.plural, c.group, err)
		}
	}
	// Groups that only sound like those are what charts bring along.
	t2.define(t, definition("gateway.networking.k8s.io", named("httproutes", "HTTPRoute"), approved))
	t1.define(t, definition("gateway.networking.k8s.io", named("zhttproutes", "HTTPRoute"), approved, clusterWide))
	t1.define(t, definition("shared.io", named("zfoos", "Foo"), clusterWide))
	t1.define(t, definition("shared.io", named("foos", "Evil"), clusterWide,
		func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Name = "v99" }))
	t1.define(t, definition("evil.io", named("pods", "Pod")))
	controller, err := discovery.NewDiscoveryClientForConfig(p.user(t, "system:kube-controller-manager", nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the definitions to be shown to controllers", func(context.Context) (bool, error) {
		list, err := controller.ServerResourcesForGroupVersion("shared.io/v99")
		return err == nil && len(list.APIResources) > 0, nil
	})
	after, groups := shown()
	if after != before {
		t.Errorf("the administrator of the cluster sees what tenants define: %s, before %s", after, before)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for kind, resource := range map[string]string{"ClusterRole.rbac.authorization.k8s.io": "clusterroles",
		"NetworkPolicy.networking.k8s.io": "networkpolicies", "Foo.shared.io": "foos"} {
		gk := schema.ParseGroupKind(kind)
		if m, err := mapper.RESTMapping(gk, "v1"); err != nil || m.Resource.Resource != resource {
			t.Errorf("%s is %v, %v", kind, m, err)
		}
	}
	if code, answer := get(t, p.Admin, "/readyz"); code != http.StatusOK {
		t.Errorf("ready: %d %s", code, answer)
	}
	routes := corev1.ResourceName("count/httproutes.gateway.networking.k8s.io")
	if _, err := t2.client.CoreV1().ResourceQuotas("default").Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": quantity("5"),
			routes: quantity("5")}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	changes := 0
	eventually(t, "the quota of another tenant to be counted", func(ctx context.Context) (bool, error) {
		q, err := t2.client.CoreV1().ResourceQuotas("default").Get(ctx, "few", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		_, maps := q.Status.Used["count/configmaps"]
		_, custom := q.Status.Used[routes]
		if !custom {
			changes++
			change := fmt.Sprintf(`{"spec":{"hard":{"count/secrets":"%d"}}}`, 100+changes)
			_, err = t2.client.CoreV1().ResourceQuotas("default").Patch(ctx, "few", types.MergePatchType,
				[]byte(change), metav1.PatchOptions{})
		}
		return maps && custom, err
	})
}

// TestWallDefinitionsAreBounded: a tenant has no more CRDs, and no larger
// ones, than a server can hold.
func TestWallDefinitionsAreBounded(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	ctx := t.Context()
	t1, t2 := p.tenant(t, "t1"), p.tenant(t, "t2")
	fields := func(n, text int) func(*apiextensionsv1.CustomResourceDefinition) {
		properties := map[string]apiextensionsv1.JSONSchemaProps{}
		for i := range n {
			group := fmt.Sprint("g", i/5000) // a body has at most 10,000 members in one object
			if i%5000 == 0 {
				properties[group] = apiextensionsv1.JSONSchemaProps{Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
			}
			properties[group].Properties[fmt.Sprint("f", i)] = apiextensionsv1.JSONSchemaProps{Type: "string",
				Description: strings.Repeat("x", text)}
		}
		return specified(properties)
	}
	for name, crd := range map[string]*apiextensionsv1.CustomResourceDefinition{
		"40000 fields":  definition("a.io", fields(40_001, 0)),
		"2097152 bytes": definition("a.io", fields(200, 11_000)),
	} {
		if _, err := t1.definitions(t).Create(ctx, crd, metav1.CreateOptions{}); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("more than %s: %.300v", name, err)
		}
	}
	// About what the largest known operators bring along.
	t1.define(t, definition("large.io", fields(4000, 180)))
	definitions := t1.definitions(t)
	var allowed int
	var mu sync.Mutex
	create := func(name string) (refused bool) {
		_, err := definitions.Create(ctx, definition(name), metav1.CreateOptions{})
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			allowed++
		case apierrors.IsInvalid(err) && strings.Contains(err.Error(), "can have 200 CRDs"),
			// Those that are being made count for it, also if they are refused then.
			apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded limit of the tenant: definitions"):
			return true
		default:
			t.Error(err)
		}
		return false
	}
	var running sync.WaitGroup
	for worker := range 10 {
		running.Go(func() {
			for i := range 22 {
				create(fmt.Sprintf("g%d-%d.io", worker, i))
			}
		})
	}
	running.Wait()
	for i := range 20 {
		if create(fmt.Sprintf("then%d.io", i)) {
			break
		}
	}
	if allowed != 199 {
		t.Errorf("%d definitions were allowed beside the first, want 199", allowed)
	}
	t2.define(t, definition("another.io"))
	if err := definitions.Delete(ctx, "foos.large.io", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another to be allowed", func(ctx context.Context) (bool, error) {
		_, err := definitions.Create(ctx, definition("last.io"), metav1.CreateOptions{})
		return err == nil, nil
	})
	if _, err := definitions.Create(ctx, definition("more.io"), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("one more than 200: %v", err)
	}
	p.bounded(t, "t1", `{"definitions":201}`)
	t1.define(t, definition("more.io"))
	if _, err := definitions.Create(ctx, definition("most.io"), metav1.CreateOptions{}); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "can have 201 CRDs") {
		t.Errorf("one more than the limit of the tenant: %v", err)
	}
}
