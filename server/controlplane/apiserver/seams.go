package apiserver

import (
	"fmt"
	"net/http"
	"slices"

	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	apiserviceinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	authzmodes "k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
)

// Seams are the places where a4s extends the upstream API server. A nil field
// changes nothing.
type Seams struct {
	// Storage wraps what decides how and under which keys a resource is
	// stored. It is applied to every resource: built-in, CRD, custom
	// resource and APIService.
	Storage func(generic.RESTOptionsGetter) generic.RESTOptionsGetter
	// Handler wraps the complete handler chain, authentication included. What
	// it answers itself to a known user it sends through audited, which puts
	// audit and access log in front of the answer.
	Handler func(chain http.Handler, audited func(http.Handler) http.Handler) http.Handler
	// Behind wraps what stands behind authentication, authorization and audit.
	Behind func(http.Handler) http.Handler
	// Authenticator wraps the authentication of every request.
	Authenticator func(authenticator.Request) authenticator.Request
	// Access wraps the authorization of every request and of everything in
	// the server that asks it, and what tells users their own rules. The
	// informers are the server's and not started yet. Upstream's authorizer
	// comes without RBAC, which is for the seam to add if it is wanted.
	Access func(f informers.SharedInformerFactory, a authorizer.Authorizer, r authorizer.RuleResolver,
		rbac bool) (authorizer.Authorizer, authorizer.RuleResolver, error)
	// Admission extends the admission plugins.
	Admission Admission
	// CRDs gets the definitions of custom resources that the server knows.
	CRDs func(crdinformers.CustomResourceDefinitionInformer)
	// CustomResources serves those of tenants. SystemSpace is then a client
	// that upstream's CRD server sees the definitions of the system space by.
	CustomResources func(CRDServer) (CustomResources, error)
	SystemSpace     *restclient.Config
	// Kept is what the server's informers do with the objects they keep.
	Kept cache.TransformFunc
	// Fairness wraps what admits requests by priority and fairness.
	Fairness func(utilflowcontrol.Interface) utilflowcontrol.Interface
	// APIServices is told the informer of APIServices, which runs with the
	// server.
	APIServices func(apiserviceinformers.APIServiceInformer)
	// Groups changes the storage of upstream's groups, by their names.
	Groups map[string]Group
	// Definitions are the OpenAPI models of what Groups adds. A type may be
	// its own internal version.
	Definitions common.GetOpenAPIDefinitions
	// Dial connects to pods, kubelets and what webhooks name in place of the network
	// of the machine, unless the user's arguments say how.
	Dial utilnet.DialFunc
	// Endpoints keeps the endpoints of the API in place of upstream's reconciler.
	Endpoints *Endpoints
	// Install adds further groups to the built-in APIs, and Schemes have
	// their types. The informers are the server's and not started yet.
	Install func(*genericapiserver.GenericAPIServer, informers.SharedInformerFactory) error
	Schemes []*runtime.Scheme
}

// Admission is the seam of the admission plugins; its methods are called in
// this order.
type Admission interface {
	// Informers replaces what the plugins of upstream know the cluster by.
	Informers(loopback *restclient.Config, authz authorizer.Authorizer,
		f informers.SharedInformerFactory) (informers.SharedInformerFactory, error)
	// Decorate wraps one plugin.
	Decorate(handler admission.Interface, name string) admission.Interface
	// Webhooks says how webhooks are reached.
	Webhooks(webhook.ServiceResolver, webhook.AuthenticationInfoResolverWrapper)
}

// applyGeneric puts the seams into the configuration that all servers of the
// chain are derived from.
func (s Seams) applyGeneric(c *genericapiserver.Config, f informers.SharedInformerFactory, rbac bool) error {
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
	if s.Fairness != nil && c.FlowControl != nil {
		c.FlowControl = s.Fairness(c.FlowControl)
	}
	if err := s.applyKept(f); err != nil {
		return err
	}
	if s.Access == nil {
		return nil
	}
	var err error
	if c.Authorization.Authorizer, c.RuleResolver, err = s.Access(f, c.Authorization.Authorizer,
		c.RuleResolver, rbac); err != nil {
		return fmt.Errorf("setting up authorization: %w", err)
	}
	return nil
}

// applyKept puts the transformation into the informers that the server has in
// any case and that grow with the number of tenants.
func (s Seams) applyKept(f informers.SharedInformerFactory) error {
	if s.Kept == nil {
		return nil
	}
	core, rbac := f.Core().V1(), f.Rbac().V1()
	for _, informer := range []cache.SharedIndexInformer{
		core.Namespaces().Informer(), core.ServiceAccounts().Informer(), core.Services().Informer(),
		core.Pods().Informer(),
		rbac.ClusterRoles().Informer(), rbac.ClusterRoleBindings().Informer(), rbac.Roles().Informer(),
		rbac.RoleBindings().Informer(),
	} {
		if err := informer.SetTransform(s.Kept); err != nil {
			return fmt.Errorf("setting up the informers: %w", err)
		}
	}
	return nil
}

// withoutRBAC takes RBAC out of what upstream decides by, if a seam is there to
// do it: upstream's looks at the bindings of every space at once.
func (s Seams) withoutRBAC(opts options.CompletedOptions) (rbac bool) {
	modes := opts.Authorization.Modes
	if s.Access == nil || !slices.Contains(modes, authzmodes.ModeRBAC) {
		return false
	}
	modes = slices.DeleteFunc(slices.Clone(modes), func(m string) bool { return m == authzmodes.ModeRBAC })
	if len(modes) == 0 {
		modes = []string{authzmodes.ModeAlwaysDeny} // it has no opinion
	}
	opts.Authorization.Modes = modes
	return true
}

// applyAdmission puts the admission seam into the options before the plugins
// are made from them.
func (s Seams) applyAdmission(
	opts options.CompletedOptions, c *genericapiserver.Config, f informers.SharedInformerFactory,
) (informers.SharedInformerFactory, error) {
	if s.Admission == nil {
		return f, nil
	}
	narrowed, err := s.Admission.Informers(c.LoopbackClientConfig, c.Authorization.Authorizer, f)
	if err != nil {
		return nil, err
	}
	generic := opts.Admission.GenericAdmission
	// The first decorator is the innermost: the measuring ones stay outside.
	generic.Decorators = append(admission.Decorators{admission.DecoratorFunc(s.Admission.Decorate)},
		generic.Decorators...)
	return narrowed, nil
}

// applyDial puts the way to the cluster where upstream has that of a user's egress
// selector: webhooks, proxies, kubelets and aggregated APIs.
func (s Seams) applyDial(c *genericapiserver.Config) {
	if s.Dial == nil || c.EgressSelector != nil {
		return
	}
	c.EgressSelector = egressselector.NewEgressSelectorWithMap(map[egressselector.EgressType]utilnet.DialFunc{
		egressselector.Cluster: s.Dial, egressselector.ControlPlane: s.Dial})
}

// applyFront puts the handler seam, and what serves custom resources, into the
// outermost server of the chain, the only one whose handler chain meets
// requests.
func (s Seams) applyFront(c *genericapiserver.Config, served CustomResources) {
	build := c.BuildHandlerChainFunc
	c.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		if served != nil {
			api = served.Wrap(api)
		}
		if s.Behind != nil {
			api = s.Behind(api)
		}
		if s.Handler == nil {
			return build(api, c)
		}
		return s.Handler(build(api, c), audited(c))
	}
}
