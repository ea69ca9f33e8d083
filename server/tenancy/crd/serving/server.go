package serving

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/apiapproval"
	"k8s.io/apiextensions-apiserver/pkg/controller/establish"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	"k8s.io/apiextensions-apiserver/pkg/controller/nonstructuralschema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/tenancy/crd"
	"github.com/a4s-io/a4s/server/tenancy/crd/registry"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

const (
	// resync is how often controllers look at every CRD again, as
	// upstream's do.
	resync = 5 * time.Minute
	// workers is how many CRDs a controller looks at at a time.
	workers = 5
)

// Options are what a server is made of.
type Options struct {
	Catalog *crd.Catalog
	// Generic is the configuration of upstream's CRD server.
	Generic genericapiserver.RecommendedConfig
	// Options are the storage of custom resources before keys are mapped;
	// Bound maps them for one tenant, Mapped for the composite view.
	Options generic.RESTOptionsGetter
	Bound   func(inner generic.RESTOptionsGetter, tenant string) generic.RESTOptionsGetter
	Mapped  func(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter
	// CRDs is the storage of CRDs, keys mapped.
	CRDs generic.RESTOptionsGetter
	// Reach says how conversion webhooks of a tenant are reached.
	Reach     func(tenant string) (webhook.ServiceResolver, webhook.AuthenticationInfoResolverWrapper)
	Projector func(tenant string) *wire.Projector
	// Bounds are what the CRDs of a tenant can be.
	Bounds      func(tenant string) crd.Bounds
	MasterCount int
	// NotFound answers for what nobody serves.
	NotFound http.Handler
	// Pool has what caches share.
	Pool *interning.Pool
	// Client is one of the system with all rights that comes through the
	// edge; Composite is one that sees composite names.
	Client, Composite *rest.Config
	Log               *logrus.Entry
}

// Server serves custom resources of tenants.
type Server struct {
	o Options
	// definitions serves the CRDs of all spaces.
	definitions http.Handler
	shown       *registry.Shown
	openAPI     map[string]*spec.Schema

	informers    externalversions.SharedInformerFactory
	establishing *establish.EstablishingController
	approval     *apiapproval.KubernetesAPIApprovalPolicyConformantConditionController
	structure    *nonstructuralschema.ConditionController
	finalizing   *finalizer.CRDFinalizer

	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.RWMutex
	instances map[string]*instance
	commons   commons
	union     *instance
	watches   watches
	patterns  patterns
}

// New makes a server. Run must be called for it to do anything.
func New(o Options) (*Server, error) {
	s := &Server{o: o, instances: map[string]*instance{}}
	s.commons = commons{
		newHandler: func(v *view, options generic.RESTOptionsGetter) (handler, error) {
			return s.newHandler(v, options, nil, nil)
		},
		options: o.Options,
		bound:   func(tenant string) generic.RESTOptionsGetter { return o.Bound(o.Options, tenant) },
		of:      map[content]*common{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.serveCRDs(); err != nil {
		return nil, err
	}
	client, err := clientset.NewForConfig(o.Composite)
	if err != nil {
		return nil, fmt.Errorf("making the client of definitions: %w", err)
	}
	s.informers = externalversions.NewSharedInformerFactoryWithOptions(client, resync,
		externalversions.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = space.Label }),
		externalversions.WithTransform(o.Pool.Transform))
	informer := s.Informer()
	s.establishing = establish.NewEstablishingController(informer, client.ApiextensionsV1())
	s.approval = apiapproval.NewKubernetesAPIApprovalPolicyConformantConditionController(informer,
		client.ApiextensionsV1())
	s.structure = nonstructuralschema.NewConditionController(informer, client.ApiextensionsV1())
	s.finalizing = finalizer.NewCRDFinalizer(informer, client.ApiextensionsV1(), s)
	if err := s.establish(informer); err != nil {
		return nil, err
	}
	v := newView()
	h, err := s.newHandler(v, o.Mapped(o.Options), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making what serves the system the custom resources of tenants: %w", err)
	}
	s.union = &instance{handler: h, view: v}
	s.watches.serving = o.Catalog.Serving
	o.Catalog.OnServing(func(tenant string, r schema.GroupResource) {
		s.watches.changed(tenant, r)
		s.shown.Changed(tenant, r)
	})
	o.Catalog.OnLocal(s.local)
	o.Catalog.OnUnion(s.united)
	o.Catalog.WatchTenants(informer)
	return s, nil
}

// Informer knows the CRDs of tenants, in composite form.
func (s *Server) Informer() crdinformers.CustomResourceDefinitionInformer {
	return s.informers.Apiextensions().V1().CustomResourceDefinitions()
}

// serveCRDs makes the handler for the CRDs of all spaces.
func (s *Server) serveCRDs() error {
	s.shown = registry.NewShown(s.o.Catalog)
	storage, err := registry.Storage(registry.Options{
		Scheme: apiextensionsapiserver.Scheme, Getter: s.o.CRDs,
		Forced: s.o.Catalog.ForcedByName, Shown: s.shown,
		Taken: s.o.Catalog.Excluded, Bounds: s.o.Bounds, Sizes: s.o.Catalog.Sizes,
	})
	if err != nil {
		return err
	}
	cfg := s.o.Generic
	// Upstream's server of the same group says of it, and runs.
	cfg.EnableDiscovery, cfg.AggregatedDiscoveryGroupManager = false, nil
	cfg.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	server, err := cfg.Complete().New("a4s-definitions", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return fmt.Errorf("making the server of definitions: %w", err)
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(apiextensions.GroupName, apiextensionsapiserver.Scheme,
		metav1.ParameterCodec, apiextensionsapiserver.Codecs)
	group.VersionedResourcesStorageMap[apiextensionsv1.SchemeGroupVersion.Version] = storage
	if err := server.InstallAPIGroup(&group); err != nil {
		return fmt.Errorf("installing the definitions: %w", err)
	}
	s.definitions, s.openAPI = server.UnprotectedHandler(), group.StaticOpenAPISpec
	return nil
}

// establish has CRDs served once their names are accepted.
func (s *Server) establish(informer crdinformers.CustomResourceDefinitionInformer) error {
	check := func(obj any) {
		if crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok && accepted(crd) {
			s.establishing.QueueCRD(crd.Name, 0)
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    check,
		UpdateFunc: func(_, obj any) { check(obj) },
	})
	if err != nil {
		return fmt.Errorf("watching definitions: %w", err)
	}
	return nil
}

// accepted reports whether a CRD has its names and is not served yet.
func accepted(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.NamesAccepted) &&
		!apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established)
}

// Run serves until ctx ends. synced is called when all CRDs are known.
func (s *Server) Run(ctx context.Context, synced func()) {
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	s.informers.Start(s.ctx.Done())
	go s.establishing.RunWithContext(s.ctx)
	go s.approval.RunWithContext(workers, s.ctx)
	go s.structure.RunWithContext(workers, s.ctx)
	go s.finalizing.RunWithContext(workers, s.ctx)
	if cache.WaitForCacheSync(s.ctx.Done(), s.Informer().Informer().HasSynced) {
		synced()
	}
	<-s.ctx.Done()
	s.informers.Shutdown()
}
