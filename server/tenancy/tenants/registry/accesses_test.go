package registry

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func newAccess() *tenantapi.TenantAccess {
	a := &tenantapi.TenantAccess{ObjectMeta: metav1.ObjectMeta{Name: "argocd-team-a"},
		Spec: tenantapi.TenantAccessSpec{Tenant: "team-a", User: "argocd", Role: "edit",
			Secret: tenantapi.AccessSecret{Namespace: "argocd", Name: "team-a"}}}
	prepareNewAccess(a)
	return a
}

// TestValidateAccess: nobody gets more by an access than a user of a tenant has, nor a Secret
// anywhere but in the system space.
func TestValidateAccess(t *testing.T) {
	account := &tenantapi.AccessAccount{Namespace: "default", Name: "builder"}
	many := make([]string, mostGroups+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for name, tc := range map[string]struct {
		change func(*tenantapi.TenantAccess)
		field  string // of the one error that is wanted
	}{
		"valid":      {func(*tenantapi.TenantAccess) {}, ""},
		"no role":    {func(a *tenantapi.TenantAccess) { a.Spec.Role = "" }, ""},
		"a group":    {func(a *tenantapi.TenantAccess) { a.Spec.Groups = []string{"developers"} }, ""},
		"a mail":     {func(a *tenantapi.TenantAccess) { a.Spec.User = "oidc:Alice B <a@example.com>" }, ""},
		"a dot":      {func(a *tenantapi.TenantAccess) { a.Name = "a.b" }, "metadata.name"},
		"no tenant":  {func(a *tenantapi.TenantAccess) { a.Spec.Tenant = "" }, "spec.tenant"},
		"the system": {func(a *tenantapi.TenantAccess) { a.Spec.Tenant = "system" }, "spec.tenant"},
		"all":        {func(a *tenantapi.TenantAccess) { a.Spec.Tenant = "all" }, "spec.tenant"},
		"a path":     {func(a *tenantapi.TenantAccess) { a.Spec.Tenant = "a/../system" }, "spec.tenant"},
		"nobody":     {func(a *tenantapi.TenantAccess) { a.Spec.User = "" }, "spec.user"},
		"its admin":  {func(a *tenantapi.TenantAccess) { a.Spec.User = "admin" }, "spec.user"},
		"a reserved user": {func(a *tenantapi.TenantAccess) {
			a.Spec.User = "system:serviceaccount:default:default"
		}, "spec.user"},
		"a tenant's user": {func(a *tenantapi.TenantAccess) { a.Spec.User = "tenant:team-b" }, "spec.user"},
		"a long user":     {func(a *tenantapi.TenantAccess) { a.Spec.User = strings.Repeat("x", 65) }, "spec.user"},
		"an odd user":     {func(a *tenantapi.TenantAccess) { a.Spec.User = "a\nb" }, "spec.user"},
		"masters": {func(a *tenantapi.TenantAccess) {
			a.Spec.Groups = []string{"system:masters"}
		}, "spec.groups[0]"},
		"a tenant's group": {func(a *tenantapi.TenantAccess) {
			a.Spec.Groups = []string{"tenant:team-b"}
		}, "spec.groups[0]"},
		"no group":      {func(a *tenantapi.TenantAccess) { a.Spec.Groups = []string{""} }, "spec.groups[0]"},
		"a group twice": {func(a *tenantapi.TenantAccess) { a.Spec.Groups = []string{"a", "a"} }, "spec.groups[1]"},
		"many groups":   {func(a *tenantapi.TenantAccess) { a.Spec.Groups = many }, "spec.groups"},
		"both":          {func(a *tenantapi.TenantAccess) { a.Spec.ServiceAccount = account }, "spec.user"},
		"an account of another space": {func(a *tenantapi.TenantAccess) {
			a.Spec.User, a.Spec.ServiceAccount = "", &tenantapi.AccessAccount{Namespace: "default.team-b", Name: "x"}
		}, "spec.serviceAccount.namespace"},
		"a role's path": {func(a *tenantapi.TenantAccess) { a.Spec.Role = "a/b" }, "spec.role"},
		"a namespace of another space": {func(a *tenantapi.TenantAccess) {
			a.Spec.Namespace = "default.team-b"
		}, "spec.namespace"},
		"a namespace without a role": {func(a *tenantapi.TenantAccess) {
			a.Spec.Role, a.Spec.Namespace = "", "default"
		}, "spec.role"},
		"too short": {func(a *tenantapi.TenantAccess) {
			a.Spec.ExpirationSeconds = limit(599)
		}, "spec.expirationSeconds"},
		"too long": {func(a *tenantapi.TenantAccess) {
			a.Spec.ExpirationSeconds = limit(30*24*3600 + 1)
		}, "spec.expirationSeconds"},
		"a Secret of a tenant": {func(a *tenantapi.TenantAccess) {
			a.Spec.Secret.Namespace = "default.team-a"
		}, "spec.secret.namespace"},
		"no Secret":      {func(a *tenantapi.TenantAccess) { a.Spec.Secret.Name = "" }, "spec.secret.name"},
		"another format": {func(a *tenantapi.TenantAccess) { a.Spec.Secret.Format = "x" }, "spec.secret.format"},
		"a label of ours": {func(a *tenantapi.TenantAccess) {
			a.Spec.Secret.Labels = map[string]string{"x.a4s.io/y": ""}
		}, "spec.secret.labels"},
		"a bad label": {func(a *tenantapi.TenantAccess) {
			a.Spec.Secret.Labels = map[string]string{"a b": ""}
		}, "spec.secret.labels"},
		"a server":   {func(a *tenantapi.TenantAccess) { a.Spec.Server = "https://a4s.example.com:6443" }, ""},
		"in clear":   {func(a *tenantapi.TenantAccess) { a.Spec.Server = "http://example.com" }, "spec.server"},
		"a tenant's": {func(a *tenantapi.TenantAccess) { a.Spec.Server = "https://a/tenants/b" }, "spec.server"},
	} {
		a := newAccess()
		tc.change(a)
		errs := checkAccess(as(), a, nil)
		if tc.field == "" && len(errs) > 0 ||
			tc.field != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Field, tc.field)) {
			t.Errorf("%s: %v, want an error of %q", name, errs, tc.field)
		}
		// What an older version took can still change its status, and go.
		if errs := checkAccess(as(), a, a.DeepCopy()); len(errs) != 0 && name != "a dot" {
			t.Errorf("%s, as it was: %v", name, errs)
		}
	}
}

// TestAccessStaysWhoseItIs: what was given out would stay where it is.
func TestAccessStaysWhoseItIs(t *testing.T) {
	was := newAccess()
	if !slices.Contains(was.Finalizers, tenantapi.AccessFinalizer) || was.Generation != 1 ||
		was.Spec.Secret.Format != tenantapi.FormatKubeconfig || was.Spec.Life() != tenantapi.DefaultAccessSeconds {
		t.Errorf("%+v", was)
	}
	for field, change := range map[string]func(*tenantapi.TenantAccess){
		"spec.tenant":           func(a *tenantapi.TenantAccess) { a.Spec.Tenant = "team-b" },
		"spec.user":             func(a *tenantapi.TenantAccess) { a.Spec.User = "flux" },
		"spec.groups":           func(a *tenantapi.TenantAccess) { a.Spec.Groups = []string{"a"} },
		"spec.secret.namespace": func(a *tenantapi.TenantAccess) { a.Spec.Secret.Namespace = "flux-system" },
		"spec.secret.name":      func(a *tenantapi.TenantAccess) { a.Spec.Secret.Name = "x" },
	} {
		a := was.DeepCopy()
		change(a)
		prepareChangedAccess(a, was)
		if errs := checkAccess(as(), a, was); len(errs) != 1 || errs[0].Field != field || a.Generation != 2 {
			t.Errorf("%s: %v, generation %d", field, errs, a.Generation)
		}
	}
	end := metav1.Now()
	a := was.DeepCopy()
	a.Spec.Role, a.Spec.Namespace, a.Spec.Expires, a.Spec.Server = "view", "apps", &end, "https://a4s.example.com"
	a.Spec.ExpirationSeconds, a.Spec.Secret.Format = limit(600), tenantapi.FormatArgoCD
	a.Spec.Secret.Labels = map[string]string{"a": "b"}
	if errs := checkAccess(as(), a, was); len(errs) > 0 {
		t.Errorf("what can change: %v", errs)
	}
}
