package serving

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/a4s-io/a4s/internal/tenantapi"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	clientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	"k8s.io/apiextensions-apiserver/pkg/controller/status"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/klog/v2"
)

// handler is upstream's for custom resources.
type handler interface {
	http.Handler
	finalizer.CRClientGetter
}

// instance serves the custom resources of some CRDs.
type instance struct {
	// handler is for what is not served in a share.
	handler
	view *view
	stop context.CancelFunc

	mu     sync.RWMutex
	shares map[string]*share // by the name of the CRD
}

// newHandler makes upstream's handler over a view of CRDs. Discovery and
// OpenAPI are not its business here.
func (s *Server) newHandler(
	v *view, options generic.RESTOptionsGetter, services webhook.ServiceResolver,
	auth webhook.AuthenticationInfoResolverWrapper,
) (handler, error) {
	g := s.o.Generic
	return apiextensionsapiserver.NewCustomResourceDefinitionHandler(nil, nil, v, http.HandlerFunc(s.notFound),
		options, admitting{g.AdmissionControl}, s.establishing,
		services, auth, s.o.MasterCount, g.Authorization.Authorizer, g.RequestTimeout,
		time.Duration(g.MinRequestTimeout)*time.Second, s.openAPI, g.MaxRequestBodyBytes)
}

// newInstance makes the instance of a tenant.
func (s *Server) newInstance(tenant string) (*instance, error) {
	v := newView()
	services, auth := s.o.Reach(tenant)
	h, err := s.newHandler(v, s.o.Bound(s.o.Options, tenant), services, translating(auth, s.o.Projector(tenant)))
	if err != nil {
		return nil, fmt.Errorf("making what serves the custom resources of tenant %s: %w", tenant, err)
	}
	client, err := s.clientOf(tenant)
	if err != nil {
		return nil, err
	}
	naming := status.NewNamingConditionController(klog.Background(), v, &pooled{client, s.o.Pool})
	ctx, stop := context.WithCancel(s.ctx)
	go naming.RunWithContext(ctx)
	return &instance{handler: h, view: v, stop: stop, shares: map[string]*share{}}, nil
}

// clientOf is a client of the CRDs of one space, by their native names.
func (s *Server) clientOf(tenant string) (clientset.ApiextensionsV1Interface, error) {
	cfg := tenantapi.InSpace(s.o.Client, tenant)
	cfg.QPS = -1
	client, err := clientset.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client of the definitions of %s: %w", tenant, err)
	}
	return client, nil
}

// local keeps the instance of a tenant up with the tenant's CRDs.
func (s *Server) local(tenant string, old, crd *apiextensionsv1.CustomResourceDefinition) {
	i, err := s.instanceFor(tenant, crd != nil)
	if err == nil && i != nil {
		// Its own handler is never to make what a share has: a CRD is there when its
		// share is, and goes before it. So does one that is shared no more.
		switch {
		case crd == nil:
			i.view.set(old.Name, nil)
			err = i.follow(&s.commons, tenant, old.Name, nil)
		case sharable(crd):
			err = i.follow(&s.commons, tenant, crd.Name, crd)
			i.view.set(crd.Name, crd)
		default:
			i.view.set(crd.Name, crd)
			err = i.follow(&s.commons, tenant, crd.Name, crd)
		}
	}
	s.patterns.became(old, crd)
	if err != nil {
		s.o.Log.WithError(err).Error("the definitions of a tenant are not served")
	}
	if i == nil || i.view.size() > 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i.stop()
	delete(s.instances, tenant)
}

// instanceFor is the instance of a tenant, which is made if it is needed.
func (s *Server) instanceFor(tenant string, needed bool) (*instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.instances[tenant]
	if i != nil || !needed {
		return i, nil
	}
	i, err := s.newInstance(tenant)
	if err != nil {
		return nil, err
	}
	s.instances[tenant] = i
	return i, nil
}

// united keeps the instance for system users up with what tenants define.
func (s *Server) united(old, crd *apiextensionsv1.CustomResourceDefinition) {
	if crd != nil {
		s.union.view.set(crd.Name, crd)
	} else {
		s.union.view.set(old.Name, nil)
	}
}

// instanceOf is the instance of a tenant, nil if it has none.
func (s *Server) instanceOf(tenant string) *instance {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.instances[tenant]
}
