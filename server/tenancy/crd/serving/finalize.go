package serving

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/crd"
)

// GetCustomResourceListerCollectionDeleter implements finalizer.CRClientGetter:
// it finds what goes with a tenant's CRD when that is deleted. Objects
// that a CRD of the system serves stay: they are not of this one.
func (s *Server) GetCustomResourceListerCollectionDeleter(
	d *apiextensionsv1.CustomResourceDefinition,
) (finalizer.ListerCollectionDeleter, error) {
	tenant, name := space.SplitClusterName(d.Name)
	r := schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}
	if source, _ := s.o.Catalog.Serving(tenant, r); source == crd.System {
		return nothing{}, nil
	}
	i := s.instanceOf(tenant)
	if i == nil {
		return nil, fmt.Errorf("the definitions of tenant %s are not served yet", tenant)
	}
	native, err := i.view.Lister().Get(name)
	if err != nil {
		return nil, err
	}
	return i.GetCustomResourceListerCollectionDeleter(native)
}

// nothing has no objects.
type nothing struct{ rest.Lister }

// List implements rest.Lister.
func (nothing) List(context.Context, *internalversion.ListOptions) (runtime.Object, error) {
	return &unstructured.UnstructuredList{}, nil
}

// DeleteCollection implements rest.CollectionDeleter.
func (nothing) DeleteCollection(
	context.Context, rest.ValidateObjectFunc, *metav1.DeleteOptions, *internalversion.ListOptions,
) (runtime.Object, error) {
	return &unstructured.UnstructuredList{}, nil
}
