package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// Tenants see a part of the APIServices. Those that the API server has for the
// groups that are built into it are the same in every cluster. The others tell
// of the cluster: where administrators have added API servers, and what the
// system space has defined.
//
// Of what is announced they see nothing: it is all the cluster's. So it is with nodes,
// unless the Tenant says that there are some.

const (
	// openField is a field that objects have which tenants see, where they
	// see a part of what is shared.
	openField = "a4s.open"
	isOpen    = "true"
)

var apiServices = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}

// openAPIService tells the APIServices that tenants see: what the API server
// itself serves of groups of which tenants have something.
func openAPIService(obj runtime.Object) bool {
	service, ok := obj.(*apiregistration.APIService)
	return ok && service.Spec.Service == nil && kinds.Shows(service.Spec.Group)
}

// openPart is what tenants see of a kind that is not theirs, nil where that is
// not for the storage to say.
func openPart(k kinds.Kind) func(runtime.Object) bool {
	switch {
	case k.Group == apiServices.Group && k.Resource == apiServices.Resource:
		return openAPIService
	case k.Announced && !k.Namespaced, kinds.IsNodes(k.Group, k.Resource):
		return func(runtime.Object) bool { return false }
	}
	return nil
}

// seesPart reports whether a request sees a part of what there is. Upstream itself
// reads what it needs on behalf of requests for other resources.
func (m *confinement) seesPart(ctx context.Context) bool {
	addressed, ok := space.FromContext(ctx)
	if m.keys.open == nil || !ok || space.IsSystem(addressed) {
		return false
	}
	if info, ok := request.RequestInfoFrom(ctx); ok &&
		(info.APIGroup != m.keys.resource.Group || info.Resource != m.keys.resource.Resource) {
		return false
	}
	if m.keys.sees == nil {
		return true
	}
	all, err := m.keys.sees(ctx, addressed)
	return err != nil || !all
}

// onlyOpen narrows a list or watch to what its tenant sees.
func (m *confinement) onlyOpen(ctx context.Context, opts *storage.ListOptions) {
	if m.seesPart(ctx) {
		m.narrow(opts, openField, isOpen)
	}
}

// checkOpen says of what a tenant does not see that it is not there.
func (m *mapped) checkOpen(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	if !m.border.seesPart(ctx) || m.keys.open(out) {
		return nil
	}
	if err := runtime.SetZeroValue(out); err != nil {
		return err
	}
	if opts.IgnoreNotFound {
		return nil
	}
	return storage.NewKeyNotFoundError(m.keys.key(key), 0)
}
