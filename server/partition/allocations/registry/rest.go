package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
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
	store, err := apiregistry.Kind[*allocations.NodeAllocation]{
		Resource: allocations.Resource, Singular: allocations.Singular,
		New:      func() runtime.Object { return &allocations.NodeAllocation{} },
		NewList:  func() runtime.Object { return &allocations.NodeAllocationList{} },
		Strategy: newStrategy(), Columns: columns(),
	}.Store(getter)
	if err != nil {
		return nil, err
	}
	if closed == nil {
		closed = func() bool { return false }
	}
	return map[string]rest.Storage{allocations.Resource: &gated{store, closed}}, nil
}

func columns() apiregistry.Columns[*allocations.NodeAllocation] {
	return apiregistry.Columns[*allocations.NodeAllocation]{
		Definitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "the name of the node"},
			{Name: "Partitions", Type: "integer", Description: "how many tenant partitions have pods on it"},
			{Name: "Pods", Type: "integer", Description: "how many pods they have together"},
			{Name: "CPU", Type: "string", Description: "what the pods request of processors"},
			{Name: "Memory", Type: "string", Description: "what the pods request of memory"},
			{Name: "Age", Type: "string", Description: "the time since the first pod came"},
		},
		Row: func(a *allocations.NodeAllocation, name, age string) []any {
			all := a.Others("")
			return []any{name, int64(len(a.Shares)), all.Pods, all.Requests.Cpu().String(),
				all.Requests.Memory().String(), age}
		},
	}
}
