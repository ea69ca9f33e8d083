package registry

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// table prints configurations for people: the fields of the seed.
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
			{Name: "Name", Type: "string", Format: "name", Description: "the name of the configuration"},
			{Name: "RangeStart", Type: "string", Description: "the first name of the range"},
			{Name: "IsRangeStartValid", Type: "boolean", Description: "whether the range has a start"},
			{Name: "RangeEnd", Type: "string", Description: "the name with which the next range begins"},
			{Name: "IsRangeEndValid", Type: "boolean", Description: "whether the range has an end"},
			{Name: "ServiceGroupId", Type: "string", Description: "the service group that owns the tenants"},
			{Name: "Tenants", Type: "string", Priority: 1, Description: "tenants that are owned besides the range"},
			{Name: "Age", Type: "string", Priority: 1, Description: "the time since the configuration was made"},
		}
	}
	var err error
	t.Rows, err = metatable.MetaToTableRow(obj,
		func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
			c := obj.(*partitionapi.DataPartitionConfig)
			return []any{name, c.RangeStart, c.IsRangeStartValid, c.RangeEnd, c.IsRangeEndValid, c.ServiceGroupID,
				strings.Join(c.Tenants, ","), age}, nil
		})
	return &t, err
}
