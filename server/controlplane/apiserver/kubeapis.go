package apiserver

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"
	"k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice"
)

// newKubeAPIs makes the server of the built-in APIs and, in the core group,
// of the resources that the seam adds. A group can be installed only once, so
// they have to be there when upstream's are.
func newKubeAPIs(
	config controlplane.CompletedConfig, seams Seams, next genericapiserver.DelegationTarget,
) (*controlplaneapiserver.Server, error) {
	server, err := config.ControlPlane.New(controlplaneapiserver.KubeAPIServer, next)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config.ControlPlane.Generic.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("making the loopback client: %w", err)
	}
	providers, err := config.StorageProviders(client)
	if err != nil {
		return nil, fmt.Errorf("making the storage of the built-in APIs: %w", err)
	}
	if err := server.InstallAPIs(seams.extend(providers, config.ControlPlane.Generic)...); err != nil {
		return nil, err
	}
	return server, addHooks(server.GenericAPIServer, config, client)
}

// addHooks lets the server keep what every cluster has: the default service
// addresses and the Service of the API itself.
func addHooks(
	server *genericapiserver.GenericAPIServer, config controlplane.CompletedConfig, client kubernetes.Interface,
) error {
	_, port, err := config.ControlPlane.Generic.SecureServing.HostPort()
	if err != nil {
		return fmt.Errorf("reading the address of the listener: %w", err)
	}
	service := kubernetesservice.New(kubernetesservice.Config{
		PublicIP:                  config.ControlPlane.Generic.PublicAddress,
		EndpointReconciler:        config.EndpointReconcilerConfig.Reconciler,
		EndpointInterval:          config.EndpointReconcilerConfig.Interval,
		ServiceIP:                 config.APIServerServiceIP,
		ServicePort:               config.APIServerServicePort,
		PublicServicePort:         port,
		KubernetesServiceNodePort: config.KubernetesServiceNodePort,
	}, client, config.ControlPlane.Extra.VersionedInformers.Core().V1().Services())
	// Roles and probes of upstream know the hooks by these names.
	if err := server.AddPostStartHook("bootstrap-controller", func(ctx genericapiserver.PostStartHookContext) error {
		service.Start(ctx.Done())
		return nil
	}); err != nil {
		return err
	}
	if err := server.AddPreShutdownHook("stop-kubernetes-service-controller", func() error {
		service.Stop()
		return nil
	}); err != nil {
		return err
	}
	return server.AddPostStartHook("start-kubernetes-service-cidr-controller",
		func(ctx genericapiserver.PostStartHookContext) error {
			// Start returns once the range is there: no Service gets an address
			// before that.
			defaultservicecidr.NewController(config.ServiceIPRange, config.SecondaryServiceIPRange, client).Start(ctx)
			return nil
		})
}

// Group changes the storage of a group of upstream, by path, before it is
// installed. Only its version v1 can be changed.
type Group func(generic.RESTOptionsGetter, GroupConfig, map[string]rest.Storage) error

// GroupConfig is what the server decides by.
type GroupConfig struct {
	Authenticator authenticator.Request
	Audiences     []string
	Authorizer    authorizer.Authorizer
}

// extend puts the seam of groups into their providers.
func (s Seams) extend(
	providers []controlplaneapiserver.RESTStorageProvider, config genericapiserver.CompletedConfig,
) []controlplaneapiserver.RESTStorageProvider {
	decide := GroupConfig{
		Authenticator: config.Authentication.Authenticator,
		Audiences:     config.Authentication.APIAudiences,
		Authorizer:    config.Authorization.Authorizer,
	}
	for i, p := range providers {
		change, ok := s.Groups[p.GroupName()]
		if !ok {
			continue
		}
		extended := extendedGroup{RESTStorageProvider: p, change: change, config: decide}
		if hooked, ok := p.(genericapiserver.PostStartHookProvider); ok {
			providers[i] = hookedGroup{extended, hooked}
		} else {
			providers[i] = extended
		}
	}
	return providers
}

// extendedGroup is a provider whose storage is changed by a seam.
type extendedGroup struct {
	controlplaneapiserver.RESTStorageProvider
	change Group
	config GroupConfig
}

// hookedGroup keeps the hook of the provider within, which its installer looks
// for by a type assertion.
type hookedGroup struct {
	extendedGroup
	genericapiserver.PostStartHookProvider
}

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (g extendedGroup) NewRESTStorage(
	source serverstorage.APIResourceConfigSource, getter generic.RESTOptionsGetter,
) (genericapiserver.APIGroupInfo, error) {
	info, err := g.RESTStorageProvider.NewRESTStorage(source, getter)
	if err != nil {
		return info, err
	}
	if v1 := info.VersionedResourcesStorageMap["v1"]; v1 != nil {
		err = g.change(getter, g.config, v1)
	}
	return info, err
}

// definitions are upstream's OpenAPI models and those of the seam.
func (s Seams) definitions(upstream common.GetOpenAPIDefinitions) common.GetOpenAPIDefinitions {
	if s.Definitions == nil {
		return upstream
	}
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		all := upstream(ref)
		maps.Copy(all, s.Definitions(ref))
		return all
	}
}

// withoutInternal hides the internal version of types that are their own from
// the group versions and kinds that next says of a model.
func withoutInternal(next func(string) (string, spec.Extensions)) func(string) (string, spec.Extensions) {
	return func(model string) (string, spec.Extensions) {
		name, extensions := next(model)
		const key = "x-kubernetes-group-version-kind"
		kinds, ok := extensions[key].([]any)
		if !ok {
			return name, extensions
		}
		extensions[key] = slices.DeleteFunc(kinds, func(kind any) bool {
			gvk, ok := kind.(map[string]any)
			return ok && gvk["version"] == runtime.APIVersionInternal
		})
		return name, extensions
	}
}
