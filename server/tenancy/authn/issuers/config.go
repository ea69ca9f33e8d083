package issuers

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// Bounds of what a Tenant says.
const (
	maxText      = 1024 // of a URL, a claim, a value, a prefix and an audience
	mostOf       = 16   // audiences, and rules
	maxAuthority = 64 << 10
)

// noExpressions is for configurations that have none, which upstream then does not compile.
type noExpressions struct{ authenticationcel.Compiler }

// convert says it in upstream's words.
func convert(a *tenantapi.TenantAuthentication) apiserver.JWTAuthenticator {
	out := apiserver.JWTAuthenticator{
		Issuer: apiserver.Issuer{
			URL: a.Issuer.URL, Audiences: a.Issuer.Audiences, CertificateAuthority: a.Issuer.CertificateAuthority,
			AudienceMatchPolicy: apiserver.AudienceMatchPolicyMatchAny,
		},
		ClaimMappings: apiserver.ClaimMappings{Username: prefixed(&a.ClaimMappings.Username)},
	}
	if g := a.ClaimMappings.Groups; g != nil {
		out.ClaimMappings.Groups = prefixed(g)
	}
	for _, r := range a.ClaimValidationRules {
		out.ClaimValidationRules = append(out.ClaimValidationRules,
			apiserver.ClaimValidationRule{Claim: r.Claim, RequiredValue: r.RequiredValue})
	}
	return out
}

func prefixed(c *tenantapi.PrefixedClaim) apiserver.PrefixedClaimOrExpression {
	return apiserver.PrefixedClaimOrExpression{Claim: c.Claim, Prefix: c.Prefix}
}

// Validate finds what is wrong with the provider of a tenant: what upstream finds, and what is too much.
func Validate(a *tenantapi.TenantAuthentication, path *field.Path) field.ErrorList {
	errs := bounds(a, path)
	_, found := validation.CompileAndValidateJWTAuthenticator(noExpressions{}, convert(a), nil)
	for _, err := range found {
		below := *err
		below.Field = strings.TrimSuffix(path.String()+"."+err.Field, ".")
		errs = append(errs, &below)
	}
	at := path.Child("issuer", "url")
	if u, err := url.Parse(a.Issuer.URL); err == nil && u.Scheme == "https" && u.Hostname() == "" {
		errs = append(errs, field.Invalid(at, a.Issuer.URL, "the URL names no host"))
	}
	return errs
}

// bounds finds what is too much.
func bounds(a *tenantapi.TenantAuthentication, path *field.Path) (errs field.ErrorList) {
	text := func(at *field.Path, values ...string) {
		for _, v := range values {
			if len(v) > maxText {
				errs = append(errs, field.TooLong(at, "", maxText))
			}
		}
	}
	issuer, rules, mappings := path.Child("issuer"), path.Child("claimValidationRules"), path.Child("claimMappings")
	text(issuer.Child("url"), a.Issuer.URL)
	text(issuer.Child("audiences"), a.Issuer.Audiences...)
	if n := len(a.Issuer.Audiences); n > mostOf {
		errs = append(errs, field.TooMany(issuer.Child("audiences"), n, mostOf))
	}
	if len(a.Issuer.CertificateAuthority) > maxAuthority {
		errs = append(errs, field.TooLong(issuer.Child("certificateAuthority"), "", maxAuthority))
	}
	if n := len(a.ClaimValidationRules); n > mostOf {
		errs = append(errs, field.TooMany(rules, n, mostOf))
	}
	for i, r := range a.ClaimValidationRules {
		text(rules.Index(i), r.Claim, r.RequiredValue)
	}
	for name, c := range map[string]*tenantapi.PrefixedClaim{"username": &a.ClaimMappings.Username,
		"groups": a.ClaimMappings.Groups} {
		if c == nil {
			continue
		}
		at := mappings.Child(name)
		text(at, c.Claim)
		if c.Claim == "" && name == "groups" {
			errs = append(errs, field.Required(at.Child("claim"), ""))
		}
		if c.Prefix == nil {
			continue
		}
		text(at.Child("prefix"), *c.Prefix)
		if reserved := authn.Reserved(*c.Prefix); reserved != "" {
			errs = append(errs, field.Invalid(at.Child("prefix"), *c.Prefix,
				fmt.Sprintf("names that begin with %s are none that a provider can give", reserved)))
		}
	}
	return errs
}
