package resourcemetrics

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/metrics/pkg/apis/metrics"
)

// ConvertToTable implements rest.TableConvertor.
func (*podStorage) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	return table(object)
}

// ConvertToTable implements rest.TableConvertor.
func (*nodeStorage) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	return table(object)
}

// table is how kubectl get shows metrics.
func table(object runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "the name of the pod or node"},
		{Name: "CPU", Type: "string", Description: "processors in use"},
		{Name: "Memory", Type: "string", Description: "memory in use that cannot be reclaimed"},
		{Name: "Window", Type: "string", Description: "the time over which the use of processors is measured"},
	}}
	if list, err := meta.ListAccessor(object); err == nil {
		out.ResourceVersion, out.Continue = list.GetResourceVersion(), list.GetContinue()
	}
	var err error
	out.Rows, err = metatable.MetaToTableRow(object,
		func(object runtime.Object, m metav1.Object, _, _ string) ([]any, error) {
			cells := []any{m.GetName()}
			switch o := object.(type) {
			case *metrics.PodMetrics:
				usage := sum(o)
				cells = append(cells, usage.Cpu().String(), usage.Memory().String(), o.Window.Duration.String())
			case *metrics.NodeMetrics:
				cells = append(cells, o.Usage.Cpu().String(), o.Usage.Memory().String(), o.Window.Duration.String())
			}
			return cells, nil
		})
	return out, err
}

// sum is what all containers of a pod use.
func sum(pod *metrics.PodMetrics) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, c := range pod.Containers {
		for name, quantity := range c.Usage {
			total := out[name]
			total.Add(quantity)
			out[name] = total
		}
	}
	return out
}
