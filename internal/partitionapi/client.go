package partitionapi

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// Client has the verbs of configurations: Create, Get, List, Watch, Update, Patch and
// Delete.
type Client = gentype.ClientWithList[*DataPartitionConfig, *DataPartitionConfigList]

// NewClient returns a client. A nil http means one by the configuration.
func NewClient(config *rest.Config, http *http.Client) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, err
	}
	gv := GroupVersion()
	metav1.AddToGroupVersion(scheme, gv)
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/api", &gv
	c.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).
		WithoutConversion()
	if http == nil {
		var err error
		if http, err = rest.HTTPClientFor(c); err != nil {
			return nil, fmt.Errorf("making a client of the configurations of service groups: %w", err)
		}
	}
	rc, err := rest.RESTClientForConfigAndClient(c, http)
	if err != nil {
		return nil, fmt.Errorf("making a client of the configurations of service groups: %w", err)
	}
	return gentype.NewClientWithList(Resource, rc, runtime.NewParameterCodec(scheme), "",
		func() *DataPartitionConfig { return &DataPartitionConfig{} },
		func() *DataPartitionConfigList { return &DataPartitionConfigList{} },
		gentype.PrefersProtobuf[*DataPartitionConfig]()), nil
}
