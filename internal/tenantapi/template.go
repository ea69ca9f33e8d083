package tenantapi

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/coreapi"
)

const (
	// TemplateKind is the kind of a template of tenants.
	TemplateKind = "TenantTemplate"
	// Templates is its plural name in paths and rules, TemplateSingular that for one.
	Templates, TemplateSingular = "tenanttemplates", "tenanttemplate"
	// MaxTemplateObjects is how many objects a template has at most: the status of each of
	// its tenants names them.
	MaxTemplateObjects = 64
	// MaxTemplateBytes is how long its objects are at most together, as JSON.
	MaxTemplateBytes = 256 << 10
	// TenantName is the placeholder for the name of a tenant.
	TenantName = "$(tenant.name)"
	// MaxTemplateAccesses is how many accesses a template has at most.
	MaxTemplateAccesses = 16
	// CopyLabel is on Secrets of the system space that templates may copy to tenants, with
	// the value CopyAllowed. Who can set it can read the Secret.
	CopyLabel, CopyAllowed = "a4s.io/copy-to-tenants", "true"
	// DefaultAtATime is how many tenants get a change of a template at a time.
	DefaultAtATime = 5
)

// TemplateApplied is the condition of a Tenant that names a template: it has the objects
// that the template says.
const TemplateApplied = "TemplateApplied"

// RolledOut is the condition of a template whose tenants have it as it is now.
const RolledOut = "RolledOut"

// Reasons of TemplateApplied and RolledOut.
const (
	// ReasonApplied is a tenant that has what its template says.
	ReasonApplied = "Applied"
	// ReasonNoTemplate is a tenant whose template does not exist.
	ReasonNoTemplate = "TemplateNotFound"
	// ReasonNotApplied is a tenant of which an object could not be made as the template says.
	ReasonNotApplied = "NotApplied"
	// ReasonNotCurrent is a tenant that waits for its turn, of which a Secret or an access, which do not
	// wait, could not be made as they are now.
	ReasonNotCurrent = "NotCurrent"
	// ReasonProgressing is a template that not all of its tenants have yet.
	ReasonProgressing = "Progressing"
	// ReasonStopped is one that some of them could not get, so that no others get it.
	ReasonStopped = "Stopped"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TenantTemplate is what tenants made from it get and keep.
type TenantTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   TenantTemplateSpec   `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	Status TenantTemplateStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TenantTemplateList is a list of templates.
type TenantTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []TenantTemplate `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// TenantTemplateSpec is what administrators decide about the tenants of a template.
type TenantTemplateSpec struct {
	// Default makes it the template of tenants that are made without one.
	Default bool `json:"default,omitempty" protobuf:"varint,1,opt,name=default"`
	// Limits bound its tenants where their own do not.
	Limits *TenantLimits `json:"limits,omitempty" protobuf:"bytes,2,opt,name=limits"`
	// Labels are on its Tenants.
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,3,rep,name=labels"`
	// Objects are in the space of each of its tenants, and the system keeps them so.
	Objects []runtime.RawExtension `json:"objects,omitempty" protobuf:"bytes,4,rep,name=objects"`
	// AtATime is how many tenants get a change of the objects at a time, DefaultAtATime if
	// it is not set.
	AtATime int64 `json:"atATime,omitempty" protobuf:"varint,5,opt,name=atATime"`
	// MaxFailed is how many tenants may be unable to get a change before no others get it:
	// none if it is not set.
	MaxFailed int64 `json:"maxFailed,omitempty" protobuf:"varint,6,opt,name=maxFailed"`
	// PodSecurity, Allow, Scheduling and Images hold for its tenants where their own do not, each
	// field of Allow for itself. Exclusive nodes are kept for all tenants that have Scheduling from
	// the template.
	PodSecurity string            `json:"podSecurity,omitempty" protobuf:"bytes,7,opt,name=podSecurity"`
	Allow       *TenantAllowances `json:"allow,omitempty" protobuf:"bytes,8,opt,name=allow"`
	Scheduling  *TenantScheduling `json:"scheduling,omitempty" protobuf:"bytes,9,opt,name=scheduling"`
	Images      []string          `json:"images,omitempty" protobuf:"bytes,10,rep,name=images"`
	// Hosts hold likewise. TenantName in them stands for the name of each tenant.
	Hosts []string `json:"hosts,omitempty" protobuf:"bytes,14,rep,name=hosts"`
	// DeletionProtection is that of Tenants that are made from it and say none.
	DeletionProtection *bool `json:"deletionProtection,omitempty" protobuf:"varint,11,opt,name=deletionProtection"`
	// Secrets are in the space of each of its tenants, as copies of Secrets of the system
	// space: what is in them does not stand in a template.
	Secrets []TemplateSecret `json:"secrets,omitempty" protobuf:"bytes,12,rep,name=secrets"`
	// Access are the TenantAccesses that are made for each of its tenants.
	Access []TemplateAccess `json:"access,omitempty" protobuf:"bytes,13,rep,name=access"`
}

// TemplateSecret is a Secret of each tenant of a template.
type TemplateSecret struct {
	// Namespace and Name are those in the space of the tenant.
	Namespace string            `json:"namespace" protobuf:"bytes,1,opt,name=namespace"`
	Name      string            `json:"name" protobuf:"bytes,2,opt,name=name"`
	Labels    map[string]string `json:"labels,omitempty" protobuf:"bytes,3,rep,name=labels"`
	// From is the Secret of the system space that it is a copy of, which has CopyLabel.
	From TemplateSecretSource `json:"from" protobuf:"bytes,4,opt,name=from"`
}

// TemplateSecretSource names a Secret of the system space.
type TemplateSecretSource struct {
	Namespace string `json:"namespace" protobuf:"bytes,1,opt,name=namespace"`
	Name      string `json:"name" protobuf:"bytes,2,opt,name=name"`
}

// String names the Secret in messages.
func (in TemplateSecretSource) String() string { return in.Namespace + "/" + in.Name }

// TemplateAccess is a TenantAccess for each tenant of a template.
type TemplateAccess struct {
	// Name is that of the TenantAccess.
	Name string           `json:"name" protobuf:"bytes,1,opt,name=name"`
	Spec TenantAccessSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

// TenantTemplateStatus is what a4s reports about a template.
type TenantTemplateStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type" protobuf:"bytes,1,rep,name=conditions"`
	// Tenants is the number of its tenants whose space is made, Current of those that have
	// the template as it is now, Failed of those that could not get it.
	Tenants int64 `json:"tenants" protobuf:"varint,2,opt,name=tenants"`
	Current int64 `json:"current" protobuf:"varint,3,opt,name=current"`
	Failed  int64 `json:"failed,omitempty" protobuf:"varint,4,opt,name=failed"`
}

// AppliedTemplate is what a tenant has of a template.
type AppliedTemplate struct {
	// Name, UID and Generation are those of the template that was applied last, or that
	// could not be applied, as the condition TemplateApplied says.
	Name       string    `json:"name" protobuf:"bytes,1,opt,name=name"`
	UID        types.UID `json:"uid,omitempty" protobuf:"bytes,2,opt,name=uid"`
	Generation int64     `json:"generation,omitempty" protobuf:"varint,3,opt,name=generation"`
	// Objects are those of the space that are the template's. Users of the tenant can
	// neither change nor delete them.
	Objects []TemplateObject `json:"objects,omitempty" protobuf:"bytes,4,rep,name=objects"`
	// Access are the names of the TenantAccesses that were made for the tenant.
	Access []string `json:"access,omitempty" protobuf:"bytes,5,rep,name=access"`
}

// TemplateObject names an object of a space, in native form.
type TemplateObject struct {
	Kind      string `json:"kind" protobuf:"bytes,1,opt,name=kind"`
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,2,opt,name=namespace"`
	Name      string `json:"name" protobuf:"bytes,3,opt,name=name"`
	// UID is that of the object that was made for the template, empty as long as none was.
	UID types.UID `json:"uid,omitempty" protobuf:"bytes,4,opt,name=uid"`
	// From is the Secret of the system space that a Secret was copied from, by namespace and name.
	From string `json:"from,omitempty" protobuf:"bytes,5,opt,name=from"`
}

// Named is the name alone, by which objects are compared.
func (in TemplateObject) Named() TemplateObject {
	in.UID, in.From = "", ""
	return in
}

// String names the object in messages.
func (in TemplateObject) String() string {
	if in.Namespace == "" {
		return in.Kind + " " + in.Name
	}
	return in.Kind + " " + in.Namespace + "/" + in.Name
}

// Has reports whether an object of this name is the template's.
func (in *AppliedTemplate) Has(o TemplateObject) bool {
	return in != nil && slices.ContainsFunc(in.Objects, func(is TemplateObject) bool {
		return is.Named() == o.Named()
	})
}

// TemplateGroupVersionResource is that of templates, for dynamic clients.
func TemplateGroupVersionResource() schema.GroupVersionResource {
	return GroupVersion().WithResource(Templates)
}

// TemplateClient has the verbs of templates.
type TemplateClient = gentype.ClientWithList[*TenantTemplate, *TenantTemplateList]

// NewTemplateClient returns a client. A nil http means one by the configuration.
func NewTemplateClient(config *rest.Config, http *http.Client) (*TemplateClient, error) {
	return coreapi.NewClient(config, http, coreapi.Kind[*TenantTemplate, *TenantTemplateList]{
		Resource: TemplateGroupVersionResource(), AddToScheme: AddToScheme,
		New:     func() *TenantTemplate { return &TenantTemplate{} },
		NewList: func() *TenantTemplateList { return &TenantTemplateList{} },
	})
}

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantTemplate) OpenAPIModelName() string { return modelName("TenantTemplate") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantTemplateList) OpenAPIModelName() string { return modelName("TenantTemplateList") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantTemplateSpec) OpenAPIModelName() string { return modelName("TenantTemplateSpec") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TemplateSecret) OpenAPIModelName() string { return modelName("TemplateSecret") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TemplateSecretSource) OpenAPIModelName() string { return modelName("TemplateSecretSource") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TemplateAccess) OpenAPIModelName() string { return modelName("TemplateAccess") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantTemplateStatus) OpenAPIModelName() string { return modelName("TenantTemplateStatus") }

// OpenAPIModelName names the model in OpenAPI documents.
func (AppliedTemplate) OpenAPIModelName() string { return modelName("AppliedTemplate") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TemplateObject) OpenAPIModelName() string { return modelName("TemplateObject") }

var (
	_ runtime.Object            = &TenantTemplate{}
	_ runtime.Object            = &TenantTemplateList{}
	_ metav1.ObjectMetaAccessor = &TenantTemplate{}
	_ metav1.ListMetaAccessor   = &TenantTemplateList{}
)
