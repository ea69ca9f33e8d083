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

// PartitionClient has the verbs of partitions.
type PartitionClient = gentype.ClientWithList[*Partition, *PartitionList]

// NewPartitionClient returns a client. A nil http means one by the configuration.
func NewPartitionClient(config *rest.Config, http *http.Client) (*PartitionClient, error) {
	return coreapi.NewClient(config, http, coreapi.Kind[*Partition, *PartitionList]{
		Resource: GroupVersion().WithResource(Partitions), AddToScheme: AddToScheme,
		New: func() *Partition { return &Partition{} }, NewList: func() *PartitionList { return &PartitionList{} },
	})
}

// PlacementClient has the verbs of placements.
type PlacementClient = gentype.ClientWithList[*TenantPlacement, *TenantPlacementList]

// NewPlacementClient returns a client. A nil http means one by the configuration.
func NewPlacementClient(config *rest.Config, http *http.Client) (*PlacementClient, error) {
	return coreapi.NewClient(config, http, coreapi.Kind[*TenantPlacement, *TenantPlacementList]{
		Resource: GroupVersion().WithResource(Placements), AddToScheme: AddToScheme,
		New:     func() *TenantPlacement { return &TenantPlacement{} },
		NewList: func() *TenantPlacementList { return &TenantPlacementList{} },
	})
}
