package spaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

const ownAccesses = "/api/v1/tenantaccesses"

// ownAccess is a control plane with tenants whose users make accesses to their own space.
type ownAccess struct {
	*plane
	a, b *space
	// These are those of tenant a, as its administrator sees them.
	accessesIn
}

// TestTenantAccessInASpace: the administrator of a tenant makes accesses to their own space, and nobody gets more
// by one than they could have given before.
func TestTenantAccessInASpace(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	d := &ownAccess{plane: start(t, nil)}
	d.a, d.b = d.bareTenant(t, "a"), d.bareTenant(t, "b")
	var err error
	if d.accesses, err = tenantapi.NewAccessClient(d.a.config, nil); err != nil {
		t.Fatal(err)
	}
	d.home = d.a.client
	t.Run("as documented", d.testDocumented)
	t.Run("a user", d.testUser)
	t.Run("apart from others", d.testApart)
	t.Run("who may make one", d.testRights)
	t.Run("who may change one", d.testChanges)
	t.Run("a role that is not there", d.testNoRole)
	t.Run("a namespace that is made again", d.testNamespaceAgain)
	t.Run("what it cannot say", d.testRefused)
	t.Run("the status is the system's", d.testStatus)
	t.Run("Secrets of others stay", d.testTaken)
	t.Run("it is made again", d.testSecretAgain)
	t.Run("the limits of the tenant", d.testLimits)
	t.Run("it ends", d.testEnds)
	t.Run("a cordoned space", d.testCordoned)
	t.Run("it is deleted", d.testDeleted)
	t.Run("the tenant is made again", d.testAgain)
}

// ownSpec is an access for a user with a role, whose Secret has the name of the access.
func ownSpec(user, role, secret string) tenantapi.TenantAccessSpec {
	return tenantapi.TenantAccessSpec{User: user, Role: role,
		Secret: tenantapi.AccessSecret{Namespace: "default", Name: secret}}
}

// makes has somebody make an access in the space of tenant a.
func (d *ownAccess) makes(t *testing.T, who *rest.Config, name string, spec tenantapi.TenantAccessSpec) error {
	t.Helper()
	accesses, err := tenantapi.NewAccessClient(who, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = accesses.Create(t.Context(), &tenantapi.TenantAccess{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: spec}, metav1.CreateOptions{})
	return err
}

func (d *ownAccess) give(t *testing.T, name string, spec tenantapi.TenantAccessSpec) {
	t.Helper()
	if err := d.makes(t, d.a.config, name, spec); err != nil {
		t.Fatal(err)
	}
}

// by is a client with the kubeconfig in a Secret of the space.
func (d *ownAccess) by(t *testing.T, name string) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(d.secret(t, name).Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	return config, d.as(t, "a", config).client
}

// testDocumented applies what docs/tenants/access.md has for the administrator of a tenant.
func (d *ownAccess) testDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/tenants/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## In your own space\n")
	_, text, fenced := strings.Cut(text, "```yaml\n")
	text, _, closed := strings.Cut(text, "```")
	if !found || !fenced || !closed {
		t.Fatal("the page has nothing for it")
	}
	for doc := range strings.SplitSeq(text, "---\n") {
		body, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		path := ownAccesses
		if strings.Contains(doc, "kind: ServiceAccount") {
			path = "/api/v1/namespaces/default/serviceaccounts"
		}
		if code, answer := do(t, d.a.config, http.MethodPost, path, string(body), nil); code != http.StatusCreated {
			t.Fatalf("%d %s", code, answer)
		}
	}
	got := d.await(t, "ci", tenantapi.ReasonIssued)
	if got.Spec.Tenant != "" || len(got.Finalizers) > 0 {
		t.Errorf("%+v", got)
	}
	config, client := d.by(t, "ci-kubeconfig")
	if !strings.HasSuffix(config.Host, "/tenants/a") || config.BearerToken == "" {
		t.Errorf("it is for %s", config.Host)
	}
	may(t, "what its role lets it make", func(ctx context.Context) error {
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, configMap("by-ci"), metav1.CreateOptions{})
		return err
	})
	if _, err := client.CoreV1().ConfigMaps("kube-system").List(t.Context(),
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("in another namespace: %v", err)
	}
	code, answer := do(t, d.a.config, http.MethodGet, ownAccesses, "",
		[]string{"Accept: application/json;as=Table;v=v1;g=meta.k8s.io"})
	if code != http.StatusOK || !strings.Contains(answer, `"cells":["ci","a","serviceaccount default/deployer",`) {
		t.Errorf("%d %s", code, answer)
	}
}

func (d *ownAccess) testUser(t *testing.T) {
	spec := ownSpec("flux", "view", "flux")
	spec.Tenant, spec.Groups = "a", []string{"robots"} // it may say its own tenant
	d.give(t, "flux", spec)
	got := d.await(t, "flux", tenantapi.ReasonIssued)
	if s := d.secret(t, "flux"); !metav1.IsControlledBy(s, got) || s.OwnerReferences[0].Name != "flux" ||
		s.Labels[tenantapi.AccessLabel] != "flux" {
		t.Errorf("%+v", s.ObjectMeta)
	}
	binding, err := d.a.client.RbacV1().ClusterRoleBindings().Get(t.Context(), got.Status.Binding.Name,
		metav1.GetOptions{})
	if err != nil || !metav1.IsControlledBy(binding, got) || strings.Contains(binding.Name, ".tenant") {
		t.Errorf("%+v, %v", binding, err)
	}
	config, client := d.by(t, "flux")
	if code, answer := do(t, config, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, nil); code != http.StatusCreated ||
		!strings.Contains(answer, `"username":"flux"`) || !strings.Contains(answer, `"robots"`) {
		t.Errorf("%d %s", code, answer)
	}
	may(t, "what its role lets it do", func(ctx context.Context) error {
		_, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		return err
	})
}

// testApart: nothing of an access is anywhere but in its space.
func (d *ownAccess) testApart(t *testing.T) {
	if code, answer := get(t, d.b.config, ownAccesses); code != http.StatusOK || strings.Contains(answer, "flux") {
		t.Errorf("another tenant: %d %s", code, answer)
	}
	for _, path := range []string{"/tenants/a" + ownAccesses, "/tenants/system" + ownAccesses,
		"/tenants/all" + ownAccesses, ownAccesses + "/flux.a.tenant"} {
		if code, answer := get(t, d.b.config, path); code != http.StatusForbidden && code != http.StatusNotFound {
			t.Errorf("another tenant: %s: %d %s", path, code, answer)
		}
	}
	config, _ := d.by(t, "flux")
	server := strings.TrimSuffix(config.Host, "/tenants/a")
	for _, tenant := range []string{"b", "system", "all"} {
		other := rest.CopyConfig(config)
		other.Host = server
		if code, answer := get(t, other, "/tenants/"+tenant+"/api/v1/configmaps"); code != http.StatusForbidden {
			t.Errorf("%s: %d %s", tenant, code, answer)
		}
	}
	if code, answer := get(t, d.Admin, "/tenants/system"+ownAccesses); code != http.StatusOK ||
		strings.Contains(answer, "flux") {
		t.Errorf("the system space: %d %s", code, answer)
	}
	if _, err := d.admin.CoreV1().Secrets("default").Get(t.Context(), "flux",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Secret in the system space: %v", err)
	}
	if code, answer := get(t, d.Admin, ownAccesses+"/flux.a.tenant"); code != http.StatusOK {
		t.Errorf("an administrator of the cluster: %d %s", code, answer)
	}
}

func (d *ownAccess) remove(t *testing.T, name string) {
	t.Helper()
	if err := d.accesses.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.accesses.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a deleted access: %v", err)
	}
}

func (d *ownAccess) testRefused(t *testing.T) {
	for what, change := range map[string]func(*tenantapi.TenantAccessSpec){
		"spec.tenant":           func(s *tenantapi.TenantAccessSpec) { s.Tenant = "b" },
		"spec.user: Invalid":    func(s *tenantapi.TenantAccessSpec) { s.User = "admin" },
		"Kubernetes' own":       func(s *tenantapi.TenantAccessSpec) { s.User = "system:admin" },
		"spec.groups[0]":        func(s *tenantapi.TenantAccessSpec) { s.Groups = []string{"system:masters"} },
		"without the tenant":    func(s *tenantapi.TenantAccessSpec) { s.Groups = []string{"tenant:b"} },
		"spec.secret.namespace": func(s *tenantapi.TenantAccessSpec) { s.Secret.Namespace = "default.b" },
		"spec.namespace":        func(s *tenantapi.TenantAccessSpec) { s.Namespace = "default.b" },
		"at most 86400": func(s *tenantapi.TenantAccessSpec) {
			month := int64(30 * 24 * 3600)
			s.ExpirationSeconds = &month
		},
	} {
		spec := ownSpec("x", "view", "x")
		change(&spec)
		err := d.makes(t, d.a.config, "x", spec)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	spec := ownSpec("x", "view", "x")
	if err := d.makes(t, d.a.config, "x.b.tenant", spec); err == nil {
		t.Error("an access of another tenant by its name")
	}
	// Nor do administrators of the cluster make one to another tenant there.
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{
		"tenant": "b", "user": "x", "secret": map[string]any{"namespace": "default", "name": "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := do(t, d.Admin, http.MethodPost, "/tenants/a"+ownAccesses, string(body),
		nil); code != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", code, answer)
	}
}

// testStatus: the system deletes the binding that the status names.
func (d *ownAccess) testStatus(t *testing.T) {
	code, answer := do(t, d.a.config, http.MethodPatch, ownAccesses+"/flux/status",
		`{"status":{"binding":{"name":"cluster-admin"}}}`, []string{"Content-Type: " + mergePatch})
	if code != http.StatusForbidden {
		t.Errorf("%d %s", code, answer)
	}
}

func (d *ownAccess) testTaken(t *testing.T) {
	if _, err := d.a.client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{tenantapi.AccessLabel: "theirs"}},
		Data:       map[string][]byte{"a": []byte("b")}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := d.secret(t, "theirs")
	d.give(t, "theirs", ownSpec("x", "view", "theirs"))
	d.give(t, "second", ownSpec("x", "view", "flux"))
	ofFlux := d.secret(t, "flux")
	for _, name := range []string{"theirs", "second"} {
		if got := d.await(t, name, tenantapi.ReasonSecretTaken); got.Status.Binding != nil {
			t.Errorf("%s has the binding %v", name, got.Status.Binding)
		}
		d.remove(t, name)
	}
	for name, was := range map[string]*corev1.Secret{"theirs": before, "flux": ofFlux} {
		if is := d.secret(t, name); is.UID != was.UID || is.ResourceVersion != was.ResourceVersion {
			t.Errorf("the Secret %s was changed: %+v", name, is)
		}
	}
}

func (d *ownAccess) testSecretAgain(t *testing.T) {
	was := d.secret(t, "flux")
	if err := d.a.client.CoreV1().Secrets("default").Delete(t.Context(), "flux", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deleted Secret to be back", func(ctx context.Context) (bool, error) {
		s, err := d.a.client.CoreV1().Secrets("default").Get(ctx, "flux", metav1.GetOptions{})
		return err == nil && s.UID != was.UID && len(s.Data["value"]) > 0, ignoreNotFound(err)
	})
}

func (d *ownAccess) testLimits(t *testing.T) {
	list, err := d.accesses.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.limit(t, "a", fmt.Sprintf(`{"accesses":%d}`, len(list.Items)))
	eventually(t, "the limit", func(context.Context) (bool, error) {
		err := d.makes(t, d.a.config, "more", ownSpec("x", "view", "more"))
		if err == nil {
			d.remove(t, "more")
			return false, nil
		}
		want := fmt.Sprintf("exceeded limit of the tenant: accesses, requested: 1, used: %d, limited: %d; an "+
			"administrator of the cluster can raise spec.limits.accesses of the Tenant", len(list.Items),
			len(list.Items))
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("one more: %v, want %s", err, want)
		}
		return true, nil
	})
	// What the system writes for it is the tenant's, too.
	d.limit(t, "a", `{"accesses":20,"quota":{"secrets":"0"}}`)
	secrets := d.a.client.CoreV1().Secrets("default")
	eventually(t, "no room for a Secret", func(ctx context.Context) (bool, error) {
		_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "room"}},
			metav1.CreateOptions{})
		if err == nil {
			return false, secrets.Delete(ctx, "room", metav1.DeleteOptions{})
		}
		return true, ignoreForbidden(err)
	})
	d.give(t, "more", ownSpec("x", "view", "more"))
	got := d.await(t, "more", tenantapi.ReasonNotIssued)
	if c := got.Status.Conditions[0]; !strings.Contains(c.Message, "exceeded limit of the tenant: quota.secrets") {
		t.Errorf("%+v", c)
	}
	d.limit(t, "a", "null")
	d.await(t, "more", tenantapi.ReasonIssued)
	d.remove(t, "more")
}

func (d *ownAccess) testEnds(t *testing.T) {
	d.give(t, "short", ownSpec("short", "view", "short"))
	had := d.await(t, "short", tenantapi.ReasonIssued).Status.Binding
	if _, err := d.accesses.Patch(t.Context(), "short", types.MergePatchType, fmt.Appendf(nil,
		`{"spec":{"expires":%q}}`, time.Now().UTC().Format(time.RFC3339)), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	d.await(t, "short", tenantapi.ReasonExpired)
	d.nothingOf(t, "short", had)
	d.remove(t, "short")
}

// nothingOf waits until the Secret and the binding of an access are gone.
func (d *ownAccess) nothingOf(t *testing.T, secret string, binding *tenantapi.AccessBinding) {
	t.Helper()
	eventually(t, "the Secret and the binding to be gone", func(ctx context.Context) (bool, error) {
		_, err := d.a.client.CoreV1().Secrets("default").Get(ctx, secret, metav1.GetOptions{})
		_, ofBinding := d.a.client.RbacV1().ClusterRoleBindings().Get(ctx, binding.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(ofBinding), nil
	})
}

// testCordoned: nothing new is given out in a cordoned space, and it goes on afterwards.
func (d *ownAccess) testCordoned(t *testing.T) {
	d.cordon(t, d.a, true)
	if err := d.makes(t, d.a.config, "cordoned", ownSpec("x", "view", "cordoned")); !apierrors.IsForbidden(err) {
		t.Errorf("by a user: %v", err)
	}
	// The Secret of one that is there goes, by an administrator: it does not come back.
	d.await(t, "flux", tenantapi.ReasonCordoned)
	ofSystem := d.as(t, "a", tenantapi.InSpace(d.Admin, "a"))
	if err := ofSystem.client.CoreV1().Secrets("default").Delete(t.Context(), "flux",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.a.client.CoreV1().Secrets("default").Get(t.Context(), "flux",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret: %v", err)
	}
	d.cordon(t, d.a, false)
	d.await(t, "flux", tenantapi.ReasonIssued)
	d.secret(t, "flux")
}

// testDeleted: what an access gave goes with it, and who has the credentials has no right by them any more.
func (d *ownAccess) testDeleted(t *testing.T) {
	had := d.await(t, "flux", tenantapi.ReasonIssued).Status.Binding
	_, client := d.by(t, "flux")
	d.remove(t, "flux")
	d.nothingOf(t, "flux", had)
	eventually(t, "its rights to be gone", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		return apierrors.IsForbidden(err), nil
	})
}

// testAgain: a tenant of the same name has no access of the one before, whose credentials end.
func (d *ownAccess) testAgain(t *testing.T) {
	config, _ := d.by(t, "by-user")
	token, _ := d.by(t, "ci-kubeconfig")
	d.again(t, "a")
	planes.AwaitAccount(t, d.a.config, "default")
	for _, old := range []*rest.Config{config, token} {
		// A token that was verified is believed for ten more seconds.
		eventually(t, "credentials of the old one to end", func(context.Context) (bool, error) {
			code, _, err := try(t, old, http.MethodGet, "/api/v1/namespaces/default/configmaps", "", nil)
			return err == nil && code == http.StatusUnauthorized, nil
		})
	}
	if list, err := d.accesses.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
	secrets, err := d.a.client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{
		LabelSelector: tenantapi.AccessLabel})
	if err != nil || len(secrets.Items) > 0 {
		t.Errorf("%+v, %v", secrets, err)
	}
	d.give(t, "ci", ownSpec("ci", "view", "ci-kubeconfig"))
	d.await(t, "ci", tenantapi.ReasonIssued)
	_, now := d.by(t, "ci-kubeconfig")
	may(t, "those of the new one", func(ctx context.Context) error {
		_, err := now.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		return err
	})
}
