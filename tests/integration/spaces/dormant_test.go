package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// dormancy is a control plane with tenants that nobody uses.
type dormancy struct {
	*plane
	tenants *tenantapi.Client
}

// TestDormantTenants: a tenant that nobody has used yet is its object alone, and its
// space is made by the first request that may use it.
func TestDormantTenants(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	d := &dormancy{plane: start(t, nil)}
	var err error
	if d.tenants, err = tenantapi.NewClient(d.Admin, nil); err != nil {
		t.Fatal(err)
	}
	t.Run("costs its object alone", d.testAlone)
	t.Run("nobody makes a space who may not use it", d.testRefused)
	t.Run("its first request makes the space", d.testFirst)
	t.Run("many first requests at once", d.testMany)
	t.Run("an administrator of the cluster uses it", d.testSystem)
	t.Run("an administrator of the cluster takes the place of its user", d.testImpersonated)
	t.Run("is deleted without being made", d.testDeleted)
	t.Run("lists have pages", d.testPages)
}

// sleeper makes a tenant and returns the access of its administrator.
func (d *dormancy) sleeper(t *testing.T, name string) *rest.Config {
	t.Helper()
	planes.CreateTenant(t, d.Admin, name)
	user, organizations := planes.AdminOf(name)
	return d.user(t, user, organizations, nil)
}

// reason is why a space is ready, or not.
func (d *dormancy) reason(t *testing.T, name string) string {
	t.Helper()
	got, err := d.tenants.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := meta.FindStatusCondition(got.Status.Conditions, tenantapi.SpaceReady)
	if c == nil || c.Status != metav1.ConditionTrue {
		t.Fatalf("%s is not ready: %+v", name, got.Status)
	}
	return c.Reason
}

// namesOf are the tenants that a field selector selects.
func (d *dormancy) namesOf(t *testing.T, selector string) []string {
	t.Helper()
	list, err := d.tenants.List(t.Context(), metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func (d *dormancy) testAlone(t *testing.T) {
	d.sleeper(t, "alone")
	if r := d.reason(t, "alone"); r != tenantapi.ReasonDormant {
		t.Errorf("it is %s", r)
	}
	if keys := d.keys(t, "alone"); !slices.Equal(keys, []string{"/registry/tenants/alone"}) {
		t.Errorf("the datastore has %q", keys)
	}
	for dormant, want := range map[string]bool{"true": true, "false": false} {
		names := d.namesOf(t, tenantapi.SelectDormant+"="+dormant)
		if slices.Contains(names, "alone") != want || slices.Contains(names, "system") == want {
			t.Errorf("%s=%s selects %q", tenantapi.SelectDormant, dormant, names)
		}
	}
}

// testRefused: a space is made for those alone who may use it.
func (d *dormancy) testRefused(t *testing.T) {
	d.sleeper(t, "shut")
	d.bareTenant(t, "other")
	as := func(of *rest.Config, user string, extra map[string][]string) *rest.Config {
		out := rest.CopyConfig(of)
		out.Impersonate = rest.ImpersonationConfig{UserName: user, Extra: extra}
		return out
	}
	nobody := d.user(t, "nobody", nil, nil)
	other := d.user(t, "admin", []string{"tenant:other"}, nil)
	ofShut := map[string][]string{"a4s.io/tenant": {"shut"}}
	for who, config := range map[string]*rest.Config{
		"without an identity":         rest.AnonymousClientConfig(d.Admin),
		"without rights":              nobody,
		"as an administrator":         as(nobody, "admin", nil),
		"as an administrator of it":   as(nobody, "admin", ofShut),
		"of another tenant":           other,
		"of another tenant, as of it": as(other, "admin", ofShut),
	} {
		for _, path := range []string{
			"/tenants/shut/api/v1/namespaces", "/api/v1/tenants/shut/namespaces/default/pods", "/tenants/shut/api/v1",
			"/api/v1/namespaces/default.shut", "/api/v1/namespaces/default.shut/configmaps",
			"/apis/apps/v1/tenants/shut/deployments", "/tenants/shut/openapi/v3",
			"/tenants/shut/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			"/tenants/shut/apis/authentication.k8s.io/v1/selfsubjectreviews",
		} {
			get(t, config, path)
			for _, body := range []string{
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`,
				`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",` +
					`"spec":{"resourceAttributes":{"verb":"get","resource":"pods","namespace":"default"}}}`,
				`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`,
			} {
				do(t, config, http.MethodPost, path, body, nil)
			}
		}
		if r := d.reason(t, "shut"); r != tenantapi.ReasonDormant {
			t.Fatalf("somebody %s has made the space", who)
		}
	}
	if keys := d.keys(t, "shut"); len(keys) != 1 {
		t.Errorf("the datastore has %q", keys)
	}
}

func (d *dormancy) testFirst(t *testing.T) {
	client, err := kubernetes.NewForConfig(d.sleeper(t, "first"))
	if err != nil {
		t.Fatal(err)
	}
	// A pod, at once. It needs the service account.
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"default", "kube-system", "kube-public"} {
		if _, err := client.CoreV1().ServiceAccounts(ns).Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		bundle, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err != nil || bundle.Data["ca.crt"] == "" {
			t.Errorf("the CA bundle in %s is %+v, %v", ns, bundle, err)
		}
	}
	// What servers of APIs look for when they start.
	const extension = "extension-apiserver-authentication"
	if m, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), extension,
		metav1.GetOptions{}); err != nil ||
		len(m.Data) > 0 {
		t.Errorf("%+v, %v", m, err)
	}
	if r, err := client.RbacV1().Roles("kube-system").Get(t.Context(), extension+"-reader",
		metav1.GetOptions{}); err != nil || len(r.Rules) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r := d.reason(t, "first"); r != tenantapi.ReasonMade {
		t.Errorf("the space is %s", r)
	}
	list, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 3 {
		t.Errorf("namespaces: %+v, %v", list, err)
	}
}

// testMany has clients on the way to one space that do not know each other, some of
// which do not wait for it.
func (d *dormancy) testMany(t *testing.T) {
	access := d.sleeper(t, "busy")
	var group errgroup.Group
	for i := range 32 {
		client, err := kubernetes.NewForConfig(access)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%4 == 0 {
				cancel()
			}
			_, err := client.CoreV1().ServiceAccounts("default").List(ctx, metav1.ListOptions{})
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func (d *dormancy) testSystem(t *testing.T) {
	d.sleeper(t, "by-path")
	if code, body := get(t, d.Admin, "/tenants/by-path/api/v1/namespaces/default"); code != http.StatusOK {
		t.Errorf("by the path of the tenant: %d %s", code, body)
	}
	d.sleeper(t, "by-name")
	if _, err := d.admin.CoreV1().ConfigMaps("default.by-name").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("by the composite name of its namespace: %v", err)
	}
	for _, name := range []string{"by-path", "by-name"} {
		if r := d.reason(t, name); r != tenantapi.ReasonMade {
			t.Errorf("%s is %s", name, r)
		}
	}
	// Who looks at all spaces uses none.
	d.sleeper(t, "looked-at")
	for _, path := range []string{"/api/v1/pods", "/api/v1/tenants/all/pods", "/api/v1/tenants/looked-at"} {
		if code, body := get(t, d.Admin, path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if r := d.reason(t, "looked-at"); r != tenantapi.ReasonDormant {
		t.Errorf("looked-at is %s", r)
	}
}

func (d *dormancy) testImpersonated(t *testing.T) {
	d.sleeper(t, "taken")
	as := rest.CopyConfig(d.Admin)
	as.Impersonate = rest.ImpersonationConfig{
		UserName: "admin", Extra: map[string][]string{"a4s.io/tenant": {"taken"}},
	}
	if code, body := get(t, as, "/api/v1/namespaces/default/pods"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	if r := d.reason(t, "taken"); r != tenantapi.ReasonMade {
		t.Errorf("the space is %s", r)
	}
}

func (d *dormancy) testDeleted(t *testing.T) {
	access := d.sleeper(t, "brief")
	if err := d.tenants.Delete(t.Context(), "brief", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	planes.Eventually(t, "the tenant to be gone", func(ctx context.Context) (bool, error) {
		_, err := d.tenants.Get(ctx, "brief", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if code, body := get(t, access, "/api/v1/namespaces"); code < http.StatusBadRequest {
		t.Errorf("its user is answered: %d %s", code, body)
	}
	if keys := d.keys(t, "brief"); len(keys) > 0 {
		t.Errorf("the datastore has %q", keys)
	}
}

// testPages: no answer has more tenants than fit into one, and pages have them all.
func (d *dormancy) testPages(t *testing.T) {
	const page, more, workers = 10_000, 50, 32
	var group errgroup.Group
	group.SetLimit(workers)
	for i := range page + more {
		group.Go(func() error {
			_, err := d.tenants.Create(t.Context(), &tenantapi.Tenant{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("paged-%05d", i)},
			}, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	seen, options := map[string]bool{}, metav1.ListOptions{}
	for pages := 0; ; pages++ {
		list, err := d.tenants.List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) > page {
			t.Fatalf("one answer has %d tenants", len(list.Items))
		}
		for i := range list.Items {
			if name := list.Items[i].Name; strings.HasPrefix(name, "paged-") {
				seen[name] = true
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
		if pages > 2 {
			t.Fatal("the pages have no end")
		}
	}
	if len(seen) != page+more {
		t.Errorf("the pages have %d tenants of %d", len(seen), page+more)
	}
}
