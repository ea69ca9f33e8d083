package admission

import (
	"net/http"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/tracing"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/reach"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// TestAnonymous: what a tenant calls default/kubernetes must not get the
// credentials of the API server.
func TestAnonymous(t *testing.T) {
	itself := &rest.Config{BearerToken: "of the API server"}
	wrap := anonymous(webhook.NewDefaultAuthenticationInfoResolverWrapper(&http.Transport{}, nil, itself,
		tracing.NewNoopTracerProvider()), "t1", &reach.Rules{})
	resolver := wrap(nil)
	for what, ask := range map[string]func() (*rest.Config, error){
		"the Service": func() (*rest.Config, error) {
			return resolver.ClientConfigForService("kubernetes", "default", 443)
		},
		"the URL": func() (*rest.Config, error) {
			return resolver.ClientConfigFor("kubernetes.default.svc:443")
		},
		"another Service": func() (*rest.Config, error) {
			return resolver.ClientConfigForService("web", "default", 443)
		},
	} {
		cfg, err := ask()
		if err != nil || cfg.BearerToken != "" || cfg.Timeout == 0 || cfg.Dial == nil || cfg.Proxy == nil {
			t.Errorf("%s: %+v, %v", what, cfg, err)
		}
	}
}

func TestReinvocationsAreApart(t *testing.T) {
	shared := admission.NewAttributesRecord(nil, nil, kind, "", "", resource, "", admission.Create, nil, false, nil).
		GetReinvocationContext()
	own := reinvocation{shared}
	shared.SetValue("P", "system")
	if got := own.Value("P"); got != nil {
		t.Errorf("the tenant's plugin remembers %v", got)
	}
	own.SetValue("P", "tenant")
	if got := shared.Value("P"); got != "system" {
		t.Errorf("the system's plugin remembers %v", got)
	}
	own.SetShouldReinvoke()
	if !shared.ShouldReinvoke() {
		t.Error("another round that the tenant's plugin needs is not seen")
	}
}

func TestUsers(t *testing.T) {
	view := &wire.View{Tenant: "t1"}
	account := &user.DefaultInfo{
		Name:   "system:serviceaccount:default.t1:builder",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default.t1"},
		Extra:  map[string][]string{space.Extra: {"t1"}, "x": {"y"}},
	}
	seen := nativeUser(view, account)
	if seen.GetName() != "system:serviceaccount:default:builder" || len(seen.GetGroups()) != 2 ||
		seen.GetGroups()[1] != "system:serviceaccounts:default" {
		t.Errorf("seen by the tenant: %+v", seen)
	}
	if extra := seen.GetExtra(); len(extra) != 1 || extra["x"][0] != "y" {
		t.Errorf("extra attributes: %v", extra)
	}
	if composedUser(seen, "t1") != user.Info(account) {
		t.Error("a user of the request is not recognized")
	}
	// One whom an expression makes up is the tenant's, whoever they say they are.
	made := composedUser(&user.DefaultInfo{Name: "system:serviceaccount:default:x", Groups: []string{"system:masters"},
		Extra: map[string][]string{space.Extra: {"t2"}}}, "t1")
	if made.GetName() != "system:serviceaccount:default.t1:x" || made.GetExtra()[space.Extra][0] != "t1" {
		t.Errorf("made up: %+v", made)
	}
}
