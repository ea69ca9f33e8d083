package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// table prints tenants for people.
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
			{Name: "Name", Type: "string", Format: "name", Description: "the name of the tenant"},
			{Name: "Status", Type: "string", Description: "whether new objects can be made in the space"},
			{Name: "Age", Type: "string", Description: "the time since the tenant was made"},
			{Name: "Partition", Type: "string", Priority: 1, Description: "the tenant partition that has it"},
		}
	}
	var err error
	t.Rows, err = metatable.MetaToTableRow(obj,
		func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
			t := obj.(*tenantapi.Tenant)
			return []any{name, string(t.Status.Phase), age, t.Spec.Partition}, nil
		})
	return &t, err
}
