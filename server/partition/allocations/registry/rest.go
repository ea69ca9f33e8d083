package registry

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/a4s-io/a4s/server/partition/allocations"
)

// registered is evaluated when the package is initialized: a scheme must not change once
// servers and controllers read it.
var registered = allocations.AddToScheme(legacyscheme.Scheme)

// Storage returns the REST storage of allocations, by path. While closed says so, partitions
// cannot write; nil is for never.
func Storage(getter generic.RESTOptionsGetter, closed func() bool) (map[string]rest.Storage, error) {
	if registered != nil {
		return nil, registered
	}
	s := newStrategy()
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &allocations.NodeAllocation{} },
		NewListFunc:               func() runtime.Object { return &allocations.NodeAllocationList{} },
		DefaultQualifiedResource:  allocations.GroupResource(),
		SingularQualifiedResource: allocations.GroupVersion().WithResource(allocations.Singular).GroupResource(),
		CreateStrategy:            s, UpdateStrategy: s, DeleteStrategy: s,
		TableConvertor: table{},
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter, AttrFunc: attributes}); err != nil {
		return nil, fmt.Errorf("making the storage of the allocations of nodes: %w", err)
	}
	if closed == nil {
		closed = func() bool { return false }
	}
	return map[string]rest.Storage{allocations.Resource: &gated{store, closed}}, nil
}

// table prints allocations for people.
type table struct{}

func (table) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	var t metav1.Table
	if list, err := meta.ListAccessor(obj); err == nil {
		t.ResourceVersion = list.GetResourceVersion()
		t.Continue = list.GetContinue()
		t.RemainingItemCount = list.GetRemainingItemCount()
	} else if common, err := meta.CommonAccessor(obj); err == nil {
		t.ResourceVersion = common.GetResourceVersion()
	}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		t.ColumnDefinitions = []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "the name of the node"},
			{Name: "Partitions", Type: "integer", Description: "how many tenant partitions have pods on it"},
			{Name: "Pods", Type: "integer", Description: "how many pods they have together"},
			{Name: "CPU", Type: "string", Description: "what the pods request of processors"},
			{Name: "Memory", Type: "string", Description: "what the pods request of memory"},
			{Name: "Age", Type: "string", Description: "the time since the first pod came"},
		}
	}
	var err error
	t.Rows, err = metatable.MetaToTableRow(obj,
		func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
			a := obj.(*allocations.NodeAllocation)
			all := a.Others("")
			return []any{name, int64(len(a.Shares)), all.Pods, all.Requests.Cpu().String(),
				all.Requests.Memory().String(), age}, nil
		})
	return &t, err
}
