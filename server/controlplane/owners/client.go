package owners

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// Client is that of the collector. It gets, patches and deletes single objects, and
// nothing else of it is translated.
func (v *View) Client(inner metadata.Interface) metadata.Interface { return client{inner, v} }

type client struct {
	inner metadata.Interface
	view  *View
}

// Resource implements metadata.Interface.
func (c client) Resource(r schema.GroupVersionResource) metadata.Getter {
	inner := c.inner.Resource(r)
	return getter{objects{inner, c.view, r.GroupResource(), ""}, inner}
}

type getter struct {
	objects
	inner metadata.Getter
}

// Namespace implements metadata.Getter.
func (g getter) Namespace(namespace string) metadata.ResourceInterface {
	return objects{g.inner.Namespace(namespace), g.view, g.resource, namespace}
}

type objects struct {
	metadata.ResourceInterface
	view      *View
	resource  schema.GroupResource
	namespace string
}

func (o objects) answer(
	name string, m *metav1.PartialObjectMetadata, err error,
) (*metav1.PartialObjectMetadata, error) {
	if err != nil || m == nil {
		return m, err
	}
	o.view.answer(spaceOf(o.resource, o.namespace, name), m)
	return m, nil
}

// Get implements metadata.ResourceInterface.
func (o objects) Get(
	ctx context.Context, name string, options metav1.GetOptions, subresources ...string,
) (*metav1.PartialObjectMetadata, error) {
	m, err := o.ResourceInterface.Get(ctx, name, options, subresources...)
	return o.answer(name, m, err)
}

// Delete implements metadata.ResourceInterface.
func (o objects) Delete(ctx context.Context, name string, options metav1.DeleteOptions, subresources ...string) error {
	if p := options.Preconditions; p != nil && p.UID != nil {
		uid := unqualify(*p.UID)
		options.Preconditions = &metav1.Preconditions{UID: &uid, ResourceVersion: p.ResourceVersion}
	}
	return o.ResourceInterface.Delete(ctx, name, options, subresources...)
}

// Patch implements metadata.ResourceInterface.
func (o objects) Patch(
	ctx context.Context, name string, pt types.PatchType, data []byte, options metav1.PatchOptions,
	subresources ...string,
) (*metav1.PartialObjectMetadata, error) {
	data, err := unqualifyPatch(data)
	if err != nil {
		return nil, fmt.Errorf("translating a patch of %s %s: %w", o.resource, name, err)
	}
	m, err := o.ResourceInterface.Patch(ctx, name, pt, data, options, subresources...)
	return o.answer(name, m, err)
}

// unqualifyPatch gives a merge patch the UIDs of the API.
func unqualifyPatch(data []byte) ([]byte, error) {
	var patch map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&patch); err != nil {
		return nil, err
	}
	m, _ := patch["metadata"].(map[string]any)
	restore := func(of map[string]any) {
		if uid, ok := of["uid"].(string); ok {
			of["uid"] = unqualify(types.UID(uid))
		}
	}
	restore(m)
	owners, _ := m["ownerReferences"].([]any)
	for _, o := range owners {
		if of, ok := o.(map[string]any); ok {
			restore(of)
		}
	}
	return json.Marshal(patch)
}
