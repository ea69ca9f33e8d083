package registry

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apimodels"
	"github.com/a4s-io/a4s/server/tenancy/authn/issuers"
)

// checkAuthentication finds what is wrong with the provider of a tenant that is new or another one.
func checkAuthentication(t, was *tenantapi.Tenant) field.ErrorList {
	path := authenticationPath()
	switch {
	case !newProvider(t, was):
		return nil
	case t.Name == space.System:
		return field.ErrorList{field.Forbidden(path,
			"users of the system space are those of the cluster's own configuration")}
	}
	return issuers.Validate(t.Spec.Authentication, path)
}

// without refuses providers that the cluster has itself, which no Tenant knows; nil refuses none.
func (s strategy) without(reserved func(issuer string) bool) strategy {
	if reserved == nil {
		return s
	}
	check := s.Check
	s.Check = func(ctx context.Context, t, was *tenantapi.Tenant) field.ErrorList {
		errs := check(ctx, t, was)
		if newProvider(t, was) && reserved(t.Spec.Authentication.Issuer.URL) {
			errs = append(errs, field.Forbidden(authenticationPath().Child("issuer", "url"),
				"the cluster's own configuration has this provider"))
		}
		return errs
	}
	return s
}

func newProvider(t, was *tenantapi.Tenant) bool {
	a := t.Spec.Authentication
	return a != nil && (was == nil || !apiequality.Semantic.DeepEqual(a, was.Spec.Authentication))
}

func authenticationPath() *field.Path { return field.NewPath("spec", "authentication") }

func addAuthentication(m *apimodels.Builder) {
	m.Add(tenantapi.TenantAuthentication{}.OpenAPIModelName(), "TenantAuthentication is a tenant's own provider of "+
		"OpenID Connect. It has fields of the jwt authenticators of an AuthenticationConfiguration.",
		[]string{"issuer", "claimMappings"}, map[string]spec.Schema{
			"issuer": m.Ref("The provider.", tenantapi.TenantIssuer{}.OpenAPIModelName()),
			"claimValidationRules": apimodels.List("Claims that a token has to have. At most 16.",
				m.Ref("", tenantapi.RequiredClaim{}.OpenAPIModelName())),
			"claimMappings": m.Ref("Who the user is.", tenantapi.TenantClaimMappings{}.OpenAPIModelName()),
		})
	m.Add(tenantapi.TenantIssuer{}.OpenAPIModelName(), "TenantIssuer is a provider of OpenID Connect.",
		[]string{"url", "audiences"}, map[string]spec.Schema{
			"url": apimodels.Text("The https URL of the provider, as its tokens have it in the claim iss. The " +
				"server reaches it outside of the cluster, or in pods of the tenant."),
			"audiences": apimodels.Set("Of which a token has to have one in the claim aud: the IDs of the cluster " +
				"at the provider. At most 16."),
			"certificateAuthority": apimodels.Text("The certificates, in PEM, that verify the provider; those of " +
				"the machine of the server do if it is not set."),
		})
	m.Add(tenantapi.RequiredClaim{}.OpenAPIModelName(), "RequiredClaim is a claim that a token has to have.",
		[]string{"claim", "requiredValue"}, map[string]spec.Schema{
			"claim":         apimodels.Text("The name of the claim."),
			"requiredValue": apimodels.Text("Its value, a string."),
		})
	m.Add(tenantapi.TenantClaimMappings{}.OpenAPIModelName(), "TenantClaimMappings say who a user is.",
		[]string{"username"}, map[string]spec.Schema{
			"username": m.Ref("The claim of the user's name.", tenantapi.PrefixedClaim{}.OpenAPIModelName()),
			"groups": m.Optional("The claim of the user's groups, a string or a list of them; nobody is in a group "+
				"if it is not set. Groups that begin with \"system:\", \"a4s:\" or \"tenant:\" are left out.",
				tenantapi.PrefixedClaim{}.OpenAPIModelName()),
		})
	m.Add(tenantapi.PrefixedClaim{}.OpenAPIModelName(), "PrefixedClaim is a claim, and what stands before its values.",
		[]string{"claim"}, map[string]spec.Schema{
			"claim": apimodels.Text("The name of the claim."),
			"prefix": apimodels.Text("What stands before each value. It has to be said, also if it is empty, and " +
				"cannot begin with \"system:\", \"a4s:\" or \"tenant:\"."),
		})
}
