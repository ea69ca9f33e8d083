package tenantapi

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/coreapi"
	"github.com/a4s-io/a4s/internal/space"
)

const (
	// AccessKind is the kind of an access to the space of a tenant.
	AccessKind = "TenantAccess"
	// Accesses is its plural name in paths and rules, AccessSingular that for one.
	Accesses, AccessSingular = "tenantaccesses", "tenantaccess"
	// AccessFinalizer keeps a deleted TenantAccess until its Secret and its binding are gone.
	AccessFinalizer = "a4s.io/tenant-access"
	// AccessLabel is on the Secret of an access, with its name, so that changes are seen. It
	// says nothing about whose the Secret is: the owner reference does.
	AccessLabel = "a4s.io/tenant-access"

	// DefaultAccessSeconds is how long the credentials of an access are good if it does not
	// say; MinAccessSeconds and MaxAccessSeconds are what it can say.
	DefaultAccessSeconds, MinAccessSeconds, MaxAccessSeconds = 24 * 3600, 600, 30 * 24 * 3600
	// MaxCertificateSeconds is what one in the space of a tenant can say of the certificates of a
	// user, which nobody can revoke.
	MaxCertificateSeconds = 24 * 3600
)

// AccessFormat says who reads the Secret of an access.
type AccessFormat string

const (
	// FormatKubeconfig is a kubeconfig in the key "value", as Flux and Cluster API read it.
	FormatKubeconfig AccessFormat = "Kubeconfig"
	// FormatArgoCD is a cluster of Argo CD, in the keys "name", "server" and "config".
	FormatArgoCD AccessFormat = "ArgoCD"
)

// AccessFormats are all of them, the default first.
func AccessFormats() []AccessFormat { return []AccessFormat{FormatKubeconfig, FormatArgoCD} }

// AccessReady is the condition of an access whose Secret can be used.
const AccessReady = "Ready"

// Reasons of AccessReady.
const (
	// ReasonIssued is an access whose Secret is as it should be.
	ReasonIssued = "Issued"
	// ReasonNoTenant is an access to a tenant that does not exist in this partition.
	ReasonNoTenant = "TenantNotFound"
	// ReasonOtherPartition is one to a tenant of another partition, where its accesses are made.
	ReasonOtherPartition = "TenantInOtherPartition"
	// ReasonTerminating is one to a tenant that is being deleted.
	ReasonTerminating = "TenantTerminating"
	// ReasonCordoned is one in a space that is cordoned: nothing new is given out there.
	ReasonCordoned = "TenantCordoned"
	// ReasonNamespace is one in a space of which a namespace has been made again: what whoever made the access may do
	// in it has not been looked at.
	ReasonNamespace = "NamespaceReplaced"
	// ReasonSecretTaken is an access whose Secret is there and somebody else's.
	ReasonSecretTaken = "SecretTaken"
	// ReasonExpired is an access that has ended.
	ReasonExpired = "Expired"
	// ReasonNotIssued is an access that could not be made as it should be.
	ReasonNotIssued = "NotIssued"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TenantAccess lets somebody into the space of a tenant, with credentials in a Secret that the
// system renews. One of the system space is to any tenant, one in the space of a tenant to that.
type TenantAccess struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   TenantAccessSpec   `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	Status TenantAccessStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TenantAccessList is a list of accesses.
type TenantAccessList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []TenantAccess `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// TenantAccessSpec is what administrators decide about an access.
type TenantAccessSpec struct {
	// Tenant is whose space it is. It never changes, as all that says who and where. In the space
	// of a tenant it can be left out.
	Tenant string `json:"tenant,omitempty" protobuf:"bytes,1,opt,name=tenant"`
	// User is who the access is for, by a client certificate with Groups.
	User   string   `json:"user,omitempty" protobuf:"bytes,2,opt,name=user"`
	Groups []string `json:"groups,omitempty" protobuf:"bytes,3,rep,name=groups"`
	// ServiceAccount is who it is for instead, by a token.
	ServiceAccount *AccessAccount `json:"serviceAccount,omitempty" protobuf:"bytes,4,opt,name=serviceAccount"`
	// Role is the ClusterRole of the space that they have as long as there is the access, in
	// Namespace alone if that is set. Without a role nothing is bound.
	Role      string `json:"role,omitempty" protobuf:"bytes,5,opt,name=role"`
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,6,opt,name=namespace"`
	// ExpirationSeconds is how long credentials are good, which are renewed before.
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty" protobuf:"varint,7,opt,name=expirationSeconds"`
	// Expires ends the access: credentials, Secret and binding.
	Expires *metav1.Time `json:"expires,omitempty" protobuf:"bytes,8,opt,name=expires"`
	// Secret is where the credentials are.
	Secret AccessSecret `json:"secret" protobuf:"bytes,9,opt,name=secret"`
	// Server is the URL of the API in them, the one of the cluster if it is not set.
	Server string `json:"server,omitempty" protobuf:"bytes,10,opt,name=server"`
}

// Of is the space that an access is in, and its name there. It is given by its name inside.
func (in *TenantAccess) Of() (tenant, name string) { return space.SplitClusterName(in.Name) }

// To is the tenant whose space an access is to.
func (in *TenantAccess) To() string {
	if of, _ := in.Of(); !space.IsSystem(of) {
		return of
	}
	return in.Spec.Tenant
}

// Life is how long credentials are good, in seconds.
func (in *TenantAccessSpec) Life() int64 {
	if in.ExpirationSeconds == nil {
		return DefaultAccessSeconds
	}
	return *in.ExpirationSeconds
}

// AccessAccount names a service account of a space.
type AccessAccount struct {
	Namespace string `json:"namespace" protobuf:"bytes,1,opt,name=namespace"`
	Name      string `json:"name" protobuf:"bytes,2,opt,name=name"`
}

// AccessSecret names a Secret of the space that the access is in, and says what it is like.
type AccessSecret struct {
	Namespace string `json:"namespace" protobuf:"bytes,1,opt,name=namespace"`
	Name      string `json:"name" protobuf:"bytes,2,opt,name=name"`
	// Format says who reads it.
	Format AccessFormat `json:"format,omitempty" protobuf:"bytes,3,opt,name=format,casttype=AccessFormat"`
	// Labels are labels of the Secret.
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,4,rep,name=labels"`
}

// TenantAccessStatus is what a4s reports about an access.
type TenantAccessStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type" protobuf:"bytes,1,rep,name=conditions"`
	// TenantUID is the UID of the tenant that the credentials are for.
	TenantUID types.UID `json:"tenantUID,omitempty" protobuf:"bytes,2,opt,name=tenantUID"`
	// ExpirationTimestamp is the end of the credentials in the Secret.
	ExpirationTimestamp *metav1.Time `json:"expirationTimestamp,omitempty" protobuf:"bytes,3,opt,name=expirationTimestamp"`
	// Binding is that of the role in the space of the tenant, nil if there is none.
	Binding *AccessBinding `json:"binding,omitempty" protobuf:"bytes,4,opt,name=binding"`
	// Namespaces are those that an access in the space of a tenant says, as they were when the rights of whoever made
	// or changed it were looked at.
	Namespaces []AccessNamespace `json:"namespaces,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,5,rep,name=namespaces"`
}

// AccessNamespace is a namespace of a space, which another one of its name is not.
type AccessNamespace struct {
	Name string    `json:"name" protobuf:"bytes,1,opt,name=name"`
	UID  types.UID `json:"uid" protobuf:"bytes,2,opt,name=uid"`
	// Generation is that of the access then.
	Generation int64 `json:"generation,omitempty" protobuf:"varint,3,opt,name=generation"`
}

// AccessBinding names a RoleBinding of a space, or a ClusterRoleBinding if it is in no namespace.
type AccessBinding struct {
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,1,opt,name=namespace"`
	Name      string `json:"name" protobuf:"bytes,2,opt,name=name"`
}

// AccessGroupVersionResource is that of accesses, for dynamic clients.
func AccessGroupVersionResource() schema.GroupVersionResource {
	return GroupVersion().WithResource(Accesses)
}

// AccessClient has the verbs of accesses.
type AccessClient = gentype.ClientWithList[*TenantAccess, *TenantAccessList]

// NewAccessClient returns a client. A nil http means one by the configuration.
func NewAccessClient(config *rest.Config, http *http.Client) (*AccessClient, error) {
	return coreapi.NewClient(config, http, coreapi.Kind[*TenantAccess, *TenantAccessList]{
		Resource: AccessGroupVersionResource(), AddToScheme: AddToScheme,
		New:     func() *TenantAccess { return &TenantAccess{} },
		NewList: func() *TenantAccessList { return &TenantAccessList{} },
	})
}

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantAccess) OpenAPIModelName() string { return modelName("TenantAccess") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantAccessList) OpenAPIModelName() string { return modelName("TenantAccessList") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantAccessSpec) OpenAPIModelName() string { return modelName("TenantAccessSpec") }

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantAccessStatus) OpenAPIModelName() string { return modelName("TenantAccessStatus") }

// OpenAPIModelName names the model in OpenAPI documents.
func (AccessAccount) OpenAPIModelName() string { return modelName("AccessAccount") }

// OpenAPIModelName names the model in OpenAPI documents.
func (AccessSecret) OpenAPIModelName() string { return modelName("AccessSecret") }

// OpenAPIModelName names the model in OpenAPI documents.
func (AccessBinding) OpenAPIModelName() string { return modelName("AccessBinding") }

// OpenAPIModelName names the model in OpenAPI documents.
func (AccessNamespace) OpenAPIModelName() string { return modelName("AccessNamespace") }

var (
	_ runtime.Object            = &TenantAccess{}
	_ runtime.Object            = &TenantAccessList{}
	_ metav1.ObjectMetaAccessor = &TenantAccess{}
	_ metav1.ListMetaAccessor   = &TenantAccessList{}
)
