package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// costCentre is a label that the example gives to its objects.
const costCentre = "example.com/cost-centre"

// templated is a control plane with the template of the documentation.
type templated struct {
	*plane
	tenants   *tenantapi.Client
	templates *tenantapi.TemplateClient
	a, b      *space
}

// TestTenantTemplates: tenants get what their template says and keep it, whatever their users do; a change reaches
// one after the other, until one cannot have it.
func TestTenantTemplates(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	d := &templated{plane: start(t, nil)}
	var err error
	if d.tenants, err = tenantapi.NewClient(d.Admin, nil); err != nil {
		t.Fatal(err)
	}
	if d.templates, err = tenantapi.NewTemplateClient(d.Admin, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../docs/examples/tenants/team.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var example tenantapi.TenantTemplate
	if err := yaml.UnmarshalStrict(text, &example); err != nil {
		t.Fatal(err)
	}
	if _, err := d.templates.Create(t.Context(), &example, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.a, d.b = d.from(t, "a", "team"), d.from(t, "b", "team")
	t.Run("tenants get its objects", d.testObjects)
	t.Run("they are there before the first request", d.testFirst)
	t.Run("its limits hold", d.testLimits)
	t.Run("its objects stay", d.testKept)
	t.Run("nothing else is kept", d.testNotKept)
	t.Run("drift is mended", d.testDrift)
	t.Run("a change reaches all, and what falls out goes", d.testChange)
	t.Run("what users made before is replaced", d.testReplaced)
	t.Run("nothing of what users made stays", d.testNothingStays)
	t.Run("a tenant that cannot have it stops it", d.testStopped)
	t.Run("a template that is not there", d.testMissing)
	t.Run("the default", d.testDefault)
	t.Run("a tenant leaves its template", d.testLeaves)
	t.Run("tenants see none", d.testUnseen)
	t.Run("a tenant is deleted", d.testDeleted)
}

// create makes a tenant of a template.
func (d *templated) create(t *testing.T, name, template string) {
	t.Helper()
	if _, err := d.tenants.Create(t.Context(), &tenantapi.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{costCentre: "cc-" + name}},
		Spec:       tenantapi.TenantSpec{Template: template},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// from makes a tenant of a template, and its space.
func (d *templated) from(t *testing.T, name, template string) *space {
	t.Helper()
	d.create(t, name, template)
	user, organizations := planes.AdminOf(name)
	s := d.as(t, name, d.user(t, user, organizations, nil))
	planes.AwaitAccount(t, s.config, "default")
	return s
}

// await waits for what the condition of a tenant says of its template.
func (d *templated) await(
	t *testing.T, tenant string, status metav1.ConditionStatus, message string,
) *tenantapi.Tenant {
	t.Helper()
	var got *tenantapi.Tenant
	defer func() {
		if t.Failed() && got != nil {
			t.Logf("it is %+v", got.Status)
		}
	}()
	eventually(t, fmt.Sprintf("the template of %s to be %s: %s", tenant, status, message),
		func(ctx context.Context) (bool, error) {
			var err error
			if got, err = d.tenants.Get(ctx, tenant, metav1.GetOptions{}); err != nil {
				return false, err
			}
			c := meta.FindStatusCondition(got.Status.Conditions, tenantapi.TemplateApplied)
			return c != nil && c.Status == status && strings.Contains(c.Message, message), nil
		})
	return got
}

// change changes the template, and returns its generation.
func (d *templated) change(t *testing.T, name string, change func(*tenantapi.TenantTemplate)) int64 {
	t.Helper()
	for {
		template, err := d.templates.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(template)
		template, err = d.templates.Update(t.Context(), template, metav1.UpdateOptions{})
		if err == nil {
			return template.Generation
		}
		if !apierrors.IsConflict(err) { // its status changes, too
			t.Fatal(err)
		}
	}
}

// rolledOut waits for what the condition of a template says of both tenants.
func (d *templated) rolledOut(t *testing.T, name, reason string, generation int64) *tenantapi.TenantTemplate {
	t.Helper()
	var got *tenantapi.TenantTemplate
	defer func() {
		if t.Failed() && got != nil {
			t.Logf("it is %+v", got.Status)
		}
	}()
	eventually(t, "the template "+name+" to be "+reason, func(ctx context.Context) (bool, error) {
		var err error
		if got, err = d.templates.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(got.Status.Conditions, tenantapi.RolledOut)
		return c != nil && c.Reason == reason && c.ObservedGeneration == generation && got.Status.Tenants == 2, nil
	})
	return got
}

func object(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }

func (d *templated) testObjects(t *testing.T) {
	for _, s := range []*space{d.a, d.b} {
		got := d.await(t, s.name, metav1.ConditionTrue, "generation 1 of the TenantTemplate team")
		if got.Labels["example.com/kind"] != "team" || len(got.Status.Template.Objects) != 5 {
			t.Errorf("%s: %+v, %+v", s.name, got.Labels, got.Status.Template)
		}
		of, err := s.client.CoreV1().ConfigMaps("apps").Get(t.Context(), "team", metav1.GetOptions{})
		if err != nil || of.Data["name"] != s.name || of.Data["cost-centre"] != "cc-"+s.name {
			t.Errorf("%s: %v, %v", s.name, of.Data, err)
		}
		binding, err := s.client.RbacV1().RoleBindings("apps").Get(t.Context(), "auditors", metav1.GetOptions{})
		if err != nil || binding.Subjects[0].Name != "auditors" || binding.RoleRef.Name != "view" {
			t.Errorf("%s: %+v, %v", s.name, binding, err)
		}
		ns, err := s.client.CoreV1().Namespaces().Get(t.Context(), "apps", metav1.GetOptions{})
		if err != nil || ns.Labels["example.com/team"] != s.name {
			t.Errorf("%s: %v, %v", s.name, ns.Labels, err)
		}
	}
	got := d.rolledOut(t, "team", tenantapi.ReasonApplied, 1)
	if got.Status.Tenants != 2 || got.Status.Current != 2 || got.Status.Failed != 0 {
		t.Errorf("%+v", got.Status)
	}
	// Nothing of it is anywhere else.
	_, err := d.admin.CoreV1().Namespaces().Get(t.Context(), "apps", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the system space: %v", err)
	}
}

// testFirst: what bounds the users of a tenant is there when the first of them comes.
func (d *templated) testFirst(t *testing.T) {
	d.create(t, "first", "team")
	user, organizations := planes.AdminOf("first")
	code, answer := get(t, d.user(t, user, organizations, nil), "/api/v1/namespaces/apps/configmaps/team")
	if code != http.StatusOK || !strings.Contains(answer, `"name":"first"`) {
		t.Errorf("%d %s", code, answer)
	}
	if err := d.tenants.Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the template to have two tenants", func(ctx context.Context) (bool, error) {
		got, err := d.templates.Get(ctx, "team", metav1.GetOptions{})
		return err == nil && got.Status.Tenants == 2 && got.Status.Current == 2, err
	})
}

func (d *templated) testLimits(t *testing.T) {
	pods := func() string {
		got, err := d.tenants.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(got.Status.Usage, func(u tenantapi.LimitUsage) bool {
			return u.Name == tenantapi.LimitPods
		})
		if i < 0 || got.Status.Usage[i].Limit == nil {
			t.Fatalf("%+v", got.Status.Usage)
		}
		return got.Status.Usage[i].Limit.String()
	}
	if got := pods(); got != "100" {
		t.Errorf("the limit of pods is %s", got)
	}
	if _, err := d.tenants.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"limits":{"pods":7}}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := pods(); got != "7" {
		t.Errorf("with its own, the limit of pods is %s", got)
	}
	// The limit of the template refuses. The server learns of it a moment later.
	d.change(t, "team", func(template *tenantapi.TenantTemplate) {
		none := int64(0)
		template.Spec.Limits.Services = &none
	})
	eventually(t, "a Service to be refused", func(ctx context.Context) (bool, error) {
		_, err := d.b.client.CoreV1().Services("default").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"},
			Spec:       corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 80}}}},
			metav1.CreateOptions{})
		return err != nil && strings.Contains(err.Error(), "services"), nil
	})
}

// testKept: there is no way for the administrator of a tenant to change or delete what the template says.
func (d *templated) testKept(t *testing.T) {
	merge, strategic := "Content-Type: "+mergePatch, "Content-Type: application/strategic-merge-patch+json"
	apply := "Content-Type: application/apply-patch+yaml"
	const maps, ns = "/api/v1/namespaces/apps/configmaps", "/api/v1/namespaces/apps"
	const labels = `{"metadata":{"labels":{"a4s.io/tenant-template":null}}}`
	for _, c := range []struct{ method, path, body, header string }{
		{http.MethodPatch, maps + "/team", `{"data":{"name":"x"}}`, merge},
		{http.MethodPatch, maps + "/team", labels, merge},
		{http.MethodPatch, maps + "/team", labels, strategic},
		{http.MethodPatch, maps + "/team", `{"metadata":{"finalizers":["example.com/x"]}}`, merge},
		{http.MethodPatch, maps + "/team", `{"metadata":{"ownerReferences":[]}}`, merge},
		{http.MethodPatch, maps + "/team?fieldManager=a4s-tenant-template&force=true",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"team"},"data":{}}`, apply},
		{http.MethodPut, maps + "/team", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"team"}}`, ""},
		{http.MethodDelete, maps + "/team", "", ""},
		{http.MethodDelete, maps, "", ""},
		{http.MethodDelete, "/tenants/a" + maps + "/team", "", ""},
		{http.MethodDelete, "/api/v1/tenants/a/namespaces/apps/configmaps/team", "", ""},
		{http.MethodDelete, ns, "", ""},
		{http.MethodPut, ns + "/finalize",
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"apps"},"spec":{"finalizers":[]}}`, ""},
		{http.MethodPatch, ns + "/status", `{"metadata":{"labels":{"example.com/team":"x"}}}`, merge},
		{http.MethodPatch, ns, `{"metadata":{"labels":{"example.com/team":"x"}}}`, merge},
		{http.MethodDelete, ns + "/limitranges/defaults", "", ""},
		{http.MethodDelete, "/apis/networking.k8s.io/v1/namespaces/apps/networkpolicies/own-namespace-only", "", ""},
		{http.MethodDelete, "/apis/networking.k8s.io/v1/namespaces/apps/networkpolicies", "", ""},
		{http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/namespaces/apps/rolebindings/auditors", "", ""},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{c.header}
		}
		code, answer := do(t, d.a.config, c.method, c.path, c.body, headers)
		if code != http.StatusForbidden || !strings.Contains(answer, "TenantTemplate team keeps the") ||
			!strings.Contains(answer, "an administrator of the cluster can change the template") {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, code, answer)
		}
	}
	// Nor can they make one in its place, when it is gone for a moment: this one would never be.
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"team"}}`
	for _, path := range []string{maps, maps + "?dryRun=All"} {
		if code, answer := do(t, d.a.config, http.MethodPost, path, body, nil); code != http.StatusForbidden ||
			!strings.Contains(answer, "TenantTemplate team keeps the") {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
	// The status of the Tenant, where it stands, is not theirs.
	if code, answer := do(t, d.a.config, http.MethodPatch, "/api/v1/tenants/a/status", `{"status":{"template":null}}`,
		[]string{merge}); code != http.StatusForbidden {
		t.Errorf("%d %s", code, answer)
	}
}

// testNotKept: no object of a tenant is kept because it looks so, and what is made below one that is is no change.
func (d *templated) testNotKept(t *testing.T) {
	maps := d.a.client.CoreV1().ConfigMaps("apps")
	mine := configMap("mine")
	mine.Labels = map[string]string{"a4s.io/tenant-template": "team"}
	if _, err := maps.Create(t.Context(), mine, metav1.CreateOptions{
		FieldManager: "a4s-tenant-template"}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "mine", metav1.DeleteOptions{}); err != nil {
		t.Errorf("one that looks like it: %v", err)
	}
	maps = d.b.client.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), configMap("team"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "team", metav1.DeleteOptions{}); err != nil {
		t.Errorf("one of the name in another namespace: %v", err)
	}
}

func (d *templated) testDrift(t *testing.T) {
	inside := d.admin.CoreV1().ConfigMaps("apps.b")
	if _, err := inside.Patch(t.Context(), "team", types.MergePatchType, []byte(`{"data":{"name":"changed"}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	mended := func(what string) {
		t.Helper()
		eventually(t, what+" to be mended", func(ctx context.Context) (bool, error) {
			got, err := inside.Get(ctx, "team", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil && got.Data["name"] == "b" && got.Labels["a4s.io/tenant-template"] == "team", err
		})
	}
	mended("a value")
	if _, err := inside.Patch(t.Context(), "team", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a4s.io/tenant-template":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	mended("the label")
	if err := inside.Delete(t.Context(), "team", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	mended("a deletion")
	// What the placeholders stand for is kept, too.
	if _, err := d.tenants.Patch(t.Context(), "b", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+costCentre+`":"moved"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new label in the object", func(ctx context.Context) (bool, error) {
		got, err := inside.Get(ctx, "team", metav1.GetOptions{})
		return err == nil && got.Data["cost-centre"] == "moved", err
	})
}

func (d *templated) testChange(t *testing.T) {
	generation := d.change(t, "team", func(template *tenantapi.TenantTemplate) {
		objects := template.Spec.Objects
		template.Spec.Objects = []runtime.RawExtension{objects[0], objects[3],
			object(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"more","namespace":"default"},` +
				`"data":{"a":"1"}}`)}
		template.Spec.AtATime = 1
	})
	got := d.rolledOut(t, "team", tenantapi.ReasonApplied, generation)
	if got.Status.Current != 2 {
		t.Errorf("%+v", got.Status)
	}
	for _, s := range []*space{d.a, d.b} {
		is, err := s.client.CoreV1().ConfigMaps("default").Get(t.Context(), "more", metav1.GetOptions{})
		if err != nil || is.Data["a"] != "1" {
			t.Errorf("%s: %v", s.name, err)
		}
		_, err = s.client.RbacV1().RoleBindings("apps").Get(t.Context(), "auditors", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s: what fell out: %v", s.name, err)
		}
	}
}

// testReplaced: what cannot change and was there before the template had it does not stand in its way.
func (d *templated) testReplaced(t *testing.T) {
	if _, err := d.a.client.RbacV1().RoleBindings("apps").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "late"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	generation := d.change(t, "team", func(template *tenantapi.TenantTemplate) {
		template.Spec.Objects = append(template.Spec.Objects, object(`{"apiVersion":"rbac.authorization.k8s.io/v1",`+
			`"kind":"RoleBinding","metadata":{"name":"late","namespace":"apps"},"roleRef":{"kind":"ClusterRole",`+
			`"apiGroup":"rbac.authorization.k8s.io","name":"view"}}`))
	})
	d.rolledOut(t, "team", tenantapi.ReasonApplied, generation)
	got, err := d.a.client.RbacV1().RoleBindings("apps").Get(t.Context(), "late", metav1.GetOptions{})
	if err != nil || got.RoleRef.Name != "view" {
		t.Errorf("%+v, %v", got, err)
	}
}

func (d *templated) testStopped(t *testing.T) {
	bad := object(`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"bad",` +
		`"namespace":"default"},"spec":{"podSelector":{},"policyTypes":["Sideways"]}}`)
	generation := d.change(t, "team", func(template *tenantapi.TenantTemplate) {
		template.Spec.Objects = append(template.Spec.Objects, bad)
	})
	got := d.rolledOut(t, "team", tenantapi.ReasonStopped, generation)
	c := meta.FindStatusCondition(got.Status.Conditions, tenantapi.RolledOut)
	if got.Status.Failed != 1 || !strings.Contains(c.Message, "tenant a ") ||
		!strings.Contains(c.Message, "NetworkPolicy default/bad") {
		t.Errorf("%+v", got.Status)
	}
	d.await(t, "a", metav1.ConditionFalse, "NetworkPolicy default/bad")
	b := d.await(t, "b", metav1.ConditionTrue, "TenantTemplate team")
	if b.Status.Template.Generation != generation-1 {
		t.Errorf("the other tenant: %+v", b.Status.Template)
	}
	// What it had it has, and its users cannot change it.
	if err := d.a.client.CoreV1().ConfigMaps("default").Delete(t.Context(), "more",
		metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what it had: %v", err)
	}
	generation = d.change(t, "team", func(template *tenantapi.TenantTemplate) {
		template.Spec.Objects = slices.DeleteFunc(template.Spec.Objects, func(o runtime.RawExtension) bool {
			return strings.Contains(string(o.Raw), `"bad"`)
		})
	})
	d.rolledOut(t, "team", tenantapi.ReasonApplied, generation)
}
