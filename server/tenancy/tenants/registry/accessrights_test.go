package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// newOwnAccess is one in the space of team-a.
func newOwnAccess() *tenantapi.TenantAccess {
	a := newAccess()
	a.Name, a.Spec.Tenant, a.Finalizers = "ci.team-a.tenant", "", nil
	prepareNewAccess(a)
	return a
}

// asked are the questions that were asked of an authorizer.
type asked struct {
	questions []string
	// no are those that are answered so.
	no func(string) bool
}

func (q *asked) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	text := strings.TrimSpace(fmt.Sprintf("%s %s/%s/%s %s/%s", a.GetVerb(), a.GetAPIGroup(), a.GetResource(),
		a.GetSubresource(), a.GetNamespace(), a.GetName()))
	q.questions = append(q.questions, text)
	if q.no != nil && q.no(text) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionAllow, "", nil
}

func (q *asked) authorizer() authorizer.Authorizer {
	return authorizer.AuthorizerFunc(q.Authorize)
}

// TestRightsOfAnAccess: whoever makes an access in the space of a tenant is asked for each right that it gives, in
// that space.
func TestRightsOfAnAccess(t *testing.T) {
	account := &tenantapi.AccessAccount{Namespace: "ci", Name: "deployer"}
	for name, tc := range map[string]struct {
		change func(*tenantapi.TenantAccess)
		want   []string
		bound  string
	}{
		"a user in all of the space": {func(a *tenantapi.TenantAccess) {
			a.Spec.Groups = []string{"b", "c"}
		}, []string{"impersonate /users/ /argocd", "impersonate /groups/ /b", "impersonate /groups/ /c",
			"create /secrets/ argocd.team-a/", "create rbac.authorization.k8s.io/clusterrolebindings/ /"}, "edit "},
		"an account in a namespace": {func(a *tenantapi.TenantAccess) {
			a.Spec.User, a.Spec.ServiceAccount, a.Spec.Namespace, a.Spec.Role = "", account, "apps", "mine"
		}, []string{"create /serviceaccounts/token ci.team-a/deployer", "create /secrets/ argocd.team-a/",
			"create rbac.authorization.k8s.io/rolebindings/ apps.team-a/"}, "mine.team-a.tenant apps.team-a"},
		"no role": {func(a *tenantapi.TenantAccess) { a.Spec.Role = "" },
			[]string{"impersonate /users/ /argocd", "create /secrets/ argocd.team-a/"}, ""},
		"of the cluster": {func(a *tenantapi.TenantAccess) { a.Name = "ci" }, nil, ""},
	} {
		a := newOwnAccess()
		tc.change(a)
		questions, bound := &asked{}, ""
		r := &accessREST{rights: rights{questions.authorizer(), func(
			_ context.Context, role rbacv1.RoleRef, namespace string,
		) error {
			bound = role.Name + " " + namespace
			return nil
		}}}
		if err := r.checkNew(as(), a); err != nil || !slices.Equal(questions.questions, tc.want) || bound != tc.bound {
			t.Errorf("%s: asked %q, bound %q, %v", name, questions.questions, bound, err)
		}
		for i, lacks := range tc.want {
			r.rights.authorizer = (&asked{no: func(q string) bool { return q == lacks }}).authorizer()
			err := r.checkNew(as(), a)
			if !apierrors.IsForbidden(err) || strings.Contains(fmt.Sprint(err), ".team-a") {
				t.Errorf("%s without the right %d, %s: %v", name, i, lacks, err)
			}
		}
		if tc.bound == "" {
			continue
		}
		for _, cause := range []error{errors.New("more than they have"),
			apierrors.NewNotFound(rbacv1.Resource("clusterroles"), "mine.team-a.tenant")} {
			r.rights = rights{questions.authorizer(), func(context.Context, rbacv1.RoleRef, string) error {
				return cause
			}}
			if err := r.checkNew(as(), a); !apierrors.IsForbidden(err) ||
				strings.Contains(fmt.Sprint(err), ".team-a") {
				t.Errorf("%s without the right to bind: %v", name, err)
			}
		}
		r.rights = rights{}
		if err := r.checkNew(as(), a); err == nil {
			t.Errorf("%s is made where nobody is asked", name)
		}
	}
}

// TestRightsOfAChange: rights are asked for whatever changes of what an access says, and for nothing else.
func TestRightsOfAChange(t *testing.T) {
	end := tenantapi.TenantAccess{}.CreationTimestamp
	for name, tc := range map[string]struct {
		change func(*tenantapi.TenantAccess)
		asks   bool
	}{
		"nothing":       {func(*tenantapi.TenantAccess) {}, false},
		"a label":       {func(a *tenantapi.TenantAccess) { a.Labels = map[string]string{"a": "b"} }, false},
		"a finalizer":   {func(a *tenantapi.TenantAccess) { a.Finalizers = []string{"a/b"} }, false},
		"its role":      {func(a *tenantapi.TenantAccess) { a.Spec.Role = "view" }, true},
		"its namespace": {func(a *tenantapi.TenantAccess) { a.Spec.Namespace = "apps" }, true},
		"its life":      {func(a *tenantapi.TenantAccess) { a.Spec.ExpirationSeconds = limit(601) }, true},
		"its end":       {func(a *tenantapi.TenantAccess) { a.Spec.Expires = &end }, true},
		"labels of its Secret": {func(a *tenantapi.TenantAccess) {
			a.Spec.Secret.Labels = map[string]string{"a": "b"}
		}, true},
		"the server": {func(a *tenantapi.TenantAccess) { a.Spec.Server = "https://a.example.com" }, true},
	} {
		was, a, questions := newOwnAccess(), newOwnAccess(), &asked{}
		tc.change(a)
		r := &accessREST{rights: rights{questions.authorizer(),
			func(context.Context, rbacv1.RoleRef, string) error { return nil }}}
		if err := r.checkChanged(as(), a, was); err != nil || len(questions.questions) > 0 != tc.asks {
			t.Errorf("%s: asked %q, %v", name, questions.questions, err)
		}
	}
}

// TestValidateOwnAccess: an access in the space of a tenant is to that space, waits for nothing to go, and its
// certificates end soon.
func TestValidateOwnAccess(t *testing.T) {
	a := newOwnAccess()
	if len(a.Finalizers) > 0 || a.To() != "team-a" {
		t.Errorf("%+v", a)
	}
	for name, prepare := range map[string]func(*tenantapi.TenantAccess){"made": prepareNewAccess,
		"changed": func(a *tenantapi.TenantAccess) { prepareChangedAccess(a, newOwnAccess()) }} {
		said := newOwnAccess()
		said.Finalizers = []string{"a/b", tenantapi.AccessFinalizer}
		if prepare(said); !slices.Equal(said.Finalizers, []string{"a/b"}) {
			t.Errorf("%s, it waits for nobody by %q", name, said.Finalizers)
		}
	}
	for name, tc := range map[string]struct {
		change func(*tenantapi.TenantAccess)
		field  string
	}{
		"valid":       {func(*tenantapi.TenantAccess) {}, ""},
		"its own":     {func(a *tenantapi.TenantAccess) { a.Spec.Tenant = "team-a" }, ""},
		"another one": {func(a *tenantapi.TenantAccess) { a.Spec.Tenant = "team-b" }, "spec.tenant"},
		"the system":  {func(a *tenantapi.TenantAccess) { a.Spec.Tenant = "system" }, "spec.tenant"},
		"a dot":       {func(a *tenantapi.TenantAccess) { a.Name = "a.b.team-a.tenant" }, "metadata.name"},
		"a long certificate": {func(a *tenantapi.TenantAccess) {
			a.Spec.ExpirationSeconds = limit(86401)
		}, "spec.expirationSeconds"},
		"for too long anyway": {func(a *tenantapi.TenantAccess) {
			a.Spec.ExpirationSeconds = limit(2592001)
		}, "spec.expirationSeconds"},
		"a long token": {func(a *tenantapi.TenantAccess) {
			a.Spec.User, a.Spec.ServiceAccount = "", &tenantapi.AccessAccount{Namespace: "default", Name: "x"}
			a.Spec.ExpirationSeconds = limit(86401)
		}, ""},
		"a long role": {func(a *tenantapi.TenantAccess) {
			a.Spec.Role = strings.Repeat("x", 254)
		}, "spec.role"},
		"its admin": {func(a *tenantapi.TenantAccess) { a.Spec.User = "admin" }, "spec.user"},
		"masters": {func(a *tenantapi.TenantAccess) {
			a.Spec.Groups = []string{"system:masters"}
		}, "spec.groups[0]"},
		"a Secret elsewhere": {func(a *tenantapi.TenantAccess) {
			a.Spec.Secret.Namespace = "default.team-b"
		}, "spec.secret.namespace"},
	} {
		a := newOwnAccess()
		tc.change(a)
		errs := checkAccess(as(), a, nil)
		if tc.field == "" && len(errs) > 0 ||
			tc.field != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Field, tc.field)) {
			t.Errorf("%s: %v, want an error of %q", name, errs, tc.field)
		}
	}
	was := newOwnAccess()
	a = was.DeepCopy()
	a.Spec.Tenant = "team-a"
	if errs := checkAccess(as(), a, was); len(errs) > 0 {
		t.Errorf("its own name, said later: %v", errs)
	}
}
