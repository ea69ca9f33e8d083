package resourcemetrics

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/metrics/pkg/apis/metrics"
	"sigs.k8s.io/metrics-server/pkg/api"

	"github.com/a4s-io/a4s/internal/space"
)

var (
	_ rest.Lister               = &podStorage{}
	_ rest.Getter               = &podStorage{}
	_ rest.Scoper               = &podStorage{}
	_ rest.KindProvider         = &podStorage{}
	_ rest.SingularNameProvider = &podStorage{}
	_ rest.Lister               = &nodeStorage{}
	_ rest.Getter               = &nodeStorage{}
	_ rest.Scoper               = &nodeStorage{}
	_ rest.KindProvider         = &nodeStorage{}
	_ rest.SingularNameProvider = &nodeStorage{}
)

// podStorage serves what running pods use.
type podStorage struct {
	*cluster
	metrics api.PodMetricsGetter
}

// New implements rest.Storage.
func (*podStorage) New() runtime.Object { return &metrics.PodMetrics{} }

// NewList implements rest.Lister.
func (*podStorage) NewList() runtime.Object { return &metrics.PodMetricsList{} }

// Destroy implements rest.Storage.
func (*podStorage) Destroy() {}

// Kind implements rest.KindProvider.
func (*podStorage) Kind() string { return "PodMetrics" }

// GetSingularName implements rest.SingularNameProvider. It has none: pod is
// the name of a pod.
func (*podStorage) GetSingularName() string { return "" }

// NamespaceScoped implements rest.Scoper.
func (*podStorage) NamespaceScoped() bool { return true }

// List implements rest.Lister.
func (s *podStorage) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	byLabel, byField := selectors(options)
	found, err := s.pods.Pods(request.NamespaceValue(ctx)).List(byLabel)
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	var wanted []*metav1.PartialObjectMetadata
	for _, pod := range found {
		set := generic.ObjectMetaFieldsSet(&pod.ObjectMeta, true)
		if pod.Status.Phase == corev1.PodRunning && shown(ctx, pod) && byField.Matches(set) {
			wanted = append(wanted, identity(pod))
		}
	}
	items, err := s.metrics.GetPodMetrics(wanted...)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of pods: %w", err)
	}
	slices.SortFunc(items, func(a, b metrics.PodMetrics) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return &metrics.PodMetricsList{Items: items}, nil
}

// Get implements rest.Getter.
func (s *podStorage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	pod, err := s.pods.Pods(request.NamespaceValue(ctx)).Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("looking for the pod: %w", err)
	}
	if err == nil && pod.Status.Phase == corev1.PodRunning && shown(ctx, pod) {
		items, err := s.metrics.GetPodMetrics(identity(pod))
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of the pod: %w", err)
		}
		if len(items) > 0 {
			return &items[0], nil
		}
	}
	return nil, apierrors.NewNotFound(metrics.Resource("pods"), name)
}

// shown reports whether a pod is in the space that a request is addressed to.
func shown(ctx context.Context, pod *corev1.Pod) bool {
	addressed, ok := space.FromContext(ctx)
	if !ok || addressed == space.All {
		return true
	}
	tenant, _ := space.SplitNamespace(pod.Namespace)
	return tenant == addressed
}

// identity is what metrics need of a pod.
func identity(pod *corev1.Pod) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name,
		Labels: pod.Labels}}
}

// nodeStorage serves what nodes use.
type nodeStorage struct {
	*cluster
	metrics api.NodeMetricsGetter
}

// New implements rest.Storage.
func (*nodeStorage) New() runtime.Object { return &metrics.NodeMetrics{} }

// NewList implements rest.Lister.
func (*nodeStorage) NewList() runtime.Object { return &metrics.NodeMetricsList{} }

// Destroy implements rest.Storage.
func (*nodeStorage) Destroy() {}

// Kind implements rest.KindProvider.
func (*nodeStorage) Kind() string { return "NodeMetrics" }

// GetSingularName implements rest.SingularNameProvider. It has none: node is
// the name of a node.
func (*nodeStorage) GetSingularName() string { return "" }

// NamespaceScoped implements rest.Scoper.
func (*nodeStorage) NamespaceScoped() bool { return false }

// List implements rest.Lister.
func (s *nodeStorage) List(_ context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	byLabel, byField := selectors(options)
	found, err := s.nodes.List(byLabel)
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	found = slices.DeleteFunc(found, func(node *corev1.Node) bool {
		return !byField.Matches(generic.ObjectMetaFieldsSet(&node.ObjectMeta, false))
	})
	items, err := s.metrics.GetNodeMetrics(found...)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of nodes: %w", err)
	}
	slices.SortFunc(items, func(a, b metrics.NodeMetrics) int { return strings.Compare(a.Name, b.Name) })
	return &metrics.NodeMetricsList{Items: items}, nil
}

// Get implements rest.Getter.
func (s *nodeStorage) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	node, err := s.nodes.Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("looking for the node: %w", err)
	}
	if err == nil {
		items, err := s.metrics.GetNodeMetrics(node)
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of the node: %w", err)
		}
		if len(items) > 0 {
			return &items[0], nil
		}
	}
	return nil, apierrors.NewNotFound(metrics.Resource("nodes"), name)
}

// selectors are those of a list.
func selectors(o *internalversion.ListOptions) (labels.Selector, fields.Selector) {
	byLabel, byField := labels.Everything(), fields.Everything()
	if o != nil && o.LabelSelector != nil {
		byLabel = o.LabelSelector
	}
	if o != nil && o.FieldSelector != nil {
		byField = o.FieldSelector
	}
	return byLabel, byField
}
