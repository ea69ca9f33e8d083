package storage

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// The custom resources of a tenant have the same keys whichever CRD
// serves them, its own or one of the system. So a storage can come upon objects
// that were written under another CRD of the same resource: of versions
// that this one does not have, of another kind, or of the other scope. They are
// shown as this CRD would have them and lose nothing until they are
// written.

// Bound is Decorate for custom resources whose CRD is one tenant's own:
// it reaches the objects of this tenant only, and its cache has no others.
func Bound(inner generic.RESTOptionsGetter, tenant string, defines Defines) generic.RESTOptionsGetter {
	return &getter{inner: inner, kinds: kinds.New(), bound: tenant, defines: defines}
}

// Uncached leaves the cache out: for what is rarely asked and much.
func Uncached(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter { return uncached{inner} }

type uncached struct{ inner generic.RESTOptionsGetter }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (u uncached) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := u.inner.GetRESTOptions(resource, example)
	opts.Decorator = generic.UndecoratedStorage
	return opts, err
}

// customize makes m one for custom resources if that is what newFunc makes. It
// returns what the storage within is configured with.
func (m *objectKeys) customize(
	config *storagebackend.ConfigForResource, tenant string, defines Defines,
) (*storagebackend.ConfigForResource, string) {
	example, ok := m.newFunc().(*unstructured.Unstructured)
	if !ok {
		return config, m.prefix
	}
	m.custom, m.bound = true, tenant
	lenient := *config
	lenient.Codec = &adopting{Codec: config.Codec, as: example.GroupVersionKind(),
		defined: func(k schema.GroupVersionKind) bool {
			return defines != nil && defines(m.resource, k)
		}}
	if tenant == "" {
		return &lenient, m.prefix
	}
	// All there is are the tenant's.
	m.triggers = false
	return &lenient, m.prefix + "/" + tenant
}

// storedKey is the key of an object in etcd.
func (m *objectKeys) storedKey(obj runtime.Object, keyFunc func(runtime.Object) (string, error)) (string, error) {
	if m.custom {
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return "", err
		}
		namespace, name := accessor.GetNamespace(), accessor.GetName()
		switch {
		case namespace != "" && m.layout == space.ClusterScoped:
			return space.StoredKey(space.Namespaced, m.prefix, m.prefix+"/"+namespace+"/"+name), nil
		case namespace == "" && m.layout == space.Namespaced:
			return space.StoredKey(space.ClusterScoped, m.prefix, m.prefix+"/"+name), nil
		}
	}
	key, err := keyFunc(obj)
	return m.key(key), err
}

// addressed is the space that a list or watch without a namespace is of.
func (m *objectKeys) addressed(ctx context.Context) (tenant string, ok bool) {
	if m.bound != "" {
		return m.bound, true
	}
	tenant, ok = space.FromContext(ctx)
	if !ok && m.custom {
		// No request: upstream empties a resource whose CRD is being
		// deleted. What tenants have is theirs, and comes back with another
		// CRD.
		if _, request := request.RequestInfoFrom(ctx); !request {
			return space.System, true
		}
	}
	return tenant, ok
}

// adopting decodes what was written under another CRD.
type adopting struct {
	runtime.Codec
	as schema.GroupVersionKind
	// defined says what this CRD has: that is not adopted when it
	// cannot be decoded. A conversion that fails would else be skipped.
	defined func(schema.GroupVersionKind) bool
}

// Decode implements runtime.Decoder.
func (a *adopting) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := a.Codec.Decode(data, defaults, into)
	if err != nil {
		adopted, ok := a.adopt(data)
		if !ok {
			return obj, gvk, err
		}
		if obj, gvk, err = a.Codec.Decode(adopted, defaults, into); err != nil {
			return obj, gvk, err
		}
	}
	if u, ok := obj.(*unstructured.Unstructured); ok && u.GetKind() != a.as.Kind {
		u.SetKind(a.as.Kind)
	}
	return obj, gvk, nil
}

// adopt gives an object of this group the version and kind of the CRD.
func (a *adopting) adopt(data []byte) ([]byte, bool) {
	var head metav1.TypeMeta
	if json.Unmarshal(data, &head) != nil {
		return nil, false
	}
	is, err := schema.ParseGroupVersion(head.APIVersion)
	if err != nil || is.Group != a.as.Group || a.defined(is.WithKind(head.Kind)) {
		return nil, false
	}
	object := map[string]json.RawMessage{}
	if json.Unmarshal(data, &object) != nil {
		return nil, false
	}
	object["apiVersion"] = json.RawMessage(fmt.Sprintf("%q", a.as.GroupVersion()))
	object["kind"] = json.RawMessage(fmt.Sprintf("%q", a.as.Kind))
	out, err := json.Marshal(object)
	return out, err == nil
}
