package admission

import (
	"context"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/authentication/user"
	core "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // so that pods can be encoded

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

var (
	kind     = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	resource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

func projector(tenant string) *wire.Projector {
	table := kinds.New()
	return &wire.Projector{Table: wire.NewTable(), View: &wire.View{
		Tenant: tenant,
		ClusterScoped: func(group, kind string) bool {
			k, ok := table.Kind(group, kind)
			return ok && !k.Namespaced && k.Class == kinds.Tenant
		},
		SharedClusterRole: kinds.SharedClusterRole,
	}}
}

func pod() *core.Pod {
	return &core.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default.t1", UID: "1",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "PersistentVolume",
				Name: "pv.t1.tenant", UID: "2"}},
		},
		Spec: core.PodSpec{Containers: []core.Container{{Name: "c", Image: "i"}}},
	}
}

func native1(t *testing.T, obj *core.Pod) *attributes {
	t.Helper()
	who := &user.DefaultInfo{Name: "admin", Extra: map[string][]string{space.Extra: {"t1"}}}
	attr := admission.NewAttributesRecord(obj, nil, kind, "default.t1", "web", resource, "", admission.Create,
		&metav1.CreateOptions{}, false, who)
	n, err := newAttributes(projector("t1"), kinds.New(), attr)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAttributes(t *testing.T) {
	composite := pod()
	n := native1(t, composite)
	if n.GetNamespace() != "default" || n.GetName() != "web" || len(n.GetUserInfo().GetExtra()) != 0 {
		t.Errorf("request: %s/%s by %+v", n.GetNamespace(), n.GetName(), n.GetUserInfo())
	}
	seen := n.GetObject().(*core.Pod)
	if seen.Namespace != "default" || seen.OwnerReferences[0].Name != "pv" || seen.GetSelfLink() != "" {
		t.Errorf("object: %+v", seen.ObjectMeta)
	}
	// Nothing changed: the object of the request is not touched.
	if err := n.writeBack(); err != nil || composite.Namespace != "default.t1" {
		t.Fatalf("without a change: %v, %+v", err, composite.ObjectMeta)
	}
	seen.Labels = map[string]string{"a": "b"}
	seen.Spec.Containers[0].Image = "other"
	seen.OwnerReferences = append(seen.OwnerReferences,
		metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "default", UID: "3"})
	if err := n.writeBack(); err != nil {
		t.Fatal(err)
	}
	if composite.Namespace != "default.t1" || composite.Labels["a"] != "b" ||
		composite.Spec.Containers[0].Image != "other" ||
		composite.OwnerReferences[0].Name != "pv.t1.tenant" || composite.OwnerReferences[1].Name != "default.t1" ||
		composite.UID != "1" {
		t.Errorf("written back: %+v %+v", composite.ObjectMeta, composite.Spec)
	}
}

// TestDefinitionAttributes: CRDs have a scheme of their own.
func TestDefinitionAttributes(t *testing.T) {
	crd := &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "foos.example.com.t1.tenant"},
		Spec: apiextensions.CustomResourceDefinitionSpec{Group: "example.com",
			Names: apiextensions.CustomResourceDefinitionNames{Plural: "foos", Kind: "Foo"}},
	}
	gvk := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	attr := admission.NewAttributesRecord(crd, nil, gvk, "", crd.Name,
		gvk.GroupVersion().WithResource("customresourcedefinitions"), "", admission.Create, nil, false, nil)
	n, err := newAttributes(projector("t1"), kinds.New(), attr)
	if err != nil {
		t.Fatal(err)
	}
	seen := n.GetObject().(*apiextensions.CustomResourceDefinition)
	if seen.Name != "foos.example.com" || n.GetName() != "foos.example.com" {
		t.Errorf("%s, object %s", n.GetName(), seen.Name)
	}
	seen.Labels = map[string]string{"a": "b"}
	if err := n.writeBack(); err != nil || crd.Name != "foos.example.com.t1.tenant" || crd.Labels["a"] != "b" {
		t.Errorf("written back: %+v, %v", crd.ObjectMeta, err)
	}
}

// TestIntegersOfCustomResources: what a webhook may have changed has the types
// that the schema of a custom resource is checked with.
func TestIntegersOfCustomResources(t *testing.T) {
	foo := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Foo", "metadata": map[string]any{"name": "one",
			"namespace": "default.t1"}, "spec": map[string]any{"size": int64(1)}},
	}
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Foo"}
	attr := admission.NewAttributesRecord(foo, nil, gvk, "default.t1", "one", gvk.GroupVersion().WithResource("foos"),
		"", admission.Create, nil, false, nil)
	n, err := newAttributes(projector("t1"), kinds.New(), attr)
	if err != nil {
		t.Fatal(err)
	}
	n.GetObject().(*unstructured.Unstructured).SetLabels(map[string]string{"a": "b"})
	if err := n.writeBack(); err != nil {
		t.Fatal(err)
	}
	if size, found, err := unstructured.NestedInt64(foo.Object, "spec", "size"); size != 1 || !found || err != nil ||
		foo.GetLabels()["a"] != "b" || foo.GetNamespace() != "default.t1" {
		t.Errorf("written back: %v, %v", foo.Object, err)
	}
}

// TestForeignObject: an object that names another tenant is not shown.
func TestForeignObject(t *testing.T) {
	obj := pod()
	obj.OwnerReferences[0].Name = "pv.t2.tenant"
	attr := admission.NewAttributesRecord(obj, nil, kind, "default.t1", "web", resource, "",
		admission.Create, nil, false, nil)
	if n, err := newAttributes(projector("t1"), kinds.New(), attr); err == nil {
		t.Errorf("shown: %+v", n.GetObject())
	}
}

func TestTenantOf(t *testing.T) {
	a := &Admission{kinds: kinds.New()}
	namespaces, volumes := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
		schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}
	for _, c := range []struct {
		what            string
		resource        schema.GroupVersionResource
		namespace, name string
		addressed, want string
	}{
		{"a pod", resource, "default.t1", "web", "", "t1"},
		{"a pod of the system that a tenant is about to ask for", resource, "default", "web", "t1", space.System},
		{"a namespace", namespaces, "team.t1", "team.t1", "", "t1"},
		{"a namespace of the system", namespaces, "team", "team", "", space.System},
		{"a volume", volumes, "", "pv.t1.tenant", "", "t1"},
		{"a volume of the system", volumes, "", "pv", "t1", space.System},
		{"all volumes of a space", volumes, "", "", "t1", "t1"},
		{"all volumes", volumes, "", "", "", space.System},
	} {
		ctx := context.Background()
		if c.addressed != "" {
			ctx = space.WithTenant(ctx, c.addressed)
		}
		attr := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, c.namespace, c.name, c.resource, "",
			admission.Delete, nil, false, nil)
		if got := a.tenantOf(ctx, attr); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestPresence: only tenants that have configurations have plugins.
func TestPresence(t *testing.T) {
	p := newPresence()
	var gone []string
	p.gone = func(tenant string) { gone = append(gone, tenant) }
	object := func(name string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	hooks := mutatingwebhook.PluginName
	p.count(object("x.t1.tenant"), hooks, 1)
	p.count(object("y.t1.tenant"), "other", 1)
	p.count(object("x.t2.tenant"), hooks, 1)
	p.count(object("x"), hooks, 1)
	if !p.has("t1", hooks) || p.has("t2", "other") || p.has("t3", hooks) || p.has(space.System, hooks) {
		t.Errorf("known: %v", p.counts)
	}
	p.count(object("x.t1.tenant"), hooks, -1)
	if p.has("t1", hooks) || len(gone) > 0 {
		t.Errorf("known: %v, gone: %v", p.counts, gone)
	}
	p.count(object("y.t1.tenant"), "other", -1)
	if len(gone) != 1 || gone[0] != "t1" || len(p.counts) != 1 {
		t.Errorf("known: %v, gone: %v", p.counts, gone)
	}
}
