package issuers

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestValidate: what is wrong with the provider of a tenant, by its fields.
func TestValidate(t *testing.T) {
	type of = tenantapi.TenantAuthentication
	text := func(s string) *string { return &s }
	for what, c := range map[string]struct {
		change func(a *of)
		field  string // "" for nothing
	}{
		"all of it":     {func(*of) {}, ""},
		"no groups":     {func(a *of) { a.ClaimMappings.Groups = nil }, ""},
		"no URL":        {func(a *of) { a.Issuer.URL = "" }, "issuer.url"},
		"no TLS":        {func(a *of) { a.Issuer.URL = "http://login.example.com" }, "issuer.url"},
		"no host":       {func(a *of) { a.Issuer.URL = "https:///x" }, "issuer.url"},
		"a user":        {func(a *of) { a.Issuer.URL = "https://u:p@login.example.com" }, "issuer.url"},
		"a query":       {func(a *of) { a.Issuer.URL = "https://login.example.com?x" }, "issuer.url"},
		"a long URL":    {func(a *of) { a.Issuer.URL = "https://x/" + strings.Repeat("x", maxText) }, "issuer.url"},
		"no audience":   {func(a *of) { a.Issuer.Audiences = nil }, "issuer.audiences"},
		"twice":         {func(a *of) { a.Issuer.Audiences = []string{"a", "a"} }, "issuer.audiences[1]"},
		"two audiences": {func(a *of) { a.Issuer.Audiences = []string{"a", "b"} }, ""},
		"no CA":         {func(a *of) { a.Issuer.CertificateAuthority = "x" }, "issuer.certificateAuthority"},
		"no username": {func(a *of) { a.ClaimMappings.Username = tenantapi.PrefixedClaim{} },
			"claimMappings.username"},
		"no prefix":    {func(a *of) { a.ClaimMappings.Username.Prefix = nil }, "claimMappings.username.prefix"},
		"an empty one": {func(a *of) { a.ClaimMappings.Username.Prefix = text("") }, ""},
		"of the system": {func(a *of) { a.ClaimMappings.Username.Prefix = text("system:") },
			"claimMappings.username.prefix"},
		"groups of the system": {func(a *of) { a.ClaimMappings.Groups.Prefix = text("system:x") },
			"claimMappings.groups.prefix"},
		"groups of a4s": {func(a *of) { a.ClaimMappings.Groups.Prefix = text("a4s:") },
			"claimMappings.groups.prefix"},
		"of a certificate": {func(a *of) { a.ClaimMappings.Username.Prefix = text("tenant:b:") },
			"claimMappings.username.prefix"},
		"no claim of groups": {func(a *of) { a.ClaimMappings.Groups.Claim = "" }, "claimMappings.groups.claim"},
		"a rule": {func(a *of) {
			a.ClaimValidationRules = []tenantapi.RequiredClaim{{Claim: "hd", RequiredValue: "x"}}
		}, ""},
		"an empty rule": {func(a *of) { a.ClaimValidationRules = make([]tenantapi.RequiredClaim, 1) },
			"claimValidationRules[0]"},
		"many rules": {func(a *of) {
			for i := range mostOf + 1 {
				a.ClaimValidationRules = append(a.ClaimValidationRules,
					tenantapi.RequiredClaim{Claim: strings.Repeat("x", i+1)})
			}
		}, "claimValidationRules"},
	} {
		t.Run(what, func(t *testing.T) {
			a := &of{Issuer: tenantapi.TenantIssuer{URL: "https://login.example.com", Audiences: []string{"a4s"}},
				ClaimMappings: tenantapi.TenantClaimMappings{
					Username: tenantapi.PrefixedClaim{Claim: "sub", Prefix: text("oidc:")},
					Groups:   &tenantapi.PrefixedClaim{Claim: "groups", Prefix: text("")},
				}}
			c.change(a)
			errs := Validate(a, field.NewPath("spec"))
			found := false
			for _, err := range errs {
				found = found || err.Field == "spec."+c.field
			}
			if found != (c.field != "") || c.field == "" && len(errs) > 0 {
				t.Errorf("%v, want an error of %q", errs, c.field)
			}
		})
	}
}
