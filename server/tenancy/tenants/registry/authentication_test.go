package registry

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestAuthentication: the provider of a tenant is judged when it is new or another one, and is none of the
// cluster's.
func TestAuthentication(t *testing.T) {
	prefix := "oidc:"
	with := func(name, url string) *tenantapi.Tenant {
		made := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}
		made.Spec.Authentication = &tenantapi.TenantAuthentication{
			Issuer: tenantapi.TenantIssuer{URL: url, Audiences: []string{"a4s"}},
			ClaimMappings: tenantapi.TenantClaimMappings{
				Username: tenantapi.PrefixedClaim{Claim: "sub", Prefix: &prefix}},
		}
		setDefaults(made)
		return made
	}
	s := newStrategy().without(func(issuer string) bool { return issuer == "https://cluster" })
	const of = "spec.authentication"
	for what, c := range map[string]struct {
		is, was *tenantapi.Tenant
		field   string // "" for nothing
	}{
		"new":                     {with("t1", "https://one"), nil, ""},
		"of the cluster":          {with("t1", "https://cluster"), nil, of + ".issuer.url"},
		"of the cluster, another": {with("t1", "https://cluster"), with("t1", "https://one"), of + ".issuer.url"},
		"of the cluster since":    {with("t1", "https://cluster"), with("t1", "https://cluster"), ""},
		"without TLS":             {with("t1", "http://one"), with("t1", "https://one"), of + ".issuer.url"},
		"of the system":           {with(space.System, "https://one"), with("t1", "https://two"), of},
	} {
		errs := s.Check(as(), c.is, c.was)
		if c.field == "" && len(errs) > 0 || c.field != "" && (len(errs) != 1 || errs[0].Field != c.field) {
			t.Errorf("%s: %v, want an error of %q", what, errs, c.field)
		}
	}
	if errs := newStrategy().without(nil).Check(as(), with("t1", "https://cluster"), nil); len(errs) > 0 {
		t.Errorf("where nothing is the cluster's: %v", errs)
	}
}
