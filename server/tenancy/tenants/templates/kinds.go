package templates

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Kind is one that objects of templates can have.
type Kind struct {
	schema.GroupVersionKind
	Resource   string
	Namespaced bool
}

// GroupVersionResource is that of the objects.
func (k Kind) GroupVersionResource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// Ref names an object in its space, by its composite name.
func (k Kind) Ref(namespace, name string) tenantapi.TemplateObject {
	ref := tenantapi.TemplateObject{Kind: k.Kind, Name: name}
	switch {
	case k.Namespaced:
		_, ref.Namespace = space.SplitNamespace(namespace)
	case k.Kind == KindNamespace:
		_, ref.Name = space.SplitNamespace(name)
	default:
		_, ref.Name = space.SplitClusterName(name)
	}
	return ref
}

// KindNamespace is the kind of namespaces, which are made before what is in them and are never
// deleted because a template has them no more.
const KindNamespace = "Namespace"

// KindSecret is the kind of the copies of Secrets. They are made last: what bounds a tenant does not wait
// for a Secret that is not there.
const KindSecret = "Secret"

// Kinds are all kinds, in the order in which their objects are made. Each name is there once.
func Kinds() []Kind {
	const rbac = "rbac.authorization.k8s.io"
	kind := func(group, name, resource string, namespaced bool) Kind {
		return Kind{schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}, resource, namespaced}
	}
	return []Kind{
		kind("", KindNamespace, "namespaces", false),
		kind("", "ResourceQuota", "resourcequotas", true),
		kind("", "LimitRange", "limitranges", true),
		kind("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
		kind("", "ServiceAccount", "serviceaccounts", true),
		kind("", "ConfigMap", "configmaps", true),
		kind(rbac, "ClusterRole", "clusterroles", false),
		kind(rbac, "Role", "roles", true),
		kind(rbac, "ClusterRoleBinding", "clusterrolebindings", false),
		kind(rbac, "RoleBinding", "rolebindings", true),
		kind("", KindSecret, "secrets", true),
	}
}

// KindCalled finds a kind by its name alone.
func KindCalled(name string) (Kind, bool) {
	all := Kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Kind == name })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// KindOf finds the kind of a resource.
func KindOf(r schema.GroupResource) (Kind, bool) {
	all := Kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Group == r.Group && k.Resource == r.Resource })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// names are those of all kinds that stand in a template, as objects name them.
func names() string {
	var out []string
	for _, k := range Kinds() {
		if k.Kind != KindSecret {
			out = append(out, k.GroupVersion().String()+" "+k.Kind)
		}
	}
	return strings.Join(out, ", ")
}

// everySpace has the namespaces that every space has, which nobody can delete.
func everySpace() []string {
	return []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}
}

// ofAdministrators are the cluster role of the administrators of a space, and its binding, as
// package provision names them: without them nobody could use the space.
func ofAdministrators() []string { return []string{"admin-role", "admin-role-binding"} }

// ofSystem are the ConfigMaps that the system makes in spaces, and would change back.
func ofSystem() []string { return []string{"kube-root-ca.crt", "extension-apiserver-authentication"} }
