package allocations

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/coreapi"
)

// GroupVersion is the core group, version v1.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Version: "v1"} }

// AddToScheme registers the types, as version v1 and as their own internal form.
func AddToScheme(s *runtime.Scheme) error {
	// v1 comes first: it is what a serializer takes for the kind of an object that does
	// not say it.
	for _, version := range []string{GroupVersion().Version, runtime.APIVersionInternal} {
		s.AddKnownTypes(schema.GroupVersion{Version: version}, &NodeAllocation{}, &NodeAllocationList{})
	}
	return nil
}

// Client has the verbs of allocations.
type Client = gentype.ClientWithList[*NodeAllocation, *NodeAllocationList]

// NewClient returns a client. A nil http means one by the configuration.
func NewClient(config *rest.Config, http *http.Client) (*Client, error) {
	return coreapi.NewClient(config, http, coreapi.Kind[*NodeAllocation, *NodeAllocationList]{
		Resource: GroupVersion().WithResource(Resource), AddToScheme: AddToScheme,
		New:     func() *NodeAllocation { return &NodeAllocation{} },
		NewList: func() *NodeAllocationList { return &NodeAllocationList{} },
	})
}

// OpenAPIModelName names the model in OpenAPI documents.
func (NodeAllocation) OpenAPIModelName() string { return "io.a4s.api.core.v1.NodeAllocation" }

// OpenAPIModelName names the model in OpenAPI documents.
func (NodeAllocationList) OpenAPIModelName() string { return "io.a4s.api.core.v1.NodeAllocationList" }

// OpenAPIModelName names the model in OpenAPI documents.
func (Share) OpenAPIModelName() string { return "io.a4s.api.core.v1.NodeAllocationShare" }

// OpenAPIModelName names the model in OpenAPI documents.
func (HostPort) OpenAPIModelName() string { return "io.a4s.api.core.v1.NodeAllocationHostPort" }

var (
	_ runtime.Object            = &NodeAllocation{}
	_ runtime.Object            = &NodeAllocationList{}
	_ metav1.ObjectMetaAccessor = &NodeAllocation{}
	_ metav1.ListMetaAccessor   = &NodeAllocationList{}
)
