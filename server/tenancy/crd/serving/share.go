package serving

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

// justEstablished is how long after a CRD is established creates wait, as upstream's do:
// another server may not serve it yet.
const justEstablished = 2 * time.Second

// share is what a tenant has of a handler that others have, too.
type share struct {
	tenant string
	common *common
	crd    atomic.Pointer[apiextensionsv1.CustomResourceDefinition] // the tenant's own

	begin sync.Once

	// running are the requests that can need the storages, inside those that are in the
	// handler. gone is set when the tenant has none of them any more.
	mu              sync.Mutex
	running, inside int
	closed, gone    bool
	storages        map[*inShares]*stored
}

// stored is the storage of a version of a resource of one tenant.
type stored struct {
	storage.Interface
	destroy func()
}

// errLeft is what a request gets whose CRD has become another one meanwhile.
func errLeft() error { return apierrors.NewServiceUnavailable(servedByAnother) }

// follow keeps the share that a tenant has for a CRD up with it; crd is nil when it is gone.
// It is called for one change after the other.
func (i *instance) follow(
	c *commons, tenant, name string, crd *apiextensionsv1.CustomResourceDefinition,
) error {
	i.mu.RLock()
	was := i.shares[name]
	i.mu.RUnlock()
	if was != nil && crd != nil && sharable(crd) && equal(was.crd.Load(), crd) {
		was.crd.Store(crd)
		return nil
	}
	var next *share
	var err error
	if crd != nil {
		next, err = c.join(tenant, crd)
	}
	i.mu.Lock()
	if next != nil {
		i.shares[name] = next
	} else {
		delete(i.shares, name)
	}
	i.mu.Unlock()
	if was != nil {
		c.leave(was)
	}
	return err
}

// enter finds the share that serves a request, nil if the tenant's own handler does. Until
// the request leaves it, handler and storages stay.
func (i *instance) enter(req *http.Request) *visit {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok {
		return nil
	}
	return i.hold(info.Resource + "." + info.APIGroup)
}

func (i *instance) hold(name string) *visit {
	i.mu.RLock()
	defer i.mu.RUnlock()
	s := i.shares[name]
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	s.inside++
	return &visit{share: s, leave: sync.OnceFunc(func() {
		s.mu.Lock()
		s.running--
		s.endedWith()
	})}
}

// end is called when the request has returned from the handler.
func (v *visit) end() {
	v.leave()
	v.share.mu.Lock()
	v.share.inside--
	v.share.endedWith()
}

// left reports whether the tenant has the share no more.
func (s *share) left() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// close ends the storages of the tenant, and with them its watches, when its requests have
// ended. None comes any more.
func (s *share) close() {
	s.mu.Lock()
	s.closed = true
	s.endedWith()
}

// endedWith unlocks the share, and ends what nobody needs any more. Neither the request nor
// those who follow the CRDs of other tenants wait for the storages. The handler is held until
// a request returns, be it over: what it is answered is not to say whether others have it.
func (s *share) endedWith() {
	var storages map[*inShares]*stored
	if s.closed && s.running == 0 {
		storages, s.storages = s.storages, nil
	}
	left := s.closed && s.inside == 0 && !s.gone
	s.gone = s.gone || left
	s.mu.Unlock()
	if left {
		s.common.commons.ended(s.common)
	}
	if len(storages) == 0 {
		return
	}
	go func() {
		for _, of := range storages {
			of.destroy()
		}
	}()
}

// storage is that of this tenant. It is made when it is first asked for.
func (s *share) storage(m *inShares) (storage.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.storages == nil {
		return nil, errLeft()
	}
	if made := s.storages[m]; made != nil {
		return made, nil
	}
	made, err := m.forTenant(s.tenant)
	if err != nil {
		return nil, err
	}
	s.storages[m] = made
	return made, nil
}

// await waits for what a request of a tenant that had the handler for itself would wait for:
// until it is made, and with creates, until other servers know the CRD.
func (s *share) await(req *http.Request) {
	s.begin.Do(s.common.make)
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || info.Verb != "create" || info.Subresource != "" {
		return
	}
	is := apihelpers.FindCRDCondition(s.crd.Load(), apiextensionsv1.Established)
	if is == nil || time.Since(is.LastTransitionTime.Time) >= justEstablished {
		return
	}
	timer := time.NewTimer(justEstablished)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-req.Context().Done():
	}
}

// GetCustomResourceListerCollectionDeleter implements finalizer.CRClientGetter.
func (i *instance) GetCustomResourceListerCollectionDeleter(
	crd *apiextensionsv1.CustomResourceDefinition,
) (finalizer.ListerCollectionDeleter, error) {
	v := i.hold(crd.Name)
	if v == nil {
		return i.handler.GetCustomResourceListerCollectionDeleter(crd)
	}
	defer v.end()
	s := v.share
	s.begin.Do(s.common.make)
	all, err := s.common.GetCustomResourceListerCollectionDeleter(s.common.crd)
	if err != nil {
		return nil, err
	}
	return &emptying{all, s}, nil
}

// emptying lists and deletes what a tenant has.
type emptying struct {
	finalizer.ListerCollectionDeleter
	share *share
}

// List implements rest.Lister.
func (e *emptying) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	return e.ListerCollectionDeleter.List(visiting(ctx, e.share, func() {}), o)
}

// DeleteCollection implements rest.CollectionDeleter.
func (e *emptying) DeleteCollection(
	ctx context.Context, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions, l *internalversion.ListOptions,
) (runtime.Object, error) {
	return e.ListerCollectionDeleter.DeleteCollection(visiting(ctx, e.share, func() {}), validate, o, l)
}

// admitting refuses creates while the tenant's CRD is being deleted, as upstream's handler
// does by the CRD that it has.
type admitting struct{ admission.Interface }

var (
	_ admission.MutationInterface   = admitting{}
	_ admission.ValidationInterface = admitting{}
)

// Handles implements admission.Interface.
func (a admitting) Handles(o admission.Operation) bool {
	return o == admission.Create || a.Interface.Handles(o)
}

// Admit implements admission.MutationInterface.
func (a admitting) Admit(ctx context.Context, of admission.Attributes, o admission.ObjectInterfaces) error {
	if err := refused(ctx, of); err != nil {
		return err
	}
	if inner, ok := a.Interface.(admission.MutationInterface); ok && inner.Handles(of.GetOperation()) {
		return inner.Admit(ctx, of, o)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (a admitting) Validate(ctx context.Context, of admission.Attributes, o admission.ObjectInterfaces) error {
	if err := refused(ctx, of); err != nil {
		return err
	}
	if inner, ok := a.Interface.(admission.ValidationInterface); ok && inner.Handles(of.GetOperation()) {
		return inner.Validate(ctx, of, o)
	}
	return nil
}

func refused(ctx context.Context, of admission.Attributes) error {
	v, ok := visitOf(ctx)
	if !ok || of.GetOperation() != admission.Create {
		return nil
	}
	if crd := v.share.crd.Load(); crd.DeletionTimestamp.IsZero() &&
		!apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating) {
		return nil
	}
	return apierrors.NewForbidden(of.GetResource().GroupResource(), of.GetName(),
		errors.New("create not allowed while custom resource definition is terminating"))
}
