package apiregistry

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/a4s-io/a4s/internal/coreapi"
)

// Columns print objects for people.
type Columns[T coreapi.Object] struct {
	Definitions []metav1.TableColumnDefinition
	// Row has a cell for each definition.
	Row func(obj T, name, age string) []any
}

var _ rest.TableConvertor = Columns[coreapi.Object]{}

// ConvertToTable implements rest.TableConvertor.
func (c Columns[T]) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	var t metav1.Table
	if list, err := meta.ListAccessor(obj); err == nil {
		t.ResourceVersion = list.GetResourceVersion()
		t.Continue = list.GetContinue()
		t.RemainingItemCount = list.GetRemainingItemCount()
	} else if common, err := meta.CommonAccessor(obj); err == nil {
		t.ResourceVersion = common.GetResourceVersion()
	}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		t.ColumnDefinitions = c.Definitions
	}
	var err error
	t.Rows, err = metatable.MetaToTableRow(obj,
		func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
			return c.Row(obj.(T), name, age), nil
		})
	return &t, err
}
