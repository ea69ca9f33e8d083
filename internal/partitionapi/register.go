package partitionapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the core group, version v1.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Version: "v1"} }

// GroupResource is that of the configurations, for errors and registries.
func GroupResource() schema.GroupResource { return schema.GroupResource{Resource: Resource} }

// GroupVersionResource is that of the configurations, for dynamic clients.
func GroupVersionResource() schema.GroupVersionResource {
	return GroupVersion().WithResource(Resource)
}

// AddToScheme registers all types, as version v1 and as their own internal form.
func AddToScheme(s *runtime.Scheme) error {
	AddConfigsToScheme(s)
	AddDirectoryToScheme(s)
	return nil
}

// AddConfigsToScheme registers those of service groups.
func AddConfigsToScheme(s *runtime.Scheme) {
	add(s, &DataPartitionConfig{}, &DataPartitionConfigList{})
}

// AddDirectoryToScheme registers those of the directory of partitions.
func AddDirectoryToScheme(s *runtime.Scheme) {
	add(s, &Partition{}, &PartitionList{}, &TenantPlacement{}, &TenantPlacementList{})
}

func add(s *runtime.Scheme, types ...runtime.Object) {
	// v1 comes first: it is what a serializer takes for the kind of an object that does
	// not say it.
	for _, version := range []string{GroupVersion().Version, runtime.APIVersionInternal} {
		s.AddKnownTypes(schema.GroupVersion{Version: version}, types...)
	}
}

// OpenAPIModelName names the model in OpenAPI documents.
func (DataPartitionConfig) OpenAPIModelName() string { return modelName("DataPartitionConfig") }

// OpenAPIModelName names the model in OpenAPI documents.
func (DataPartitionConfigList) OpenAPIModelName() string {
	return modelName("DataPartitionConfigList")
}

// OpenAPIModelName names the model in OpenAPI documents.
func (Partition) OpenAPIModelName() string { return modelName("Partition") }

// OpenAPIModelName names the model in OpenAPI documents.
func (PartitionList) OpenAPIModelName() string { return modelName("PartitionList") }

// OpenAPIModelName names the model in OpenAPI documents.
func (PartitionSpec) OpenAPIModelName() string { return modelName("PartitionSpec") }

// OpenAPIModelName names the model in OpenAPI documents.
func (PartitionServer) OpenAPIModelName() string { return modelName("PartitionServer") }

// OpenAPIModelName returns the name of the type in OpenAPI documents.
func (RemovedPartition) OpenAPIModelName() string { return modelName("RemovedPartition") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantPlacement) OpenAPIModelName() string { return modelName("TenantPlacement") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantPlacementList) OpenAPIModelName() string { return modelName("TenantPlacementList") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantPlacementSpec) OpenAPIModelName() string { return modelName("TenantPlacementSpec") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantPlacementStatus) OpenAPIModelName() string { return modelName("TenantPlacementStatus") }

func modelName(typ string) string { return "io.a4s.api.core.v1." + typ }

var (
	_ runtime.Object            = &DataPartitionConfig{}
	_ runtime.Object            = &DataPartitionConfigList{}
	_ metav1.ObjectMetaAccessor = &DataPartitionConfig{}
	_ metav1.ListMetaAccessor   = &DataPartitionConfigList{}
	_ runtime.Object            = &Partition{}
	_ runtime.Object            = &PartitionList{}
	_ runtime.Object            = &TenantPlacement{}
	_ runtime.Object            = &TenantPlacementList{}
)
