package spaces_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// testNothingStays: what a tenant made under a name that the template gets leaves nothing: no field that changes
// what it means, no owner that has it deleted, no finalizer that keeps it.
func (d *templated) testNothingStays(t *testing.T) {
	quotas := d.a.client.CoreV1().ResourceQuotas("apps")
	before, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "bound", Finalizers: []string{"example.com/x"},
			Labels: map[string]string{"a4s.io/tenant-template": "team"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "none",
				UID: "11111111-1111-1111-1111-111111111111"}}},
		Spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}},
	}, metav1.CreateOptions{FieldManager: "a4s-tenant-template"})
	if err != nil {
		t.Fatal(err)
	}
	generation := d.change(t, "team", func(template *tenantapi.TenantTemplate) {
		template.Spec.Objects = append(template.Spec.Objects, object(`{"apiVersion":"v1","kind":"ResourceQuota",`+
			`"metadata":{"name":"bound","namespace":"apps"},"spec":{"hard":{"pods":"7"}}}`))
	})
	d.rolledOut(t, "team", tenantapi.ReasonApplied, generation)
	got, err := quotas.Get(t.Context(), "bound", metav1.GetOptions{})
	if err != nil || got.UID == before.UID || len(got.Spec.Scopes)+len(got.OwnerReferences)+len(got.Finalizers) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	tenant := d.await(t, "a", metav1.ConditionTrue, "TenantTemplate team")
	for _, o := range tenant.Status.Template.Objects {
		if o.UID == "" || o.Name == "bound" && o.UID != got.UID {
			t.Errorf("the status has %+v", o)
		}
	}
}

func (d *templated) testMissing(t *testing.T) {
	config, warned := rest.CopyConfig(d.Admin), &warnings{}
	config.WarningHandler = warned
	tenants, err := tenantapi.NewClient(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tenants.Create(t.Context(), &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "warned"},
		Spec: tenantapi.TenantSpec{Template: "later"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !warned.has("there is no TenantTemplate later") {
		t.Errorf("the warnings are %q", warned.texts)
	}
	if _, err := tenants.Patch(t.Context(), "warned", types.MergePatchType, []byte(`{"spec":{"template":"never"}}`),
		metav1.PatchOptions{}); err != nil || !warned.has("there is no TenantTemplate never") {
		t.Errorf("changed: %v, the warnings are %q", err, warned.texts)
	}
	s := d.from(t, "early", "later")
	d.await(t, "early", metav1.ConditionFalse, "there is no TenantTemplate later")
	if _, err := s.client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("x"),
		metav1.CreateOptions{}); err != nil {
		t.Errorf("its space: %v", err)
	}
	if _, err := d.templates.Create(t.Context(), &tenantapi.TenantTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "later"},
		Spec:       tenantapi.TenantTemplateSpec{Labels: map[string]string{"late": "yes"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := d.await(t, "early", metav1.ConditionTrue, "TenantTemplate later"); got.Labels["late"] != "yes" {
		t.Errorf("%v", got.Labels)
	}
}

func (d *templated) testDefault(t *testing.T) {
	d.change(t, "later", func(template *tenantapi.TenantTemplate) { template.Spec.Default = true })
	if _, err := d.templates.Create(t.Context(), &tenantapi.TenantTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "second"}, Spec: tenantapi.TenantTemplateSpec{Default: true},
	}, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a second default: %v", err)
	}
	if _, err := d.templates.Patch(t.Context(), "second", types.ApplyPatchType, []byte(`{"apiVersion":"v1",`+
		`"kind":"TenantTemplate","metadata":{"name":"second"},"spec":{"default":true}}`),
		metav1.PatchOptions{FieldManager: "test"}); !apierrors.IsConflict(err) {
		t.Errorf("a second default, applied: %v", err)
	}
	for template, want := range map[string]string{"": "later", "team": "team"} {
		got, err := d.tenants.Create(t.Context(), &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{
			Name: "made-" + want}, Spec: tenantapi.TenantSpec{Template: template}}, metav1.CreateOptions{})
		if err != nil || got.Spec.Template != want || !got.Dormant() {
			t.Errorf("%q: %+v, %v", template, got, err)
		}
		if want == "later" && got.Labels["late"] != "yes" {
			t.Errorf("%v", got.Labels)
		}
	}
	for spec, want := range map[string]string{`{}`: "later", `{"template":"team"}`: "team"} {
		body := []byte(`{"apiVersion":"v1","kind":"Tenant","metadata":{"name":"applied-` + want + `"},"spec":` + spec +
			`}`)
		for range 2 { // it is made, and then it is there
			got, err := d.tenants.Patch(t.Context(), "applied-"+want, types.ApplyPatchType, body,
				metav1.PatchOptions{FieldManager: "test", Force: new(true)})
			if err != nil || got.Spec.Template != want || want == "later" && got.Labels["late"] != "yes" {
				t.Errorf("applied with %s: %+v, %v", spec, got, err)
			}
		}
	}
	d.change(t, "later", func(template *tenantapi.TenantTemplate) { template.Spec.Default = false })
}

func (d *templated) testLeaves(t *testing.T) {
	for _, name := range []string{"team", "later"} {
		err := d.templates.Delete(t.Context(), name, metav1.DeleteOptions{})
		if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "--field-selector spec.template="+name) {
			t.Errorf("deleting %s: %v", name, err)
		}
	}
	if _, err := d.tenants.Patch(t.Context(), "b", types.MergePatchType, []byte(`{"spec":{"template":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenant to have nothing of it", func(ctx context.Context) (bool, error) {
		got, err := d.tenants.Get(ctx, "b", metav1.GetOptions{})
		return err == nil && got.Status.Template == nil && got.Labels["example.com/kind"] == "", err
	})
	if _, err := d.b.client.CoreV1().ConfigMaps("default").Get(t.Context(), "more",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an object: %v", err)
	}
	ns, err := d.b.client.CoreV1().Namespaces().Get(t.Context(), "apps", metav1.GetOptions{})
	if err != nil || ns.Labels["example.com/team"] != "" {
		t.Errorf("its namespace: %+v, %v", ns, err)
	}
	eventually(t, "its namespace to be the tenant's", func(ctx context.Context) (bool, error) {
		err := d.b.client.CoreV1().Namespaces().Delete(ctx, "apps", metav1.DeleteOptions{})
		if apierrors.IsForbidden(err) { // the server learns of it a moment later
			return false, nil
		}
		return err == nil, err
	})
}

func (d *templated) testUnseen(t *testing.T) {
	for _, path := range []string{"/api/v1/tenanttemplates", "/api/v1/tenanttemplates/team",
		"/tenants/a/api/v1/tenanttemplates/team"} {
		if code, answer := get(t, d.a.config, path); code != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
	if _, answer := get(t, d.a.config, "/api/v1"); strings.Contains(answer, "tenanttemplates") {
		t.Error("they are in the discovery of a tenant")
	}
}

func (d *templated) testDeleted(t *testing.T) {
	if err := d.tenants.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenant to be gone", func(ctx context.Context) (bool, error) {
		_, err := d.tenants.Get(ctx, "a", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}
