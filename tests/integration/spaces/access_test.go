package spaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// accessed is a control plane whose tenants have accesses.
type accessed struct {
	*plane
	tenants *tenantapi.Client
	accessesIn
	a, b *space
}

// TestTenantAccess: an access has a Secret that works in the space of its tenant, with its role
// and no more, renewed before it ends, until the access or the tenant is gone.
func TestTenantAccess(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	d := &accessed{plane: start(t, nil)}
	var err error
	if d.tenants, err = tenantapi.NewClient(d.Admin, nil); err != nil {
		t.Fatal(err)
	}
	if d.accesses, err = tenantapi.NewAccessClient(d.Admin, nil); err != nil {
		t.Fatal(err)
	}
	d.home = d.admin
	d.a, d.b = d.bareTenant(t, "a"), d.bareTenant(t, "b")
	t.Run("a user", d.testUser)
	t.Run("a role in a namespace", d.testNamespace)
	t.Run("a cluster of Argo CD", d.testArgoCD)
	t.Run("a service account", d.testAccount)
	t.Run("it is renewed", d.testRenewed)
	t.Run("the binding is kept", d.testBinding)
	t.Run("another role", d.testRole)
	t.Run("Secrets of others stay", d.testTaken)
	t.Run("a Secret that has no place", d.testNowhere)
	t.Run("it ends", d.testEnds)
	t.Run("it is deleted", d.testDeleted)
	t.Run("the tenant is made again", d.testAgain)
	t.Run("tenants see none", d.testUnseen)
	t.Run("it is printed", d.testPrinted)
	t.Run("the address", d.testAddress)
}

// give makes an access to tenant a for a user, whose Secret has its name.
func (d *accessed) give(t *testing.T, name string, change func(*tenantapi.TenantAccessSpec)) {
	t.Helper()
	a := &tenantapi.TenantAccess{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: tenantapi.TenantAccessSpec{Tenant: "a", User: name, Role: "view",
			Secret: tenantapi.AccessSecret{Namespace: "default", Name: name}}}
	if change != nil {
		change(&a.Spec)
	}
	if _, err := d.accesses.Create(t.Context(), a, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// accessesIn are the accesses that are in one space, and its Secrets.
type accessesIn struct {
	accesses *tenantapi.AccessClient
	home     kubernetes.Interface
}

// await waits until an access is ready, or is not for a reason.
func (d *accessesIn) await(t *testing.T, name, reason string) *tenantapi.TenantAccess {
	t.Helper()
	var got *tenantapi.TenantAccess
	defer func() {
		if t.Failed() && got != nil {
			t.Logf("the access is %+v", got.Status)
		}
	}()
	eventually(t, name+" to be "+reason, func(ctx context.Context) (bool, error) {
		var err error
		if got, err = d.accesses.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return false, err
		}
		is := meta.FindStatusCondition(got.Status.Conditions, tenantapi.AccessReady)
		return is != nil && is.Reason == reason && is.ObservedGeneration == got.Generation &&
			(is.Status == metav1.ConditionTrue) == (reason == tenantapi.ReasonIssued), nil
	})
	return got
}

func (d *accessesIn) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	s, err := d.home.CoreV1().Secrets("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// by is a client with the kubeconfig in a Secret.
func (d *accessed) by(t *testing.T, name string) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(d.secret(t, name).Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return config, client
}

// may waits until a user can do something: the API server learns of a binding a moment after it was made.
func may(t *testing.T, what string, do func(ctx context.Context) error) {
	t.Helper()
	var last error
	defer func() {
		if t.Failed() {
			t.Logf("%s: %v", what, last)
		}
	}()
	eventually(t, what, func(ctx context.Context) (bool, error) {
		last = do(ctx)
		return last == nil, nil
	})
}

func (d *accessed) testUser(t *testing.T) {
	d.give(t, "flux", func(s *tenantapi.TenantAccessSpec) {
		s.Groups = []string{"robots"}
		s.Secret.Labels = map[string]string{"cluster.x-k8s.io/cluster-name": "a"}
	})
	got := d.await(t, "flux", tenantapi.ReasonIssued)
	tenant, err := d.tenants.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || got.Status.TenantUID != tenant.UID || got.Status.ExpirationTimestamp == nil ||
		time.Until(got.Status.ExpirationTimestamp.Time) > 25*time.Hour {
		t.Errorf("%+v, %v", got.Status, err)
	}
	if s := d.secret(t, "flux"); s.Labels["cluster.x-k8s.io/cluster-name"] != "a" || !metav1.IsControlledBy(s, got) {
		t.Errorf("%+v", s.ObjectMeta)
	}
	config, client := d.by(t, "flux")
	if !strings.HasSuffix(config.Host, "/tenants/a") {
		t.Errorf("the server is %s", config.Host)
	}
	if code, answer := do(t, config, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, nil); code != http.StatusCreated ||
		!strings.Contains(answer, `"username":"flux"`) || !strings.Contains(answer, `"robots"`) {
		t.Errorf("%d %s", code, answer)
	}
	may(t, "what its role lets it do", func(ctx context.Context) error {
		_, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		return err
	})
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("x"),
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what its role does not let it do: %v", err)
	}
	other := rest.CopyConfig(config)
	other.Host = strings.TrimSuffix(config.Host, "/tenants/a")
	for _, path := range []string{"/tenants/b/api/v1/configmaps", "/tenants/system/api/v1/configmaps",
		"/tenants/all/api/v1/configmaps"} {
		if code, answer := get(t, other, path); code != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
}

func (d *accessed) testNamespace(t *testing.T) {
	d.give(t, "deployer", func(s *tenantapi.TenantAccessSpec) { s.Role, s.Namespace = "edit", "default" })
	d.await(t, "deployer", tenantapi.ReasonIssued)
	_, client := d.by(t, "deployer")
	may(t, "what its role lets it make", func(ctx context.Context) error {
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, configMap("by-deployer"), metav1.CreateOptions{})
		return err
	})
	if _, err := client.CoreV1().ConfigMaps("kube-system").List(t.Context(),
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("in another namespace: %v", err)
	}
}

func (d *accessed) testArgoCD(t *testing.T) {
	d.give(t, "argocd", func(s *tenantapi.TenantAccessSpec) {
		s.Secret.Format, s.Secret.Labels = tenantapi.FormatArgoCD, map[string]string{"env": "prod"}
	})
	d.await(t, "argocd", tenantapi.ReasonIssued)
	s := d.secret(t, "argocd")
	var config struct {
		TLSClientConfig struct{ CAData, CertData, KeyData []byte }
	}
	if err := json.Unmarshal(s.Data["config"], &config); err != nil {
		t.Fatal(err)
	}
	tls := config.TLSClientConfig
	of := &rest.Config{Host: string(s.Data["server"]),
		TLSClientConfig: rest.TLSClientConfig{CAData: tls.CAData, CertData: tls.CertData, KeyData: tls.KeyData}}
	if s.Labels["argocd.argoproj.io/secret-type"] != "cluster" || s.Labels["env"] != "prod" ||
		string(s.Data["name"]) != "a" {
		t.Errorf("%v; %v", s.Data["name"], s.Labels)
	}
	client, err := kubernetes.NewForConfig(of)
	if err != nil {
		t.Fatal(err)
	}
	may(t, "what its role lets it do", func(ctx context.Context) error {
		_, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err
	})
}

// testRenewed has a Secret with what ends in a second, of the CA and of the access in all else.
func (d *accessed) testRenewed(t *testing.T) {
	before := d.secret(t, "flux")
	chain, err := pki.ParseCerts(before.Data["tls.crt"])
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.LoadCA(d.Files.ClientCA)
	if err != nil {
		t.Fatal(err)
	}
	key, keyPEM, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	subject := chain[0].Subject
	old, err := ca.WithLife(time.Second).Sign(key.Public(), pki.Leaf{CommonName: subject.CommonName,
		Organization: subject.Organization, Units: subject.OrganizationalUnit, SerialNumber: subject.SerialNumber,
		Client: true})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"data": map[string]any{"tls.crt": old, "tls.key": keyPEM}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.admin.CoreV1().Secrets("default").Patch(t.Context(), "flux", types.MergePatchType, body,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the certificate to be another one", func(context.Context) (bool, error) {
		now, err := pki.ParseCerts(d.secret(t, "flux").Data["tls.crt"])
		return err == nil && time.Until(now[0].NotAfter) > time.Hour, err
	})
	if _, client := d.by(t, "flux"); client != nil {
		if _, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("the new one: %v", err)
		}
	}
	if err := d.admin.CoreV1().Secrets("default").Delete(t.Context(), "flux", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deleted Secret to be back", func(ctx context.Context) (bool, error) {
		s, err := d.admin.CoreV1().Secrets("default").Get(ctx, "flux", metav1.GetOptions{})
		return err == nil && len(s.Data["value"]) > 0, ignoreNotFound(err)
	})
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// testBinding: what the tenant does to the binding gives nothing outside, and is undone.
func (d *accessed) testBinding(t *testing.T) {
	is := d.await(t, "flux", tenantapi.ReasonIssued).Status.Binding
	bindings := d.a.client.RbacV1().ClusterRoleBindings()
	if _, err := bindings.Patch(t.Context(), is.Name, types.JSONPatchType, []byte(`[{"op":"replace",`+
		`"path":"/subjects/0/name","value":"mallory"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	d.touch(t, "flux")
	eventually(t, "the binding to be as it was", func(ctx context.Context) (bool, error) {
		got, err := bindings.Get(ctx, is.Name, metav1.GetOptions{})
		return err == nil && len(got.Subjects) == 1 && got.Subjects[0].Name == "flux", ignoreNotFound(err)
	})
}

func (d *accessed) testRole(t *testing.T) {
	had := d.await(t, "flux", tenantapi.ReasonIssued).Status.Binding
	if _, err := d.accesses.Patch(t.Context(), "flux", types.MergePatchType,
		[]byte(`{"spec":{"role":"edit","namespace":"kube-system"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	d.await(t, "flux", tenantapi.ReasonIssued)
	if _, err := d.a.client.RbacV1().ClusterRoleBindings().Get(t.Context(), had.Name,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the binding of before: %v", err)
	}
	if _, err := d.a.client.RbacV1().RoleBindings("kube-system").Get(t.Context(), had.Name,
		metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := d.accesses.Patch(t.Context(), "flux", types.MergePatchType,
		[]byte(`{"spec":{"role":"nothing"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	got := d.await(t, "flux", tenantapi.ReasonNotIssued)
	if c := got.Status.Conditions[0]; !strings.Contains(c.Message, "there is no ClusterRole nothing in the space a") {
		t.Errorf("%+v", c)
	}
	if _, err := d.a.client.RbacV1().RoleBindings("kube-system").Get(t.Context(), had.Name,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the role that it no longer says is bound: %v", err)
	}
	if _, err := d.accesses.Patch(t.Context(), "flux", types.MergePatchType,
		[]byte(`{"spec":{"role":"view","namespace":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	d.await(t, "flux", tenantapi.ReasonIssued)
}

func (d *accessed) testTaken(t *testing.T) {
	secrets := d.admin.CoreV1().Secrets("default")
	before, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "theirs",
		Labels: map[string]string{tenantapi.AccessLabel: "theirs"}}, Data: map[string][]byte{"a": []byte("b")}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.give(t, "theirs", nil)
	d.give(t, "second", func(s *tenantapi.TenantAccessSpec) { s.Secret.Name = "flux" })
	ofFlux := d.secret(t, "flux")
	for _, name := range []string{"theirs", "second"} {
		got := d.await(t, name, tenantapi.ReasonSecretTaken)
		if got.Status.Binding != nil {
			t.Errorf("%s has the binding %v", name, got.Status.Binding)
		}
		if err := d.accesses.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		d.gone(t, name)
	}
	for name, was := range map[string]*corev1.Secret{"theirs": before, "flux": ofFlux} {
		if is := d.secret(t, name); is.UID != was.UID || is.ResourceVersion != was.ResourceVersion {
			t.Errorf("the Secret %s was changed: %+v", name, is)
		}
	}
}

// testNowhere: nothing is bound for a Secret that has no place.
func (d *accessed) testNowhere(t *testing.T) {
	d.give(t, "nowhere", func(s *tenantapi.TenantAccessSpec) { s.Secret.Namespace = "nowhere" })
	got := d.await(t, "nowhere", tenantapi.ReasonNotIssued)
	if c := got.Status.Conditions[0]; got.Status.Binding != nil ||
		c.Message != "there is no namespace nowhere for the Secret in the system space" {
		t.Errorf("%+v", got.Status)
	}
	if err := d.accesses.Delete(t.Context(), "nowhere", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.gone(t, "nowhere")
}

// gone waits until there is no access of a name.
func (d *accessed) gone(t *testing.T, name string) {
	t.Helper()
	eventually(t, name+" to be gone", func(ctx context.Context) (bool, error) {
		_, err := d.accesses.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
}

func (d *accessed) testEnds(t *testing.T) {
	d.give(t, "short", nil)
	had := d.await(t, "short", tenantapi.ReasonIssued).Status.Binding
	if _, err := d.accesses.Patch(t.Context(), "short", types.MergePatchType, fmt.Appendf(nil,
		`{"spec":{"expires":%q}}`, time.Now().UTC().Format(time.RFC3339)), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	got := d.await(t, "short", tenantapi.ReasonExpired)
	if got.Status.Binding != nil || got.Status.ExpirationTimestamp != nil {
		t.Errorf("%+v", got.Status)
	}
	d.nothingOf(t, "short", had)
}

// nothingOf checks that the Secret and the binding of an access are gone.
func (d *accessed) nothingOf(t *testing.T, secret string, binding *tenantapi.AccessBinding) {
	t.Helper()
	if _, err := d.admin.CoreV1().Secrets("default").Get(t.Context(), secret,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its Secret: %v", err)
	}
	if _, err := d.a.client.RbacV1().ClusterRoleBindings().Get(t.Context(), binding.Name,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its binding: %v", err)
	}
}

// testDeleted: who has the credentials has no right by them any more.
func (d *accessed) testDeleted(t *testing.T) {
	had := d.await(t, "flux", tenantapi.ReasonIssued).Status.Binding
	_, client := d.by(t, "flux")
	if err := d.accesses.Delete(t.Context(), "flux", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.gone(t, "flux")
	d.nothingOf(t, "flux", had)
	eventually(t, "its rights to be gone", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		return apierrors.IsForbidden(err), nil
	})
}

// testAgain: what was given out for a tenant is good for no later one of its name, whose access
// gets credentials of its own.
func (d *accessed) testAgain(t *testing.T) {
	d.give(t, "again", func(s *tenantapi.TenantAccessSpec) { s.Tenant = "b" })
	first := d.await(t, "again", tenantapi.ReasonIssued)
	config, _ := d.by(t, "again")
	d.give(t, "meanwhile", func(s *tenantapi.TenantAccessSpec) { s.Tenant = "b" })
	d.await(t, "meanwhile", tenantapi.ReasonIssued)
	if err := d.tenants.Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := d.accesses.Delete(t.Context(), "meanwhile", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.gone(t, "meanwhile")
	d.await(t, "again", tenantapi.ReasonNoTenant)
	planes.CreateTenant(t, d.Admin, "b")
	eventually(t, "credentials of the new tenant", func(ctx context.Context) (bool, error) {
		got, err := d.accesses.Get(ctx, "again", metav1.GetOptions{})
		return err == nil && got.Status.TenantUID != first.Status.TenantUID &&
			meta.IsStatusConditionTrue(got.Status.Conditions, tenantapi.AccessReady), err
	})
	if code, answer := get(t, config, "/api/v1/configmaps"); code != http.StatusUnauthorized {
		t.Errorf("those of the old one: %d %s", code, answer)
	}
	_, now := d.by(t, "again")
	may(t, "those of the new one", func(ctx context.Context) error {
		_, err := now.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		return err
	})
}

// testUnseen: in the space of a tenant there are the accesses of its own users, and none of the cluster.
func (d *accessed) testUnseen(t *testing.T) {
	for path, want := range map[string]int{
		"/api/v1/tenantaccesses/argocd":                http.StatusNotFound,
		"/tenants/a/api/v1/tenantaccesses/argocd":      http.StatusNotFound,
		"/tenants/system/api/v1/tenantaccesses":        http.StatusForbidden,
		"/tenants/system/api/v1/tenantaccesses/argocd": http.StatusForbidden,
	} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			if code, answer := do(t, d.a.config, method, path, "", nil); code != want {
				t.Errorf("%s %s: %d %s", method, path, code, answer)
			}
		}
	}
	if code, answer := get(t, d.a.config, "/api/v1/tenantaccesses"); code != http.StatusOK ||
		!strings.Contains(answer, `"items":[]`) {
		t.Errorf("%d %s", code, answer)
	}
	body := `{"apiVersion":"v1","kind":"TenantAccess","metadata":{"name":"mine"},"spec":{"tenant":"a","user":"x",` +
		`"role":"cluster-admin","secret":{"namespace":"default","name":"mine"}}}`
	if code, answer := do(t, d.a.config, http.MethodPost, "/tenants/system/api/v1/tenantaccesses", body,
		nil); code != http.StatusForbidden {
		t.Errorf("%d %s", code, answer)
	}
}

func (d *accessed) testPrinted(t *testing.T) {
	code, answer := do(t, d.Admin, http.MethodGet, "/api/v1/tenantaccesses/argocd", "",
		[]string{"Accept: application/json;as=Table;v=v1;g=meta.k8s.io"})
	if code != http.StatusOK ||
		!strings.Contains(answer, `"cells":["argocd","a","argocd","view","default/argocd","True",`) {
		t.Errorf("%d %s", code, answer)
	}
}

// testAddress: a4s tenant create asks for the address of the API by this.
func (d *accessed) testAddress(t *testing.T) {
	code, answer := get(t, d.Admin, "/api")
	var versions metav1.APIVersions
	if err := json.Unmarshal([]byte(answer), &versions); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, answer, err)
	}
	for _, of := range versions.ServerAddressByClientCIDRs {
		if of.ClientCIDR == "0.0.0.0/0" {
			server := string(d.secret(t, "argocd").Data["server"])
			if server != "https://"+of.ServerAddress+"/tenants/a" {
				t.Errorf("the API is at %s, and the Secret says %s", of.ServerAddress, server)
			}
			return
		}
	}
	t.Errorf("no address for others: %s", answer)
}
