package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/server/controlplane/apistorage"
)

// CustomResources serves custom resources, and their definitions, of others
// than the system space.
type CustomResources interface {
	// Wrap is put in front of everything that serves requests, behind
	// authentication, authorization and audit.
	Wrap(next http.Handler) http.Handler
	// Run runs while the server does. synced is called once it can serve.
	Run(ctx context.Context, synced func())
}

// CRDServer is what upstream's CRD server is made of.
type CRDServer struct {
	Config apiextensionsapiserver.Config
	// Options are the storage of custom resources without the seam of it,
	// CRDs that of CRDs with it.
	Options, CRDs generic.RESTOptionsGetter
	// System knows the definitions of the system space.
	System crdinformers.CustomResourceDefinitionInformer
	// Composite is the server's client of itself.
	Composite *restclient.Config
	NotFound  http.Handler
}

// newCRDServer makes upstream's CRD server for the system space and what serves
// the others.
func newCRDServer(
	crds *apiextensionsapiserver.Config, seams Seams, notFound http.Handler,
) (*apiextensionsapiserver.CustomResourceDefinitions, CustomResources, error) {
	with := CRDServer{Options: crds.ExtraConfig.CRDRESTOptionsGetter,
		Composite: crds.GenericConfig.LoopbackClientConfig, NotFound: notFound}
	if seams.Storage != nil {
		// These two make getters of their own instead of inheriting ours.
		crds.GenericConfig.RESTOptionsGetter = seams.Storage(crds.GenericConfig.RESTOptionsGetter)
		crds.ExtraConfig.CRDRESTOptionsGetter = seams.Storage(crds.ExtraConfig.CRDRESTOptionsGetter)
	}
	if seams.CustomResources != nil {
		crds.GenericConfig.RESTOptionsGetter = &once{inner: crds.GenericConfig.RESTOptionsGetter,
			made: map[schema.GroupResource]storage.Interface{}}
		// Upstream's handler and controllers are for the system space.
		crds.GenericConfig.LoopbackClientConfig = seams.SystemSpace
	}
	with.CRDs = crds.GenericConfig.RESTOptionsGetter
	with.Config = apiextensionsapiserver.Config{GenericConfig: &genericapiserver.RecommendedConfig{
		Config: crds.GenericConfig.Config, SharedInformerFactory: crds.GenericConfig.SharedInformerFactory,
	}, ExtraConfig: crds.ExtraConfig}
	server, err := crds.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, nil, fmt.Errorf("building the CRD server: %w", err)
	}
	with.System = server.Informers.Apiextensions().V1().CustomResourceDefinitions()
	if seams.CustomResources == nil {
		return server, nil, nil
	}
	served, err := seams.CustomResources(with)
	if err != nil {
		return nil, nil, fmt.Errorf("setting up custom resources: %w", err)
	}
	hook := func(ctx genericapiserver.PostStartHookContext) error {
		synced := make(chan struct{})
		go served.Run(ctx, func() { close(synced) })
		select {
		case <-synced:
		case <-ctx.Done():
		}
		return nil
	}
	return server, served, server.GenericAPIServer.AddPostStartHook("a4s-custom-resources", hook)
}

// once makes the storage of a resource once, however many servers there are
// for it: the second would be another cache of the same.
type once struct {
	inner generic.RESTOptionsGetter
	mu    sync.Mutex
	made  map[schema.GroupResource]storage.Interface
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o *once) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := o.inner.GetRESTOptions(resource, example)
	if err != nil {
		return opts, err
	}
	inner := apistorage.Maker(opts.Decorator)
	opts.Decorator = apistorage.Make(func(s apistorage.Storing) (storage.Interface, factory.DestroyFunc, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if made, ok := o.made[resource]; ok {
			return made, func() {}, nil
		}
		made, destroy, err := inner(s)
		if err == nil {
			o.made[resource] = made
		}
		return made, destroy, err
	}).Decorator()
	return opts, nil
}
