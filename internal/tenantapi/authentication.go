package tenantapi

// TenantAuthentication is a tenant's own provider of OpenID Connect: whoever has a token of it is a user of the
// tenant, and of nothing else. It has the fields that a jwt authenticator of an AuthenticationConfiguration has,
// without those that compute.
type TenantAuthentication struct {
	// Issuer is the provider.
	Issuer TenantIssuer `json:"issuer" protobuf:"bytes,1,opt,name=issuer"`
	// ClaimValidationRules are claims that a token has to have.
	ClaimValidationRules []RequiredClaim `json:"claimValidationRules,omitempty" protobuf:"bytes,2,rep,name=claimValidationRules"`
	// ClaimMappings say who the user is.
	ClaimMappings TenantClaimMappings `json:"claimMappings" protobuf:"bytes,3,opt,name=claimMappings"`
}

// TenantIssuer is a provider of OpenID Connect.
type TenantIssuer struct {
	// URL is that of the provider, as its tokens have it in the claim iss.
	URL string `json:"url" protobuf:"bytes,1,opt,name=url"`
	// Audiences are those of which a token has one: the IDs of the cluster at the provider.
	Audiences []string `json:"audiences" protobuf:"bytes,2,rep,name=audiences"`
	// CertificateAuthority verifies the provider, in PEM; those of the machine do if it is not set.
	CertificateAuthority string `json:"certificateAuthority,omitempty" protobuf:"bytes,3,opt,name=certificateAuthority"`
}

// RequiredClaim is a claim that a token has to have.
type RequiredClaim struct {
	// Claim is its name.
	Claim string `json:"claim" protobuf:"bytes,1,opt,name=claim"`
	// RequiredValue is its value, a string.
	RequiredValue string `json:"requiredValue" protobuf:"bytes,2,opt,name=requiredValue"`
}

// TenantClaimMappings say who a user is.
type TenantClaimMappings struct {
	// Username is the claim of the user's name.
	Username PrefixedClaim `json:"username" protobuf:"bytes,1,opt,name=username"`
	// Groups is the claim of the user's groups, a string or a list of them; nobody is in a group if it is not
	// set.
	Groups *PrefixedClaim `json:"groups,omitempty" protobuf:"bytes,2,opt,name=groups"`
}

// PrefixedClaim is a claim, and what stands before its values.
type PrefixedClaim struct {
	// Claim is its name.
	Claim string `json:"claim" protobuf:"bytes,1,opt,name=claim"`
	// Prefix stands before each value. It has to be said, also if it is empty.
	Prefix *string `json:"prefix,omitempty" protobuf:"bytes,2,opt,name=prefix"`
}

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantAuthentication) OpenAPIModelName() string { return modelName("TenantAuthentication") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantIssuer) OpenAPIModelName() string { return modelName("TenantIssuer") }

// OpenAPIModelName names the model in OpenAPI documents.
func (RequiredClaim) OpenAPIModelName() string { return modelName("RequiredClaim") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantClaimMappings) OpenAPIModelName() string { return modelName("TenantClaimMappings") }

// OpenAPIModelName names the model in OpenAPI documents.
func (PrefixedClaim) OpenAPIModelName() string { return modelName("PrefixedClaim") }
