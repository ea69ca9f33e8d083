package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// attributes are those of a request as the tenant sees it. What is not here,
// annotations for the audit among it, goes to the request's own.
type attributes struct {
	admission.Attributes
	projector       *wire.Projector
	resource        wire.Resource
	name, namespace string
	object, old     runtime.Object
	before          []byte // the native object as it was handed out
	user            user.Info
	// computing is the time that the plugins have, nil for any.
	computing *computing
}

func newAttributes(p *wire.Projector, table *kinds.Table, attr admission.Attributes) (*attributes, error) {
	gvr, gvk := attr.GetResource(), attr.GetKind()
	k, known := table.Resource(gvr.Group, gvr.Resource)
	n := &attributes{
		Attributes: attr,
		projector:  p,
		resource: wire.Resource{
			Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: gvk.Kind,
			Namespaced: (known && k.Namespaced) || (!known && attr.GetNamespace() != ""),
		},
	}
	var err error
	if n.namespace, err = p.View.Namespace(wire.Out, attr.GetNamespace()); err != nil {
		return nil, err
	}
	if n.name, err = p.View.Name(wire.Out, gvk.Group, gvk.Kind, attr.GetName()); err != nil {
		return nil, err
	}
	if n.object, n.before, err = n.translate(attr.GetObject()); err != nil {
		return nil, fmt.Errorf("translating the object for the tenant's admission: %w", err)
	}
	if n.old, _, err = n.translate(attr.GetOldObject()); err != nil {
		return nil, fmt.Errorf("translating the old object for the tenant's admission: %w", err)
	}
	n.user = nativeUser(p.View, attr.GetUserInfo())
	return n, nil
}

// GetName implements admission.Attributes.
func (n *attributes) GetName() string { return n.name }

// GetNamespace implements admission.Attributes.
func (n *attributes) GetNamespace() string { return n.namespace }

// GetObject implements admission.Attributes.
func (n *attributes) GetObject() runtime.Object { return n.object }

// GetOldObject implements admission.Attributes.
func (n *attributes) GetOldObject() runtime.Object { return n.old }

// GetUserInfo implements admission.Attributes.
func (n *attributes) GetUserInfo() user.Info { return n.user }

// GetOperation implements admission.Attributes. When the plugins' time is over it is one
// that nothing matches, so that they pass over the policies that are left: the end of the
// context is seen by loops of expressions only. The request is refused then.
func (n *attributes) GetOperation() admission.Operation {
	if n.computing != nil && n.computing.over() {
		return ""
	}
	return n.Attributes.GetOperation()
}

// GetReinvocationContext implements admission.Attributes.
func (n *attributes) GetReinvocationContext() admission.ReinvocationContext {
	return reinvocation{n.Attributes.GetReinvocationContext()}
}

// translate makes a native copy of an object, and its encoded form.
func (n *attributes) translate(obj runtime.Object) (runtime.Object, []byte, error) {
	if obj == nil || reflect.ValueOf(obj).IsNil() {
		return nil, nil, nil
	}
	if _, err := meta.Accessor(obj); err != nil {
		return obj, nil, nil // options of a connection: nothing in them has a name
	}
	encoded, err := n.encode(obj)
	if err != nil {
		return nil, nil, err
	}
	projected, err := n.projector.JSON(wire.Out, n.resource, encoded)
	if err != nil {
		return nil, nil, err
	}
	out, err := n.decode(projected, obj)
	if err != nil {
		return nil, nil, err
	}
	before, err := n.encode(out)
	return out, before, err
}

// writeBack composes what a plugin changed in the native copy into the object
// of the request.
func (n *attributes) writeBack() error {
	if n.object == nil || n.before == nil {
		return nil
	}
	after, err := n.encode(n.object)
	if err != nil || bytes.Equal(after, n.before) {
		return err
	}
	composed, err := n.projector.JSON(wire.In, n.resource, after)
	if err != nil {
		return fmt.Errorf("composing what the tenant's admission changed: %w", err)
	}
	target := n.Attributes.GetObject()
	changed, err := n.decode(composed, target)
	if err != nil {
		return err
	}
	if u, ok := target.(*unstructured.Unstructured); ok {
		u.SetUnstructuredContent(changed.(*unstructured.Unstructured).Object)
		return nil
	}
	reflect.ValueOf(target).Elem().Set(reflect.ValueOf(changed).Elem())
	return nil
}

// codec is that of the request's version. Definitions are not in the scheme of
// the other built-in kinds.
func (n *attributes) codec() runtime.Codec {
	gv := n.GetKind().GroupVersion()
	if gv.Group == apiextensions.GroupName {
		return apiextensionsserver.Codecs.LegacyCodec(gv)
	}
	return legacyscheme.Codecs.LegacyCodec(gv)
}

func (n *attributes) encode(obj runtime.Object) ([]byte, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return json.Marshal(u.Object)
	}
	return runtime.Encode(n.codec(), obj)
}

// decode makes an object of the same Go type as like.
func (n *attributes) decode(body []byte, like runtime.Object) (runtime.Object, error) {
	if _, ok := like.(*unstructured.Unstructured); ok {
		out := &unstructured.Unstructured{}
		// Integers stay integers, as schemas and rules want them.
		if err := utiljson.Unmarshal(body, &out.Object); err != nil {
			return nil, err
		}
		unstructured.RemoveNestedField(out.Object, "metadata", "tenant")
		out.SetSelfLink("")
		return out, nil
	}
	out := reflect.New(reflect.TypeOf(like).Elem()).Interface().(runtime.Object)
	if err := runtime.DecodeInto(n.codec(), body, out); err != nil {
		return nil, err
	}
	accessor, err := meta.Accessor(out)
	if err != nil {
		return nil, err
	}
	accessor.SetSelfLink("")
	return out, nil
}

// native is a user under their native name, who remembers who they are.
type native struct {
	user.DefaultInfo
	original user.Info
}

// nativeUser shows a user as the tenant knows them. A service account of
// another space keeps its name, which says nothing but that it is another.
func nativeUser(v *wire.View, u user.Info) user.Info {
	if u == nil {
		return nil
	}
	out := &native{DefaultInfo: user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Extra: map[string][]string{}},
		original: u}
	if name, err := v.User(wire.Out, u.GetName()); err == nil {
		out.Name = name
	}
	for _, g := range u.GetGroups() {
		if native, err := v.Group(wire.Out, g); err == nil {
			out.Groups = append(out.Groups, native)
		}
	}
	for key, values := range u.GetExtra() {
		if key != space.Extra {
			out.Extra[key] = values
		}
	}
	return out
}

// composedUser is the inverse of nativeUser. Any other user is one that an
// expression has made up, and is the tenant's.
func composedUser(u user.Info, tenant string) user.Info {
	if u == nil {
		return nil
	}
	if n, ok := u.(*native); ok {
		return n.original
	}
	out := &user.DefaultInfo{Name: space.User(tenant, u.GetName()), UID: u.GetUID(), Extra: map[string][]string{}}
	for _, g := range u.GetGroups() {
		out.Groups = append(out.Groups, space.Group(tenant, g))
	}
	for key, values := range u.GetExtra() {
		out.Extra[key] = values
	}
	out.Extra[space.Extra] = []string{tenant}
	return out
}
