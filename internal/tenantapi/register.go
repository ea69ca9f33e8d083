package tenantapi

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the core group, version v1.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Version: "v1"} }

// GroupResource is that of tenants, for errors and registries.
func GroupResource() schema.GroupResource { return schema.GroupResource{Resource: Resource} }

// UsageGroupResource is that of what tenants use.
func UsageGroupResource() schema.GroupResource { return schema.GroupResource{Resource: UsageResource} }

// GroupVersionResource is that of tenants, for dynamic clients.
func GroupVersionResource() schema.GroupVersionResource {
	return GroupVersion().WithResource(Resource)
}

// AddToScheme registers the types, as version v1 and as their own internal
// form.
func AddToScheme(s *runtime.Scheme) error {
	// v1 comes first: it is what a serializer takes for the kind of an
	// object that does not say it.
	for _, version := range []string{GroupVersion().Version, runtime.APIVersionInternal} {
		s.AddKnownTypes(schema.GroupVersion{Version: version}, &Tenant{}, &TenantList{},
			&TenantUsage{}, &TenantUsageList{}, &TenantTemplate{}, &TenantTemplateList{},
			&TenantAccess{}, &TenantAccessList{})
	}
	if err := s.AddFieldLabelConversionFunc(GroupVersion().WithKind(Kind), convertSelector); err != nil {
		return fmt.Errorf("adding the field selectors of tenants: %w", err)
	}
	return nil
}

// Field selectors of tenants besides those of every kind.
const (
	// SelectPhase selects by the phase.
	SelectPhase = "status.phase"
	// SelectDormant is "true" for tenants whose space nobody has used yet and that are
	// not being deleted.
	SelectDormant = "status.dormant"
	// SelectTemplate selects by the template that the Tenant names.
	SelectTemplate = "spec.template"
)

func convertSelector(label, value string) (string, string, error) {
	if label == SelectPhase || label == SelectDormant || label == SelectTemplate {
		return label, value, nil
	}
	return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
}

// OpenAPIModelName names the model in OpenAPI documents.
func (Tenant) OpenAPIModelName() string { return modelName("Tenant") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantList) OpenAPIModelName() string { return modelName("TenantList") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantSpec) OpenAPIModelName() string { return modelName("TenantSpec") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantLimits) OpenAPIModelName() string { return modelName("TenantLimits") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantScheduling) OpenAPIModelName() string { return modelName("TenantScheduling") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantStatus) OpenAPIModelName() string { return modelName("TenantStatus") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantUsage) OpenAPIModelName() string { return modelName("TenantUsage") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantUsageList) OpenAPIModelName() string { return modelName("TenantUsageList") }

// OpenAPIModelName names the model in OpenAPI documents.
func (LimitUsage) OpenAPIModelName() string { return modelName("LimitUsage") }

func modelName(typ string) string { return "io.a4s.api.core.v1." + typ }

var (
	_ runtime.Object            = &Tenant{}
	_ runtime.Object            = &TenantList{}
	_ runtime.Object            = &TenantUsage{}
	_ runtime.Object            = &TenantUsageList{}
	_ metav1.ObjectMetaAccessor = &Tenant{}
	_ metav1.ListMetaAccessor   = &TenantList{}
)
