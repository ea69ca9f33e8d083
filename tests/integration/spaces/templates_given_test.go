package spaces_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

// given is a control plane with a template that gives Secrets and accesses.
type given struct {
	*templated
	accesses *tenantapi.AccessClient
}

// TestTemplatesGiveSecretsAndAccess: each tenant of a template has copies of Secrets of the system space that may be
// copied, as they are now, and each has a kubeconfig in the system space, until the template says so no more.
func TestTemplatesGiveSecretsAndAccess(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	d := &given{templated: &templated{plane: start(t, nil)}}
	var err error
	if d.tenants, err = tenantapi.NewClient(d.Admin, nil); err != nil {
		t.Fatal(err)
	}
	if d.templates, err = tenantapi.NewTemplateClient(d.Admin, nil); err != nil {
		t.Fatal(err)
	}
	if d.accesses, err = tenantapi.NewAccessClient(d.Admin, nil); err != nil {
		t.Fatal(err)
	}
	d.platform(t)
	d.a, d.b = d.from(t, "a", "team"), d.from(t, "b", "team")
	t.Run("tenants have copies", d.testCopies)
	t.Run("copies stay", d.testCopiesKept)
	t.Run("a changed Secret reaches all", d.testSourceChanges)
	t.Run("a Secret that may not be copied", d.testNotAllowed)
	t.Run("one that is not there stops it", d.testSourceMissing)
	t.Run("somebody gets in who waits for it", d.testAccess)
	t.Run("an access stays", d.testAccessKept)
	t.Run("an access ends at once", d.testAccessEndsAtOnce)
	t.Run("who may give access", d.testMayGive)
	t.Run("dormant tenants get it", d.testDormant)
	t.Run("what the template has no more goes", d.testTakenOff)
	t.Run("it goes with the tenant", d.testGoesWithTenant)
}

// platform makes what the template refers to, and the template.
func (d *given) platform(t *testing.T) {
	t.Helper()
	if _, err := d.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "platform"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.source(t, "registry", "old", corev1.SecretTypeOpaque)
	if _, err := d.templates.Create(t.Context(), &tenantapi.TenantTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Spec: tenantapi.TenantTemplateSpec{Secrets: []tenantapi.TemplateSecret{{
			Namespace: "default", Name: "registry", Labels: map[string]string{"team": "$(tenant.name)"},
			From: tenantapi.TemplateSecretSource{Namespace: "platform", Name: "registry"}}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// source makes a Secret that may be copied.
func (d *given) source(t *testing.T, name, word string, typ corev1.SecretType) {
	t.Helper()
	if _, err := d.admin.CoreV1().Secrets("platform").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{tenantapi.CopyLabel: "true"},
			Annotations: map[string]string{"of": "the platform"}},
		Type: typ, StringData: map[string]string{"word": word, "more": "x"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// patch changes a Secret of the platform.
func (d *given) patch(t *testing.T, name, body string) {
	t.Helper()
	if _, err := d.admin.CoreV1().Secrets("platform").Patch(t.Context(), name, types.MergePatchType, []byte(body),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// has waits until a tenant has a word in its copy.
func (d *given) has(t *testing.T, tenant, word string) {
	t.Helper()
	eventually(t, "the copy of "+tenant+" to be "+word, func(ctx context.Context) (bool, error) {
		got, err := d.admin.CoreV1().Secrets("default."+tenant).Get(ctx, "registry", metav1.GetOptions{})
		return err == nil && string(got.Data["word"]) == word, ignoreNotFound(err)
	})
}

func (d *given) testCopies(t *testing.T) {
	for _, s := range []*space{d.a, d.b} {
		d.await(t, s.name, metav1.ConditionTrue, "generation 1 of the TenantTemplate team")
		got, err := s.client.CoreV1().Secrets("default").Get(t.Context(), "registry", metav1.GetOptions{})
		if err != nil || string(got.Data["word"]) != "old" || got.Labels["team"] != s.name ||
			got.Type != corev1.SecretTypeOpaque || got.Labels[tenantapi.CopyLabel]+got.Annotations["of"] != "" {
			t.Errorf("%s: %+v, %v", s.name, got, err)
		}
	}
	// What is in them does not stand in the template.
	if _, answer := get(t, d.Admin, "/api/v1/tenanttemplates/team"); strings.Contains(answer, "b2xk") {
		t.Error(answer)
	}
}

// testCopiesKept: the administrator of a tenant reads it, and no more; what others do is mended.
func (d *given) testCopiesKept(t *testing.T) {
	const secrets = "/api/v1/namespaces/default/secrets"
	const registry = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"registry"}}`
	for _, c := range []struct{ method, path, body, header string }{
		{http.MethodPatch, secrets + "/registry", `{"data":{"word":"eA=="}}`, "Content-Type: " + mergePatch},
		{http.MethodPatch, secrets + "/registry", `{"immutable":true}`, "Content-Type: " + mergePatch},
		{http.MethodPut, secrets + "/registry", registry, ""},
		{http.MethodDelete, secrets + "/registry", "", ""},
		{http.MethodDelete, secrets, "", ""},
		{http.MethodPost, secrets, registry, ""},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{c.header}
		}
		code, answer := do(t, d.a.config, c.method, c.path, c.body, headers)
		if code != http.StatusForbidden || !strings.Contains(answer, "TenantTemplate team keeps the Secret") {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, code, answer)
		}
	}
	inside := d.admin.CoreV1().Secrets("default.b")
	if _, err := inside.Patch(t.Context(), "registry", types.MergePatchType, []byte(`{"data":{"word":"eA=="}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	d.has(t, "b", "old")
	if err := inside.Delete(t.Context(), "registry", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.has(t, "b", "old")
}

func (d *given) testSourceChanges(t *testing.T) {
	d.patch(t, "registry", `{"data":{"more":null},"stringData":{"word":"new"}}`)
	for _, s := range []*space{d.a, d.b} {
		d.has(t, s.name, "new")
		got, err := s.client.CoreV1().Secrets("default").Get(t.Context(), "registry", metav1.GetOptions{})
		if err != nil || len(got.Data) != 1 {
			t.Errorf("%s has what the Secret has no more: %v, %v", s.name, got.Data, err)
		}
	}
	// One of another type is another Secret: it takes the place of the one before.
	secrets := d.admin.CoreV1().Secrets("platform")
	if err := secrets.Delete(t.Context(), "registry", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.source(t, "registry", "typed", "example.com/word")
	d.has(t, "a", "typed")
	d.has(t, "b", "typed")
	d.await(t, "a", metav1.ConditionTrue, "TenantTemplate team")
}

// testNotAllowed: what a Secret is no longer given for stays as it was, and is not copied any more.
func (d *given) testNotAllowed(t *testing.T) {
	// In one change, so that whoever finds no label has read what is in it now.
	d.patch(t, "registry", `{"metadata":{"labels":{"`+tenantapi.CopyLabel+`":null}},"stringData":{"word":"secret"}}`)
	const none = "Secret default/registry: there is no Secret platform/registry with the label"
	d.await(t, "a", metav1.ConditionFalse, none)
	d.await(t, "b", metav1.ConditionFalse, none)
	for _, s := range []*space{d.a, d.b} {
		got, err := s.client.CoreV1().Secrets("default").Get(t.Context(), "registry", metav1.GetOptions{})
		if err != nil || string(got.Data["word"]) != "typed" {
			t.Errorf("%s: %v, %v", s.name, got.Data, err)
		}
	}
	d.patch(t, "registry", `{"metadata":{"labels":{"`+tenantapi.CopyLabel+`":"true"}}}`)
	d.has(t, "a", "secret")
	d.await(t, "a", metav1.ConditionTrue, "TenantTemplate team")
	d.await(t, "b", metav1.ConditionTrue, "TenantTemplate team")
}

func (d *given) testSourceMissing(t *testing.T) {
	generation := d.change(t, "team", func(template *tenantapi.TenantTemplate) {
		template.Spec.AtATime = 1
		template.Spec.Secrets = append(template.Spec.Secrets, tenantapi.TemplateSecret{
			Namespace: "default", Name: "late",
			From: tenantapi.TemplateSecretSource{Namespace: "platform", Name: "late-$(tenant.name)"}})
		template.Spec.Objects = append(template.Spec.Objects, object(`{"apiVersion":"v1","kind":"ConfigMap",`+
			`"metadata":{"name":"first","namespace":"default"}}`))
	})
	got := d.rolledOut(t, "team", tenantapi.ReasonStopped, generation)
	c := meta.FindStatusCondition(got.Status.Conditions, tenantapi.RolledOut)
	if got.Status.Failed != 1 || !strings.Contains(c.Message, "tenant a could not get it") ||
		!strings.Contains(c.Message, "there is no Secret platform/late-a with the label") {
		t.Errorf("%+v", got.Status)
	}
	if _, err := d.a.client.CoreV1().ConfigMaps("default").Get(t.Context(), "first", metav1.GetOptions{}); err != nil {
		t.Errorf("what is made before Secrets: %v", err)
	}
	if _, err := d.b.client.CoreV1().ConfigMaps("default").Get(t.Context(), "first",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the next tenant: %v", err)
	}
	// One that cannot have it and one that waits have what is in another Secret now.
	d.patch(t, "registry", `{"stringData":{"word":"rotated"}}`)
	d.has(t, "a", "rotated")
	d.has(t, "b", "rotated")
	d.source(t, "late-a", "a", corev1.SecretTypeOpaque)
	d.source(t, "late-b", "b", corev1.SecretTypeOpaque)
	d.rolledOut(t, "team", tenantapi.ReasonApplied, generation)
	for _, s := range []*space{d.a, d.b} {
		is, err := s.client.CoreV1().Secrets("default").Get(t.Context(), "late", metav1.GetOptions{})
		if err != nil || string(is.Data["word"]) != s.name {
			t.Errorf("%s: %v, %v", s.name, is.Data, err)
		}
	}
}

// flux is the access of the tests.
func flux(user string) tenantapi.TemplateAccess {
	return tenantapi.TemplateAccess{Name: "flux-$(tenant.name)", Spec: tenantapi.TenantAccessSpec{
		Tenant: "$(tenant.name)", User: user, Role: "view",
		Secret: tenantapi.AccessSecret{Namespace: "platform", Name: "kubeconfig-$(tenant.name)"}}}
}

// ready waits until an access is what a user has.
func (d *given) ready(t *testing.T, tenant, user string) *tenantapi.TenantAccess {
	t.Helper()
	var got *tenantapi.TenantAccess
	defer func() {
		if t.Failed() && got != nil {
			t.Logf("it is %+v", got)
		}
	}()
	eventually(t, "the access of "+user+" to "+tenant, func(ctx context.Context) (bool, error) {
		var err error
		if got, err = d.accesses.Get(ctx, "flux-"+tenant, metav1.GetOptions{}); err != nil {
			return false, ignoreNotFound(err)
		}
		c := meta.FindStatusCondition(got.Status.Conditions, tenantapi.AccessReady)
		return got.Spec.User == user && c != nil && c.Status == metav1.ConditionTrue &&
			c.ObservedGeneration == got.Generation, nil
	})
	return got
}

func (d *given) testAccess(t *testing.T) {
	d.change(t, "team", func(template *tenantapi.TenantTemplate) {
		template.Spec.Access = []tenantapi.TemplateAccess{flux("flux")}
	})
	// Nobody uses it.
	d.create(t, "new", "team")
	d.source(t, "late-new", "new", corev1.SecretTypeOpaque)
	for _, tenant := range []string{"a", "b", "new"} {
		d.ready(t, tenant, "flux")
		s, err := d.admin.CoreV1().Secrets("platform").Get(t.Context(), "kubeconfig-"+tenant, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(s.Data["value"])
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		may(t, "its role in "+tenant, func(ctx context.Context) error {
			_, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
			return err
		})
		if _, err := client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s: beyond its role: %v", tenant, err)
		}
	}
	if got := d.await(t, "a", metav1.ConditionTrue, "TenantTemplate team"); len(got.Status.Template.Access) != 1 {
		t.Errorf("%+v", got.Status.Template)
	}
}

func (d *given) testAccessKept(t *testing.T) {
	// The template has no namespace.
	if _, err := d.accesses.Patch(t.Context(), "flux-a", types.MergePatchType, []byte(`{"spec":{"role":"edit",`+
		`"namespace":"default"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the role to be mended", func(ctx context.Context) (bool, error) {
		got, err := d.accesses.Get(ctx, "flux-a", metav1.GetOptions{})
		return err == nil && got.Spec.Role == "view" && got.Spec.Namespace == "", err
	})
	was := d.ready(t, "b", "flux")
	if err := d.accesses.Delete(t.Context(), "flux-b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another access", func(ctx context.Context) (bool, error) {
		got, err := d.accesses.Get(ctx, "flux-b", metav1.GetOptions{})
		return err == nil && got.UID != was.UID, ignoreNotFound(err)
	})
	// Whom it is for cannot change: it is made anew.
	d.change(t, "team", func(template *tenantapi.TenantTemplate) {
		template.Spec.Access = []tenantapi.TemplateAccess{flux("argocd")}
	})
	d.ready(t, "a", "argocd")
	d.ready(t, "b", "argocd")
}

// testAccessEndsAtOnce: a tenant that cannot have a change of the template stops it, but not the end of an access.
func (d *given) testAccessEndsAtOnce(t *testing.T) {
	missing := tenantapi.TemplateSecret{Namespace: "default", Name: "missing",
		From: tenantapi.TemplateSecretSource{Namespace: "platform", Name: "missing"}}
	d.change(t, "team", func(template *tenantapi.TenantTemplate) {
		template.Spec.Access, template.Spec.Secrets = nil, append(template.Spec.Secrets, missing)
	})
	eventually(t, "the accesses to be gone", func(ctx context.Context) (bool, error) {
		_, ofA := d.accesses.Get(ctx, "flux-a", metav1.GetOptions{})
		_, ofB := d.accesses.Get(ctx, "flux-b", metav1.GetOptions{})
		return apierrors.IsNotFound(ofA) && apierrors.IsNotFound(ofB), nil
	})
	d.await(t, "a", metav1.ConditionFalse, "there is no Secret platform/missing")
	d.await(t, "b", metav1.ConditionTrue, "TenantTemplate team") // it waits for its turn
	d.change(t, "team", func(template *tenantapi.TenantTemplate) {
		template.Spec.Access = []tenantapi.TemplateAccess{flux("argocd")}
		template.Spec.Secrets = template.Spec.Secrets[:len(template.Spec.Secrets)-1]
	})
	d.ready(t, "a", "argocd")
	d.ready(t, "b", "argocd")
}

// testMayGive: a template opens no tenant for whoever could not make the access.
func (d *given) testMayGive(t *testing.T) {
	const name = "templates"
	if _, err := d.admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""},
			Resources: []string{"tenanttemplates"}, Verbs: []string{"*"}}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	alice := rest.CopyConfig(d.Admin)
	alice.Impersonate = rest.ImpersonationConfig{UserName: "alice"}
	templates, err := tenantapi.NewTemplateClient(alice, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := &tenantapi.TenantTemplate{ObjectMeta: metav1.ObjectMeta{Name: "hers"}}
	eventually(t, "her role", func(ctx context.Context) (bool, error) {
		_, err := templates.Create(ctx, in, metav1.CreateOptions{})
		return err == nil, nil
	})
	in.Spec.Access = []tenantapi.TemplateAccess{flux("alice")}
	const apply = `{"apiVersion":"v1","kind":"TenantTemplate","metadata":{"name":"NAME"},"spec":{"access":[{"name":` +
		`"x-$(tenant.name)","spec":{"tenant":"$(tenant.name)","user":"alice","secret":{"namespace":"platform",` +
		`"name":"x-$(tenant.name)"}}}]}}`
	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the right to create tenantaccesses") {
			t.Errorf("%s: %v", what, err)
		}
	}
	made := in.DeepCopy()
	made.Name = "made"
	_, err = templates.Create(t.Context(), made, metav1.CreateOptions{})
	refused("made", err)
	for _, name := range []string{"hers", "applied", "team"} {
		body := []byte(strings.ReplaceAll(apply, "NAME", name))
		_, err = templates.Patch(t.Context(), name, types.ApplyPatchType, body,
			metav1.PatchOptions{FieldManager: "alice", Force: new(true)})
		refused("applied to "+name, err)
	}
	// What she does not change is not asked about.
	if _, err := templates.Patch(t.Context(), "team", types.MergePatchType, []byte(`{"spec":{"maxFailed":1}}`),
		metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// testDormant: a template that gets accesses wakes the tenants that nobody has used.
func (d *given) testDormant(t *testing.T) {
	d.create(t, "idle", "hers")
	got, err := d.tenants.Get(t.Context(), "idle", metav1.GetOptions{})
	if err != nil || !got.Dormant() {
		t.Fatalf("%+v, %v", got, err)
	}
	d.change(t, "hers", func(template *tenantapi.TenantTemplate) {
		template.Spec.Access = []tenantapi.TemplateAccess{flux("flux")}
	})
	d.ready(t, "idle", "flux")
}

func (d *given) testTakenOff(t *testing.T) {
	was := d.ready(t, "a", "argocd")
	d.change(t, "team", func(template *tenantapi.TenantTemplate) {
		template.Spec.Access, template.Spec.Secrets = nil, template.Spec.Secrets[1:]
	})
	eventually(t, "the access and the copy to be gone", func(ctx context.Context) (bool, error) {
		_, err := d.accesses.Get(ctx, "flux-a", metav1.GetOptions{})
		_, ofCopy := d.a.client.CoreV1().Secrets("default").Get(ctx, "registry", metav1.GetOptions{})
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(ofCopy), nil
	})
	if _, err := d.admin.CoreV1().Secrets("platform").Get(t.Context(), "kubeconfig-a",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its Secret: %v", err)
	}
	if _, err := d.a.client.RbacV1().ClusterRoleBindings().Get(t.Context(), was.Status.Binding.Name,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its binding: %v", err)
	}
	// The Secret of the platform is nobody's copy.
	if _, err := d.admin.CoreV1().Secrets("platform").Get(t.Context(), "registry", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func (d *given) testGoesWithTenant(t *testing.T) {
	if err := d.tenants.Delete(t.Context(), "idle", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the access to be gone", func(ctx context.Context) (bool, error) {
		_, err := d.accesses.Get(ctx, "flux-idle", metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	if _, err := d.admin.CoreV1().Secrets("platform").Get(t.Context(), "kubeconfig-idle",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its Secret: %v", err)
	}
}
