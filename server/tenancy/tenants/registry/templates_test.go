package registry

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func TestValidateTemplate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*tenantapi.TenantTemplate)
		field  string // of the one error that is wanted
	}{
		"valid":   {func(*tenantapi.TenantTemplate) {}, ""},
		"a dot":   {func(t *tenantapi.TenantTemplate) { t.Name = "a.b" }, "metadata.name"},
		"a limit": {func(t *tenantapi.TenantTemplate) { t.Spec.Limits.Pods = limit(-1) }, "spec.limits.pods"},
		"a label": {func(t *tenantapi.TenantTemplate) {
			t.Spec.Labels = map[string]string{"a b": ""}
		}, "spec.labels"},
		"at a time":    {func(t *tenantapi.TenantTemplate) { t.Spec.AtATime = 101 }, "spec.atATime"},
		"none a time":  {func(t *tenantapi.TenantTemplate) { t.Spec.AtATime = -1 }, "spec.atATime"},
		"fewer failed": {func(t *tenantapi.TenantTemplate) { t.Spec.MaxFailed = -1 }, "spec.maxFailed"},
		"not an object": {func(t *tenantapi.TenantTemplate) {
			t.Spec.Objects[0].Raw = []byte(`{}`)
		}, "spec.objects[0]"},
		"a Secret": {func(t *tenantapi.TenantTemplate) {
			t.Spec.Secrets = []tenantapi.TemplateSecret{{Namespace: "default", Name: "a",
				From: tenantapi.TemplateSecretSource{Namespace: "default.b", Name: "a"}}}
		}, "spec.secrets[0].from.namespace"},
		"an access": {func(t *tenantapi.TenantTemplate) {
			t.Spec.Access = []tenantapi.TemplateAccess{access("flux", "system:admin")}
		}, "spec.access[0].spec.user"},
		"an access with a long name": {func(t *tenantapi.TenantTemplate) {
			t.Spec.Access = []tenantapi.TemplateAccess{access(strings.Repeat("x", 40), "flux")}
		}, "spec.access[0].name"},
		"a level":  {func(t *tenantapi.TenantTemplate) { t.Spec.PodSecurity = "strict" }, "spec.podSecurity"},
		"an image": {func(t *tenantapi.TenantTemplate) { t.Spec.Images = []string{"nginx"} }, "spec.images[0]"},
		"allowed": {func(t *tenantapi.TenantTemplate) {
			t.Spec.Allow = &tenantapi.TenantAllowances{HostPorts: []string{"http"}}
		}, "spec.allow.hostPorts[0]"},
		"all nodes": {func(t *tenantapi.TenantTemplate) {
			t.Spec.Scheduling = &tenantapi.TenantScheduling{Exclusive: true}
		}, "spec.scheduling.nodeSelector"},
		"a quota": {func(t *tenantapi.TenantTemplate) {
			t.Spec.Limits = &tenantapi.TenantLimits{
				Quota: map[string]resource.Quantity{"count/nodes": resource.MustParse("1")}}
		}, "spec.limits.quota"},
	} {
		in := &tenantapi.TenantTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gold"},
			Spec: tenantapi.TenantTemplateSpec{Limits: &tenantapi.TenantLimits{Pods: limit(3)},
				Objects: []runtime.RawExtension{{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":` +
					`{"name":"a","namespace":"default"}}`)}}}}
		was := in.DeepCopy()
		tc.change(in)
		errs := checkTemplate(as(), in, nil)
		if tc.field == "" && len(errs) == 0 {
			continue
		}
		if len(errs) != 1 || tc.field == "" || !strings.HasPrefix(errs[0].Field, tc.field) {
			t.Errorf("%s: %v, want an error of %q", name, errs, tc.field)
		}
		if name == "a dot" {
			continue
		}
		if errs := checkTemplate(as(), in, was); len(errs) != 1 {
			t.Errorf("%s, in a change: %v", name, errs)
		}
		// What an older version took can still change its status, and go.
		if errs := checkTemplate(as(), in, in.DeepCopy()); len(errs) != 0 {
			t.Errorf("%s, as it was: %v", name, errs)
		}
	}
}

func access(name, user string) tenantapi.TemplateAccess {
	return tenantapi.TemplateAccess{Name: name + "-$(tenant.name)", Spec: tenantapi.TenantAccessSpec{
		Tenant: "$(tenant.name)", User: user,
		Secret: tenantapi.AccessSecret{Namespace: "flux-system", Name: "$(tenant.name)"}}}
}

// TestWhoMayGiveAccess: a template gives no access that who writes it could not give, and who changes something
// else is not asked.
func TestWhoMayGiveAccess(t *testing.T) {
	var asked []string
	may := authorizer.DecisionNoOpinion
	r := &templateREST{authorizer: authorizer.AuthorizerFunc(func(
		_ context.Context, a authorizer.Attributes,
	) (authorizer.Decision, string, error) {
		asked = append(asked, a.GetUser().GetName()+" "+a.GetVerb()+" "+a.GetAPIGroup()+"/"+a.GetResource())
		return may, "", nil
	})}
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "alice"})
	without := &tenantapi.TenantTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gold"}}
	with := without.DeepCopy()
	with.Spec.Access = []tenantapi.TemplateAccess{access("flux", "flux")}
	changed := with.DeepCopy()
	changed.Spec.MaxFailed = 3
	other := with.DeepCopy()
	other.Spec.Access[0].Spec.User = "mallory"
	two := with.DeepCopy()
	two.Spec.Access = append(two.Spec.Access, access("argocd", "argocd"))
	const create, remove = "alice create /tenantaccesses", "alice delete /tenantaccesses"
	for name, c := range map[string]struct {
		is, was *tenantapi.TenantTemplate // was is nil for a new one
		asks    []string
	}{
		"new without": {without, nil, nil}, "new": {with, nil, []string{create}},
		"added": {with, without, []string{create}}, "changed": {changed, with, nil},
		"another": {other, with, []string{create}}, "one more": {two, with, []string{create}},
		"taken off": {without, with, []string{remove}}, "one of two taken off": {with, two, []string{remove}},
		"one of two changed, one taken off": {other, two, []string{create, remove}},
	} {
		for _, may = range []authorizer.Decision{authorizer.DecisionNoOpinion, authorizer.DecisionAllow} {
			asked = nil
			var err error
			if c.was == nil {
				err = r.checkNew(ctx, c.is)
			} else {
				err = r.checkChanged(ctx, c.is, c.was)
			}
			want := c.asks
			refused := len(want) > 0 && may != authorizer.DecisionAllow
			if refused {
				want = want[:1]
			}
			if (err != nil) != refused || err != nil && !apierrors.IsForbidden(err) || !slices.Equal(asked, want) {
				t.Errorf("%s, %v: %v, asked %q", name, may, err, asked)
			}
		}
	}
	if err := r.checkNew(t.Context(), with); !apierrors.IsForbidden(err) {
		t.Errorf("nobody: %v", err)
	}
}

// TestTenantsAreMadeAwakeByOneWrite: of those with accesses by their template or with nodes for themselves alone, the
// first write says that their space is to be made. A server that is killed does not come to a second one.
func TestTenantsAreMadeAwakeByOneWrite(t *testing.T) {
	for name, c := range map[string]struct{ open, keeps, awake bool }{
		"neither": {}, "accesses": {open: true, awake: true}, "nodes": {keeps: true, awake: true},
	} {
		in := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		in.Spec.Scheduling = &tenantapi.TenantScheduling{Exclusive: c.keeps}
		ctx := awaited(t.Context())
		note(ctx, c.open)
		newStrategy().PrepareForCreate(ctx, in)
		if in.Dormant() == c.awake {
			t.Errorf("%s: written with %+v", name, in.Status.Conditions)
		}
	}
}

// TestTenantsAreAwakenedByOneWrite: so is one that is there and gets such a template.
func TestTenantsAreAwakenedByOneWrite(t *testing.T) {
	r := &tenantREST{open: func(_ context.Context, t *tenantapi.Tenant) (bool, error) {
		return t.Spec.Template == "open", nil
	}}
	for template, want := range map[string]bool{"open": true, "closed": false} {
		was := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}}
		was.Status.Conditions = []metav1.Condition{tenantapi.DormantCondition(metav1.Now())}
		in := was.DeepCopy()
		in.Spec.Template, in.Status = template, tenantapi.TenantStatus{}
		ctx := awaited(t.Context())
		if _, err := r.filled(ctx, in, was); err != nil {
			t.Fatal(err)
		}
		if newStrategy().PrepareForUpdate(ctx, in, was); in.Dormant() == want {
			t.Errorf("%s: written with %+v", template, in.Status.Conditions)
		}
	}
}

// TestTenantsWithAccessAreWoken: somebody waits for their spaces who makes no request before. Here they got the
// access after they were written.
func TestTenantsWithAccessAreWoken(t *testing.T) {
	errRead := errors.New("no datastore")
	var woken []string
	r := &tenantREST{
		open: func(_ context.Context, t *tenantapi.Tenant) (bool, error) {
			if t.Spec.Template == "unread" {
				return false, errRead
			}
			return t.Spec.Template == "open", nil
		},
		wake: func(_ context.Context, name string) (runtime.Object, error) {
			woken = append(woken, name)
			return &tenantapi.Tenant{}, nil
		},
	}
	for template, want := range map[string]bool{"": false, "closed": false, "open": true, "unread": false} {
		woken = nil
		in := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Spec: tenantapi.TenantSpec{Template: template}}
		newStrategy().PrepareForCreate(t.Context(), in)
		if !in.Dormant() {
			t.Errorf("first written with %+v", in.Status.Conditions)
		}
		got, err := r.woken(t.Context(), in, nil, nil)
		if slices.Equal(woken, []string{"a"}) != want || apierrors.IsInternalError(err) != (template == "unread") ||
			err == nil && got == nil || err == nil && got.(*tenantapi.Tenant).Dormant() == want {
			t.Errorf("made from %q: %v, %v, woken %q", template, got, err, woken)
		}
		woken = nil
		if _, err := r.woken(t.Context(), in, []string{metav1.DryRunAll}, nil); err != nil || len(woken) > 0 {
			t.Errorf("a dry run from %q: %v, woken %q", template, err, woken)
		}
		if _, err := r.woken(t.Context(), nil, nil, errRead); !errors.Is(err, errRead) {
			t.Errorf("not written: %v", err)
		}
		in.Status.Conditions = []metav1.Condition{tenantapi.MadeCondition()}
		if _, err := r.woken(t.Context(), in, nil, nil); err != nil || len(woken) > 0 {
			t.Errorf("made already: %v, woken %q", err, woken)
		}
	}
}

func TestTemplateGenerations(t *testing.T) {
	in := &tenantapi.TenantTemplate{Status: tenantapi.TenantTemplateStatus{Tenants: 3}}
	prepareNewTemplate(in)
	if in.Generation != 1 || in.Status.Tenants != 0 {
		t.Errorf("new: %+v", in)
	}
	was := in.DeepCopy()
	was.Status.Tenants = 2
	in.Labels, in.Status.Tenants = map[string]string{"a": "b"}, 9
	prepareChangedTemplate(in, was)
	if in.Generation != 1 || in.Status.Tenants != 2 {
		t.Errorf("with a label: %+v", in)
	}
	in.Spec.Labels = map[string]string{"a": "b"}
	if prepareChangedTemplate(in, was); in.Generation != 2 {
		t.Errorf("changed: %d", in.Generation)
	}
}

// TestTheExamplesAreValid: tests of spaces apply the first.
func TestTheExamplesAreValid(t *testing.T) {
	for _, name := range []string{"team", "team-argocd"} {
		text, err := os.ReadFile("../../../../docs/examples/tenants/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var in tenantapi.TenantTemplate
		if err := yaml.UnmarshalStrict(text, &in); err != nil {
			t.Fatal(err)
		}
		errs := checkTemplate(as(), &in, nil)
		if len(errs) > 0 || in.Name != name || len(in.Spec.Objects)+len(in.Spec.Secrets) == 0 {
			t.Errorf("%s: %v, %+v", name, errs, in.Spec)
		}
	}
}
