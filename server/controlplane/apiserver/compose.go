package apiserver

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericfilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/webhook"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
)

// compose builds the chain aggregator -> built-in APIs -> CRDs -> not found,
// as kube-apiserver does, with the seams in place before each part is made.
func compose(opts options.CompletedOptions, seams Seams) (*aggregatorapiserver.APIAggregator, error) {
	rbac := seams.withoutRBAC(opts)
	generic, all, storageFactory, err := controlplaneapiserver.BuildGenericConfig(
		opts.CompletedOptions,
		append([]*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme},
			seams.Schemes...),
		controlplane.DefaultAPIResourceConfigSource(),
		seams.definitions(generatedopenapi.GetOpenAPIDefinitions),
		nil, // a name for the metrics of informers, which a process can have once
	)
	if err != nil {
		return nil, fmt.Errorf("building the generic configuration: %w", err)
	}
	if rbac {
		// The default roles are wanted although upstream does not judge by them.
		generic.DisabledPostStartHooks.Delete(rbacrest.PostStartHookName)
	}
	if err := seams.applyGeneric(generic, all, rbac); err != nil {
		return nil, err
	}
	informers, err := seams.applyAdmission(opts, generic, all)
	if err != nil {
		return nil, err
	}
	seams.applyDial(generic)
	kube, serviceResolver, admission, err := app.CreateKubeAPIServerConfig(opts, generic, informers, storageFactory)
	if err != nil {
		return nil, fmt.Errorf("building the configuration of the built-in APIs: %w", err)
	}
	if err := seams.applyEndpoints(kube); err != nil {
		return nil, err
	}
	cp := kube.ControlPlane

	authInfo := webhook.NewDefaultAuthenticationInfoResolverWrapper(cp.ProxyTransport, generic.EgressSelector,
		generic.LoopbackClientConfig, generic.TracerProvider)
	if seams.Admission != nil {
		seams.Admission.Webhooks(serviceResolver, authInfo)
	}
	crds, err := controlplaneapiserver.CreateAPIExtensionsConfig(*generic, informers, admission, opts.CompletedOptions,
		opts.MasterCount, serviceResolver, authInfo)
	if err != nil {
		return nil, fmt.Errorf("building the configuration of the CRD server: %w", err)
	}
	aggregator, err := controlplaneapiserver.CreateAggregatorConfig(*generic, opts.CompletedOptions, informers,
		serviceResolver, cp.ProxyTransport, cp.Extra.PeerProxy, admission)
	if err != nil {
		return nil, fmt.Errorf("building the configuration of the aggregator: %w", err)
	}
	if seams.Storage != nil {
		// It makes a getter of its own instead of inheriting ours.
		aggregator.GenericConfig.RESTOptionsGetter = seams.Storage(aggregator.GenericConfig.RESTOptionsGetter)
	}

	notFound := notfoundhandler.New(generic.Serializer, genericfilters.NoMuxAndDiscoveryIncompleteKey)
	crdServer, served, err := newCRDServer(crds, seams, notFound)
	if err != nil {
		return nil, err
	}
	seams.applyFront(&aggregator.GenericConfig.Config, served)
	if seams.CRDs != nil {
		seams.CRDs(crdServer.Informers.Apiextensions().V1().CustomResourceDefinitions())
	}
	behind := withoutProtobuf{crdServer.GenericAPIServer,
		crdServer.Informers.Apiextensions().V1().CustomResourceDefinitions().Lister()}
	kubeServer, err := newKubeAPIs(kube.Complete(), seams, behind)
	if err != nil {
		return nil, fmt.Errorf("building the built-in APIs: %w", err)
	}
	if seams.Install != nil {
		if err := seams.Install(kubeServer.GenericAPIServer, all); err != nil {
			return nil, err
		}
	}
	crdEnabled := crds.GenericConfig.MergedResourceConfig.ResourceEnabled(
		apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	server, err := controlplaneapiserver.CreateAggregatorServer(aggregator.Complete(), kubeServer.GenericAPIServer,
		crdServer.Informers.Apiextensions().V1().CustomResourceDefinitions(), crdEnabled, seams.priorities())
	if err != nil {
		return nil, fmt.Errorf("building the aggregator: %w", err)
	}
	if seams.APIServices != nil {
		seams.APIServices(server.APIRegistrationInformers.Apiregistration().V1().APIServices())
	}
	return server, nil
}

// Group priorities decide the order in which clients such as kubectl look a
// short name up. Upstream exports those of the generic groups only; the
// workload groups stand here in the order that users know.
const (
	firstWorkloadPriority = 17895 // below core (18000), above every generic group
	defaultGroupPriority  = 15000
	lastGroupPriority     = 100
)

func workloadGroups() []string {
	return []string{"apps", "autoscaling", "batch", "networking.k8s.io", "policy", "storage.k8s.io",
		"scheduling.k8s.io", "node.k8s.io", "resource.k8s.io"}
}

// priorities are those of upstream's groups, and behind them of all others
// those that are installed besides: what they call a pod is not the pod.
func (s Seams) priorities() map[schema.GroupVersion]controlplaneapiserver.APIServicePriority {
	out := priorities(legacyscheme.Scheme)
	for _, scheme := range s.Schemes {
		for _, gv := range scheme.PrioritizedVersionsAllGroups() {
			if _, ok := out[gv]; !ok && gv.Version != runtime.APIVersionInternal {
				out[gv] = controlplaneapiserver.APIServicePriority{Group: lastGroupPriority, Version: 100}
			}
		}
	}
	return out
}

// priorities gives every group version of the scheme its place in discovery.
// Within a group the scheme's own order of preference decides.
func priorities(scheme *runtime.Scheme) map[schema.GroupVersion]controlplaneapiserver.APIServicePriority {
	out := controlplaneapiserver.DefaultGenericAPIServicePriorities()
	group := map[string]int32{}
	for i, g := range workloadGroups() {
		group[g] = firstWorkloadPriority - int32(i)
	}
	perGroup := map[string]int32{}
	for _, gv := range scheme.PrioritizedVersionsAllGroups() {
		rank := perGroup[gv.Group]
		perGroup[gv.Group]++
		if _, ok := out[gv]; ok || gv.Version == runtime.APIVersionInternal {
			continue
		}
		p, ok := group[gv.Group]
		if !ok {
			p = defaultGroupPriority
		}
		out[gv] = controlplaneapiserver.APIServicePriority{Group: p, Version: 100 - rank}
	}
	return out
}
