package qualify

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/internal/space"
)

// Names maps names: those of namespaces, and those of objects without one.
type Names struct{ Namespace, ClusterName func(string) string }

// To makes names of a partition those of the node. The partition is "" for home, whose
// names are the same there.
func To(partition string) Names {
	return Names{
		func(ns string) string { return space.QualifyNamespace(partition, ns) },
		func(name string) string { return space.QualifyClusterName(partition, name) },
	}
}

// Of is the inverse of To. Names of other partitions stay as they are.
func Of(partition string) Names {
	own := func(unqualify func(string) (string, string)) func(string) string {
		return func(name string) string {
			if of, composite := unqualify(name); of == partition {
				return composite
			}
			return name
		}
	}
	return Names{own(space.UnqualifyNamespace), own(space.UnqualifyClusterName)}
}

// mapped are the kinds without a namespace that a node knows of several partitions by
// names of its own. Of other kinds each partition has the same ones, or the node reads
// them by a name that is unique anyway.
var (
	namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind()
	volumeKind    = corev1.SchemeGroupVersion.WithKind("PersistentVolume").GroupKind()
	rangeKind     = networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR").GroupKind()
)

// name maps the name of an object of a kind.
func (n Names) name(kind schema.GroupKind, name string) string {
	switch kind {
	case namespaceKind:
		return n.Namespace(name)
	case volumeKind, rangeKind:
		return n.ClusterName(name)
	}
	return name
}

// Map maps the names in an object or a list. What has no metadata, a Status, stays as it
// is. It is an error if an object is of no kind of Kubernetes.
func (n Names) Map(obj runtime.Object) error {
	if meta.IsListType(obj) {
		return meta.EachListItem(obj, n.Map)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil //nolint:nilerr // a Status has no names that count
	}
	if _, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return fmt.Errorf("%s: of metadata alone it cannot be told what is named", m.GetName())
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return fmt.Errorf("mapping the names in %s: %w", m.GetName(), err)
	}
	kind := kinds[0].GroupKind()
	m.SetNamespace(n.Namespace(m.GetNamespace()))
	m.SetName(n.name(kind, m.GetName()))
	n.references(kind, obj)
	return nil
}
