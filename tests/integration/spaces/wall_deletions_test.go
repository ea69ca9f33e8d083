package spaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/rewrite"
)

// thingsOf are the objects of convertedBy in one version.
func thingsOf(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "things"}
}

// storeAs changes the version in which things are stored, and waits until the server does so:
// it learns of a CRD that changed by a watch, after it has answered the change.
func storeAs(t *testing.T, s *space, version string) {
	t.Helper()
	schema := `"schema":{"openAPIV3Schema":{"type":"object"}}`
	body := fmt.Sprintf(`{"spec":{"versions":[{"name":"v1","served":true,"storage":%t,%s},`+
		`{"name":"v2","served":true,"storage":%t,%s}]}}`, version == "v1", schema, version == "v2", schema)
	if code, text := do(t, s.config, http.MethodPatch, conversions+"/things.example.com", body,
		[]string{"Content-Type: application/merge-patch+json"}); code != http.StatusOK {
		t.Fatalf("storing as %s: %d %s", version, code, text)
	}
	object, err := json.Marshal(foo(thingsOf(version), "asks", nil))
	if err != nil {
		t.Fatal(err)
	}
	path := "/apis/example.com/" + version + "/namespaces/default/things?dryRun=All&timeout=1s"
	eventually(t, "things stored as "+version, func(context.Context) (bool, error) {
		// As it is stored, it needs no conversion. Until then nothing answers it, and the server cuts off what is
		// answered in the moment in which its time is over.
		code, _, err := try(t, s.config, http.MethodPost, path, string(object), nil)
		return err == nil && code == http.StatusCreated, nil
	})
}

// silent is an address outside of the cluster that takes connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener := listenOutside(t, "", 0)
	t.Cleanup(func() { listener.Close() }) //nolint:errcheck // it is only to be there
	return "https://" + listener.Addr().String()
}

// emptyCondition is what the deletion of a tenant waits for.
func emptyCondition(ctx context.Context, tenants *tenantapi.Client, name string) (string, error) {
	t, err := tenants.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	c := meta.FindStatusCondition(t.Status.Conditions, tenantapi.SpaceEmpty)
	if c == nil {
		return "", nil
	}
	return c.Message, nil
}

// leaves waits until a deleted tenant is gone, with all its keys.
func (p *plane) leaves(t *testing.T, tenants *tenantapi.Client, name string) {
	t.Helper()
	last := ""
	err := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			message, err := emptyCondition(ctx, tenants, name)
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err == nil:
				last = message
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	}()
	if err != nil {
		t.Fatalf("the tenant %s is not gone: %s", name, last)
	}
	if left := p.keysOf(t, name); len(left) > 0 {
		t.Errorf("left in etcd of %s: %v", name, left)
	}
}

// TestWallW10DeadConversion: custom resources that a conversion webhook of their tenant
// keeps from being read do not keep the tenant.
func TestWallW10DeadConversion(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	dead, held, unstored := p.tenant(t, "dead"), p.tenant(t, "held"), p.tenant(t, "unstored")
	url := silent(t)
	ca, err := os.ReadFile(p.Files.ServerCA.Cert)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*space{dead, held, unstored} {
		if _, err := s.client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "more"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		convertedBy(t, s, url, ca)
	}
	thing := func(s *space, version, namespace, name string, finalizers ...string) {
		t.Helper()
		object := foo(thingsOf(version), name, nil)
		object.SetFinalizers(finalizers)
		s.makes(t, thingsOf(version), namespace, object)
	}
	// More than the datastore is read for at once, all of an old version.
	for i := range 520 {
		thing(dead, "v1", "default", fmt.Sprintf("old-%d", i))
	}
	thing(dead, "v1", "more", "one")
	thing(dead, "v1", "more", "held", "example.com/hold")
	thing(held, "v1", "default", "old", "example.com/hold")
	storeAs(t, dead, "v2")
	storeAs(t, held, "v2")
	thing(held, "v2", "default", "new", "example.com/hold")
	// Stored as it is asked for; the version that clients prefer is another one.
	thing(unstored, "v1", "default", "one")
	thing(unstored, "v1", "more", "held", "example.com/hold")
	if code, _ := get(t, dead.config, "/apis/example.com/v2/namespaces/more/things/one"); code < 500 {
		t.Fatalf("an object whose webhook does not answer is read: %d", code)
	}

	for _, s := range []*space{dead, held, unstored} {
		if err := tenants.Delete(ctx, s.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	says := func(s *space, what string) {
		t.Helper()
		eventually(t, "a report of "+what, func(ctx context.Context) (bool, error) {
			message, err := emptyCondition(ctx, tenants, s.name)
			return strings.Contains(message, what), err
		})
	}
	release := func(s *space, version, namespace, name string) {
		t.Helper()
		if _, err := p.as(t, "system", p.Admin).in(thingsOf(version), namespace+"."+s.name).Patch(ctx, name,
			types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	says(unstored, "things.example.com more/held is held by example.com/hold")
	release(unstored, "v1", "more", "held")
	p.leaves(t, tenants, unstored.name)
	p.leaves(t, tenants, dead.name)
	// What can be read is not dropped with what cannot.
	says(held, "things.example.com default/new is held by example.com/hold")
	eventually(t, "what cannot be read to be gone", func(ctx context.Context) (bool, error) {
		return !slices.ContainsFunc(p.keysOf(t, held.name), func(key string) bool {
			return strings.HasSuffix(key, "/things/held/default/old")
		}), nil
	})
	release(held, "v2", "default", "new")
	p.leaves(t, tenants, held.name)
}

// TestOperatorsFinalize: what the operators of a deleted tenant have to finalize goes
// first, and they have what they need for it.
func TestOperatorsFinalize(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	s := p.tenant(t, "operated")
	boats := s.define(t, definition("harbour.example.com", named("boats", "Boat")))
	boat := foo(boats, "one", nil)
	boat.SetFinalizers([]string{"harbour.example.com/keep"})
	if _, err := s.in(boats, "default").Create(ctx, boat, metav1.CreateOptions{FieldManager: "harbour"}); err != nil {
		t.Fatal(err)
	}
	cm := configMap("managed")
	cm.Finalizers = []string{"harbour.example.com/keep"}
	if _, err := s.client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.CoreV1().ConfigMaps("default").Create(ctx, configMap("used"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: "default"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// As if a kubelet ran it.
	if _, err := p.admin.CoreV1().Pods("default.operated").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Its webhooks refuse whatever they are asked.
	h := newHooks(t)
	s.validate(t, "refuses", validating("refuses", h.byURL("/nothing"), "*"))
	operator := p.account(t, s, "default", "default", nil)
	if err := tenants.Delete(ctx, s.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{
		"boats.harbour.example.com default/one is held by harbour.example.com/keep (set by harbour)",
		"configmaps default/managed is held by harbour.example.com/keep", "the workloads of the tenant run until",
	} {
		eventually(t, "a report that "+what, func(ctx context.Context) (bool, error) {
			message, err := emptyCondition(ctx, tenants, s.name)
			return strings.Contains(message, what), err
		})
	}
	pod, err := operator.client.CoreV1().Pods("default").Get(ctx, "operator", metav1.GetOptions{})
	if err != nil || pod.DeletionTimestamp != nil {
		t.Errorf("the operator: %v, %v", pod, err)
	}
	if _, err := operator.client.CoreV1().ConfigMaps("default").Get(ctx, "used", metav1.GetOptions{}); err != nil {
		t.Errorf("what the operator uses: %v", err)
	}
	if _, err := operator.client.CoreV1().ConfigMaps("default").Create(ctx, configMap("late"),
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("made while the tenant is deleted: %v", err)
	}
	more := []byte(`{"metadata":{"finalizers":["harbour.example.com/keep","harbour.example.com/more"]}}`)
	if _, err := operator.in(boats, "default").Patch(ctx, "one", types.MergePatchType, more,
		metav1.PatchOptions{}); err == nil {
		t.Error("a finalizer was added to what is being deleted")
	}
	done := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := operator.in(boats, "default").Patch(ctx, "one", types.MergePatchType, done,
		metav1.PatchOptions{}); err != nil {
		t.Errorf("finalizing: %v", err)
	}
	if _, err := operator.client.CoreV1().ConfigMaps("default").Patch(ctx, "managed", types.MergePatchType, done,
		metav1.PatchOptions{}); err != nil {
		t.Errorf("finalizing: %v", err)
	}
	eventually(t, "the operator to be ended", func(ctx context.Context) (bool, error) {
		pod, err := p.admin.CoreV1().Pods("default.operated").Get(ctx, "operator", metav1.GetOptions{})
		return err == nil && pod.DeletionTimestamp != nil, err
	})
	now := int64(0)
	if err := p.admin.CoreV1().Pods("default.operated").Delete(ctx, "operator",
		metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	p.leaves(t, tenants, s.name)
}

// TestForcedDeletion: an administrator who says so has all finalizers dropped, those too
// that a definition was made to keep, and is told of each.
func TestForcedDeletion(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	ctx := t.Context()
	s := p.tenant(t, "forced")
	boats := s.define(t, definition("harbour.example.com", named("boats", "Boat")))
	boat := foo(boats, "one", nil)
	boat.SetFinalizers([]string{"harbour.example.com/keep"})
	s.makes(t, boats, "default", boat)
	cm := configMap("held")
	cm.Finalizers = []string{"harbour.example.com/keep"}
	if _, err := s.client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// From now on no boat is valid.
	if _, err := rewrite.Object(ctx, s.definitions(t), "boats.harbour.example.com",
		func(crd *apiextensionsv1.CustomResourceDefinition) {
			root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
			root.XValidations = append(root.XValidations,
				apiextensionsv1.ValidationRule{Rule: "self.metadata.name == 'none'"})
			root.Required = []string{"never"}
		}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the boat to be refused", func(ctx context.Context) (bool, error) {
		_, err := s.in(boats, "default").Patch(ctx, "one", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"a":"`+time.Now().Format("150405.000")+`"}}}`), metav1.PatchOptions{})
		return apierrors.IsInvalid(err), nil
	})
	admin, err := tenantadmin.New(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	uid, _, err := admin.Delete(ctx, s.name)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	limited, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := admin.WaitGone(limited, s.name, uid, nil,
		tenantadmin.NewDropper(admin, s.name, func(what string) { said = append(said, what) }).Drop); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"dropped the schema of boats.harbour.example.com, which refuses changes",
		`dropped finalizers of boats.harbour.example.com "default/one": "harbour.example.com/keep"`,
		`dropped finalizers of configmaps "default/held": "harbour.example.com/keep"`,
	} {
		if !slices.Contains(said, want) {
			t.Errorf("not said: %s\n%s", want, strings.Join(said, "\n"))
		}
	}
	if left := p.keysOf(t, s.name); len(left) > 0 {
		t.Errorf("left in etcd: %v", left)
	}
}
