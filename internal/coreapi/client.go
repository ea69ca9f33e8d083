package coreapi

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// Object is what a client can read and write.
type Object interface {
	runtime.Object
	metav1.Object
}

// Kind is one that a client is for.
type Kind[T Object, L runtime.Object] struct {
	Resource    schema.GroupVersionResource
	AddToScheme func(*runtime.Scheme) error
	New         func() T
	NewList     func() L
}

// NewClient returns a client. A nil http means one by the configuration.
func NewClient[T Object, L runtime.Object](
	config *rest.Config, http *http.Client, kind Kind[T, L],
) (*gentype.ClientWithList[T, L], error) {
	scheme := runtime.NewScheme()
	if err := kind.AddToScheme(scheme); err != nil {
		return nil, err
	}
	gv := kind.Resource.GroupVersion()
	metav1.AddToGroupVersion(scheme, gv)
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/api", &gv
	c.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).
		WithoutConversion()
	if http == nil {
		var err error
		if http, err = rest.HTTPClientFor(c); err != nil {
			return nil, fmt.Errorf("making a client of %s: %w", kind.Resource.Resource, err)
		}
	}
	rc, err := rest.RESTClientForConfigAndClient(c, http)
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", kind.Resource.Resource, err)
	}
	return gentype.NewClientWithList(kind.Resource.Resource, rc, runtime.NewParameterCodec(scheme), "",
		kind.New, kind.NewList, gentype.PrefersProtobuf[T]()), nil
}
