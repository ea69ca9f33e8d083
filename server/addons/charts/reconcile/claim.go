package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	helmv1 "github.com/k3s-io/helm-controller/pkg/apis/helm.cattle.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/addons/charts/release"
)

// Marks of a HelmChart.
const (
	// ManagedByAnnotation says which controller works on it. k3s' has the same name as this one, so that the
	// HelmCharts of a cluster that came from k3s go on.
	ManagedByAnnotation = "helmcharts.cattle.io/managed-by"
	ManagedBy           = "helm-controller"
	// UnmanagedAnnotation leaves it to another controller.
	UnmanagedAnnotation = "helmcharts.helm.cattle.io/unmanaged"
	// Finalizer keeps it until its release is uninstalled. It is that of k3s, for the same reason.
	Finalizer = "wrangler.cattle.io/on-helm-chart-remove"
)

var (
	// errNamespace is a namespace that is not of the system space.
	errNamespace = errors.New("not a namespace of the system space")
	// errNoName is what cannot be the name of a namespace.
	errNoName = errors.New("not the name of a namespace")
	// errUnknownVersion is a version of Helm that the server does not have.
	errUnknownVersion = errors.New("not a version that is there")
)

// managed reports whether this controller works on a HelmChart.
func managed(chart *helmv1.HelmChart) bool {
	return ours(chart) && (chart.Spec.Chart != "" || chart.Spec.ChartContent != "")
}

// ours reports whether a HelmChart is left to this controller.
func ours(chart *helmv1.HelmChart) bool {
	if _, ok := chart.Annotations[UnmanagedAnnotation]; ok {
		return false
	}
	by, claimed := chart.Annotations[ManagedByAnnotation]
	return !claimed || by == ManagedBy
}

// invalid says why a HelmChart can have no release.
func (r *Reconciler) invalid(chart *helmv1.HelmChart) error {
	if v := chart.Spec.HelmVersion; v != "" && v != "v3" {
		return fmt.Errorf("spec.helmVersion: %w: %q; want v3, or nothing", errUnknownVersion, v)
	}
	return r.unreleasable(chart)
}

// unreleasable says why no release can ever have been where a HelmChart says.
func (r *Reconciler) unreleasable(chart *helmv1.HelmChart) error {
	if err := release.CheckName(chart.Name); err != nil {
		return fmt.Errorf("metadata.name: %w", err)
	}
	namespace := namespaceOf(chart)
	if space.IsSystem(r.Space) && strings.Contains(namespace, ".") {
		return fmt.Errorf("spec.targetNamespace: %w: %q", errNamespace, namespace)
	}
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return fmt.Errorf("spec.targetNamespace: %w: %q: %s", errNoName, namespace, strings.Join(wrong, "; "))
	}
	return nil
}

// claim says that this controller works on the HelmChart, and has it stay until its release is uninstalled.
func (r *Reconciler) claim(ctx context.Context, chart *helmv1.HelmChart) error {
	if chart.Annotations[ManagedByAnnotation] == ManagedBy && slices.Contains(chart.Finalizers, Finalizer) {
		return nil
	}
	finalizers := slices.Clone(chart.Finalizers)
	if !slices.Contains(finalizers, Finalizer) {
		finalizers = append(finalizers, Finalizer)
	}
	if err := r.patch(ctx, chart, map[string]any{"resourceVersion": chart.ResourceVersion,
		"finalizers": finalizers, "annotations": map[string]string{ManagedByAnnotation: ManagedBy}}); err != nil {
		return fmt.Errorf("putting the finalizer on it: %w", err)
	}
	return nil
}

// letGo takes from a HelmChart what claim has put on it.
func (r *Reconciler) letGo(ctx context.Context, chart *helmv1.HelmChart) error {
	finalizers := slices.DeleteFunc(slices.Clone(chart.Finalizers), func(f string) bool { return f == Finalizer })
	err := r.patch(ctx, chart, map[string]any{"resourceVersion": chart.ResourceVersion, "uid": chart.UID,
		"finalizers": finalizers, "annotations": map[string]any{ManagedByAnnotation: nil}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("taking the finalizer from it: %w", err)
	}
	return nil
}

// LetGo takes from a HelmChart what keeps it until its release is uninstalled, if it is ours.
func (r *Reconciler) LetGo(ctx context.Context, key types.NamespacedName) error {
	got, err := r.Objects.Resource(Charts()).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if !slices.Contains(got.GetFinalizers(), Finalizer) {
		return nil
	}
	return r.letGo(ctx, &helmv1.HelmChart{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
		UID: got.GetUID(), ResourceVersion: got.GetResourceVersion(), Finalizers: got.GetFinalizers()}})
}
