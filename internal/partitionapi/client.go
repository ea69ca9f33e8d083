package partitionapi

import (
	"net/http"

	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/coreapi"
)

// Client has the verbs of configurations: Create, Get, List, Watch, Update, Patch and
// Delete.
type Client = gentype.ClientWithList[*DataPartitionConfig, *DataPartitionConfigList]

// NewClient returns a client. A nil http means one by the configuration.
func NewClient(config *rest.Config, http *http.Client) (*Client, error) {
	return coreapi.NewClient(config, http, coreapi.Kind[*DataPartitionConfig, *DataPartitionConfigList]{
		Resource: GroupVersionResource(), AddToScheme: AddToScheme,
		New:     func() *DataPartitionConfig { return &DataPartitionConfig{} },
		NewList: func() *DataPartitionConfigList { return &DataPartitionConfigList{} },
	})
}
