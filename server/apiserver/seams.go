package apiserver

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"
)

// Seams are the places where a4s extends the upstream API server. A nil field
// changes nothing.
type Seams struct {
	// Storage wraps what decides how and under which keys a resource is
	// stored. It is applied to every resource: built-in, CRD, custom
	// resource and APIService.
	Storage func(generic.RESTOptionsGetter) generic.RESTOptionsGetter
	// Handler wraps the complete handler chain, authentication included.
	Handler func(http.Handler) http.Handler
	// Authenticator wraps the authentication of every request.
	Authenticator func(authenticator.Request) authenticator.Request
	// Authorizer wraps the authorization of every request and of everything
	// in the server that asks it.
	Authorizer func(authorizer.Authorizer) authorizer.Authorizer
	// Core adds resources to version v1 of the core group, by path. It gets
	// the options that upstream's resources get.
	Core func(generic.RESTOptionsGetter) (map[string]rest.Storage, error)
	// Definitions are the OpenAPI models of what Core adds. A type may be
	// its own internal version.
	Definitions common.GetOpenAPIDefinitions
}

// applyGeneric puts the seams into the configuration that all servers of the
// chain are derived from.
func (s Seams) applyGeneric(c *genericapiserver.Config) {
	if s.Storage != nil {
		c.RESTOptionsGetter = s.Storage(c.RESTOptionsGetter)
	}
	if s.Definitions != nil {
		c.OpenAPIConfig.GetDefinitionName = withoutInternal(c.OpenAPIConfig.GetDefinitionName)
		c.OpenAPIV3Config.GetDefinitionName = withoutInternal(c.OpenAPIV3Config.GetDefinitionName)
	}
	if s.Authenticator != nil {
		c.Authentication.Authenticator = s.Authenticator(c.Authentication.Authenticator)
	}
	if s.Authorizer != nil {
		c.Authorization.Authorizer = s.Authorizer(c.Authorization.Authorizer)
	}
}

// applyFront puts the handler seam into the outermost server of the chain,
// the only one whose handler chain meets requests.
func (s Seams) applyFront(c *genericapiserver.Config) {
	if s.Handler == nil {
		return
	}
	build := c.BuildHandlerChainFunc
	c.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		return s.Handler(build(api, c))
	}
}
