package spaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/rewrite"
)

const (
	sharingPolicy = "arktos.futurewei.com/crd-sharing-policy"
	rangeNames    = "a4s.io/crd-tenants"
	rangeSelector = "a4s.io/crd-tenant-selector"
)

// TestSharedDefinitions changes what a CRD of the system says about its
// range, and what tenants want, while objects and watches are there.
func TestSharedDefinitions(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	system := p.as(t, "system", p.Admin)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, p *plane, system, a, b *space, group string)
	}{
		{"range", testRange},
		{"policy", testPolicy},
		{"recall", testRecall},
		{"words", testSharingWords},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, p, system, a, b, c.name+".example.com") })
	}
}

// share says with whom a CRD is shared; nil takes an annotation away.
func (s *space) share(t *testing.T, name string, annotations map[string]any) error {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.definitions(t).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// served waits until a tenant is served a resource, or is not.
func (s *space) served(t *testing.T, gvr schema.GroupVersionResource, want bool) {
	t.Helper()
	begin := time.Now()
	eventually(t, "what serves "+s.name+" to change", func(ctx context.Context) (bool, error) {
		_, err := s.in(gvr, "default").List(ctx, metav1.ListOptions{})
		return err == nil == want && (want || apierrors.IsNotFound(err)), nil
	})
	t.Logf("%s is served %s: %t after %s", s.name, gvr.Resource, want, time.Since(begin).Round(time.Millisecond))
}

// expires waits until a watch ends as one does that has to be begun anew with a
// list.
func expires(t *testing.T, w watch.Interface) {
	t.Helper()
	end := time.After(deadline)
	for {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				t.Error("a watch has ended without a word")
				return
			}
			if event.Type != watch.Error {
				continue
			}
			if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) {
				t.Errorf("a watch ended with %v", err)
			}
			return
		case <-end:
			t.Error("a watch goes on")
			return
		}
	}
}

// testRange: nobody, one by name, another by label, and back; what a tenant made
// meanwhile is there whenever it is served again.
func testRange(t *testing.T, p *plane, system, a, b *space, group string) {
	ctx := t.Context()
	gvr := system.define(t, definition(group))
	name := gvr.GroupResource().String()
	a.served(t, gvr, false)
	if err := system.share(t, name, map[string]any{sharingPolicy: "optional", rangeNames: "a"}); err != nil {
		t.Fatal(err)
	}
	a.served(t, gvr, true)
	b.served(t, gvr, false)
	a.makes(t, gvr, "default", foo(gvr, "kept", map[string]any{"of": "a"}))
	whole, err := a.in(gvr, "").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Stop()
	meta, err := metadata.NewForConfig(a.config)
	if err != nil {
		t.Fatal(err)
	}
	heads, err := meta.Resource(gvr).Namespace("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer heads.Stop()

	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rewrite.Object(ctx, tenants, "b", func(tenant *tenantapi.Tenant) {
		tenant.Labels = map[string]string{"tier": "gold"}
	}); err != nil {
		t.Fatal(err)
	}
	if err := system.share(t, name,
		map[string]any{rangeNames: nil, rangeSelector: "tier in (gold, silver)"}); err != nil {
		t.Fatal(err)
	}
	expires(t, whole)
	expires(t, heads)
	a.served(t, gvr, false)
	b.served(t, gvr, true)
	if key := "/registry/" + group + "/foos/a/default/kept"; !slices.Contains(p.keys(t, "/"+group+"/"), key) {
		t.Errorf("%s is lost: %v", key, p.keys(t, "/"+group+"/"))
	}
	if err := system.share(t, name, map[string]any{rangeSelector: nil}); err != nil {
		t.Fatal(err)
	}
	a.served(t, gvr, true)
	if kept, err := a.in(gvr, "default").Get(ctx, "kept", metav1.GetOptions{}); err != nil ||
		field(kept, "spec", "of") != "a" {
		t.Errorf("what was made before: %v, %v", kept, err)
	}
}

// testPolicy: the policy of a tenant decides between its own CRD and
// that of the system, at any time, and the objects are the same.
func testPolicy(t *testing.T, p *plane, system, a, b *space, group string) {
	ctx := t.Context()
	with := func(name string) func(*apiextensionsv1.CustomResourceDefinition) {
		return specified(map[string]apiextensionsv1.JSONSchemaProps{name: {Type: "string"}, "both": {Type: "string"}})
	}
	// They have no version in common.
	own := a.define(t, definition(group, with("own"), func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Name = "v1beta1"
	}))
	a.makes(t, own, "default", foo(own, "old", map[string]any{"own": "yes", "both": "yes"}))
	shared := system.define(t, definition(group, with("shared"), func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Annotations = map[string]string{sharingPolicy: "optional"}
	}))
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	wants := func(policy string, now, not schema.GroupVersionResource) {
		t.Helper()
		if _, err := tenants.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"crdPolicy":"`+policy+`"}}`),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		a.served(t, now, true)
		a.served(t, not, false)
		old, err := a.in(now, "default").Get(ctx, "old", metav1.GetOptions{})
		if err != nil || field(old, "spec", "both") != "yes" || old.GetAPIVersion() != now.GroupVersion().String() {
			t.Errorf("%s: %v, %v", policy, old, err)
		}
	}
	b.served(t, shared, true)
	wants("LocalCRDFirst", own, shared)
	w, err := a.in(own, "").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	wants("SystemCRDFirst", shared, own)
	expires(t, w)
	a.makes(t, shared, "default", foo(shared, "new", map[string]any{"shared": "yes", "both": "yes"}))
	// The own CRD does not serve: what goes with it is nothing.
	if err := a.definitions(t).Delete(ctx, own.GroupResource().String(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the own definition to be gone", func(context.Context) (bool, error) {
		return len(p.keys(t, "customresourcedefinitions/a/"+own.GroupResource().String())) == 0, nil
	})
	list, err := a.in(shared, "default").List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("after the own definition: %v, %v", list, err)
	}
	if _, err := tenants.Patch(ctx, "a", types.MergePatchType,
		[]byte(`{"spec":{"crdPolicy":"NeverUseSystemCRDUnlessForced"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	a.served(t, shared, false)
	a.define(t, definition(group, with("own"), func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Name = "v1beta1"
	}))
	for name, want := range map[string]string{"old": "yes", "new": "<none>"} {
		if old, err := a.in(own, "default").Get(ctx, name, metav1.GetOptions{}); err != nil ||
			field(old, "spec", "own") != want {
			t.Errorf("%s: %v, %v", name, old, err)
		}
	}
	wants("LocalCRDFirst", own, shared)
	// The system sees all of it.
	var all *unstructured.UnstructuredList
	if all, err = system.in(shared, "").List(ctx, metav1.ListOptions{}); err != nil || len(all.Items) != 2 {
		t.Errorf("seen by the system: %v, %v", all, err)
	}
}

// testRecall: the system takes a CRD back that tenants use. What they
// have is theirs, and is there with the next CRD.
func testRecall(t *testing.T, p *plane, system, a, _ *space, group string) {
	ctx := t.Context()
	c := p.tenant(t, "c")
	optional := func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Annotations = map[string]string{sharingPolicy: "optional"}
	}
	gvr := system.define(t, definition(group, optional))
	a.served(t, gvr, true)
	for _, s := range []*space{a, c, system} {
		s.makes(t, gvr, "default", foo(gvr, "one", map[string]any{"of": s.name}))
	}
	w, err := a.in(gvr, "default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := system.definitions(t).Delete(ctx, gvr.GroupResource().String(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expires(t, w)
	a.served(t, gvr, false)
	kept := []string{"/registry/" + group + "/foos/a/default/one", "/registry/" + group + "/foos/c/default/one"}
	var left []string
	defer func() {
		if t.Failed() {
			t.Logf("left: %v", left)
		}
	}()
	eventually(t, "what tenants have to be left alone", func(context.Context) (bool, error) {
		left = p.keys(t, "/"+group+"/")
		return slices.Equal(left, kept), nil
	})
	// Nobody can ask for what c has, and it goes with c.
	testDeletion(t, p, c)
	a.define(t, definition(group))
	if one, err := a.in(gvr, "default").Get(ctx, "one", metav1.GetOptions{}); err != nil ||
		field(one, "spec", "of") != "a" {
		t.Errorf("after it was defined again: %v, %v", one, err)
	}
}

// testSharingWords: what a CRD of the system says is understood or
// refused, and in a tenant it means nothing.
func testSharingWords(t *testing.T, _ *plane, system, a, b *space, group string) {
	gvr := system.define(t, definition(group))
	for _, wrong := range []map[string]any{
		{sharingPolicy: "always"},
		{rangeNames: "a"},
		{sharingPolicy: "optional", rangeSelector: "in ("},
		{sharingPolicy: "optional", rangeNames: "a,B"},
	} {
		if err := system.share(t, gvr.GroupResource().String(), wrong); !apierrors.IsInvalid(err) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	other := definition("own."+group, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Annotations = map[string]string{sharingPolicy: "forced"}
	})
	of := a.define(t, other)
	b.wants(t, http.StatusNotFound, http.MethodGet, "/apis/"+of.Group+"/v1/namespaces/default/foos", "")
}
