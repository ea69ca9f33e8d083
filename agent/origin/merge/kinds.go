package merge

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/agent/origin/qualify"
	"github.com/a4s-io/a4s/internal/space"
)

// kind is what is common to the objects of a collection.
type kind struct {
	resource schema.GroupVersionResource
	gvk      schema.GroupVersionKind
	list     func() runtime.Object
	item     func() runtime.Object
	// selectable are further fields than the name and the namespace.
	selectable func(runtime.Object) fields.Set
	// inner says that the collection is for this package and never served.
	inner bool
}

const fieldNode = "spec.nodeName"

var (
	podsResource      = corev1.SchemeGroupVersion.WithResource("pods")
	servicesResource  = corev1.SchemeGroupVersion.WithResource("services")
	namespaceResource = corev1.SchemeGroupVersion.WithResource("namespaces")
	nodeResource      = corev1.SchemeGroupVersion.WithResource("nodes")
	requestsResource  = certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests")
	rangesResource    = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
)

func kinds() []kind {
	return []kind{
		{
			resource: podsResource, gvk: corev1.SchemeGroupVersion.WithKind("Pod"),
			list: func() runtime.Object { return &corev1.PodList{} },
			item: func() runtime.Object { return &corev1.Pod{} },
			selectable: func(obj runtime.Object) fields.Set {
				pod, ok := obj.(*corev1.Pod)
				if !ok {
					pod = &corev1.Pod{}
				}
				return fields.Set{fieldNode: pod.Spec.NodeName, "status.phase": string(pod.Status.Phase)}
			},
		},
		{
			resource: servicesResource, gvk: corev1.SchemeGroupVersion.WithKind("Service"),
			list: func() runtime.Object { return &corev1.ServiceList{} },
			item: func() runtime.Object { return &corev1.Service{} },
			selectable: func(obj runtime.Object) fields.Set {
				service, ok := obj.(*corev1.Service)
				if !ok {
					service = &corev1.Service{}
				}
				return fields.Set{"spec.clusterIP": service.Spec.ClusterIP, "spec.type": string(service.Spec.Type)}
			},
		},
		{
			resource: discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
			gvk:      discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
			list:     func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
			item:     func() runtime.Object { return &discoveryv1.EndpointSlice{} },
		},
		{
			resource: namespaceResource, gvk: corev1.SchemeGroupVersion.WithKind("Namespace"),
			list: func() runtime.Object { return &corev1.NamespaceList{} },
			item: func() runtime.Object { return &corev1.Namespace{} },
		},
		{
			resource: nodev1.SchemeGroupVersion.WithResource("runtimeclasses"),
			gvk:      nodev1.SchemeGroupVersion.WithKind("RuntimeClass"),
			list:     func() runtime.Object { return &nodev1.RuntimeClassList{} },
			item:     func() runtime.Object { return &nodev1.RuntimeClass{} },
		},
		{
			// The kubelet projects them into pods.
			resource: certificatesv1.SchemeGroupVersion.WithResource("clustertrustbundles"),
			gvk:      certificatesv1.SchemeGroupVersion.WithKind("ClusterTrustBundle"),
			list:     func() runtime.Object { return &certificatesv1.ClusterTrustBundleList{} },
			item:     func() runtime.Object { return &certificatesv1.ClusterTrustBundle{} },
		},
		{
			resource: storagev1.SchemeGroupVersion.WithResource("csidrivers"),
			gvk:      storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
			list:     func() runtime.Object { return &storagev1.CSIDriverList{} },
			item:     func() runtime.Object { return &storagev1.CSIDriver{} },
		},
		{
			// The kubelet asks for the certificates of its pods, in their namespaces.
			resource: requestsResource, gvk: certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"),
			list: func() runtime.Object { return &certificatesv1.PodCertificateRequestList{} },
			item: func() runtime.Object { return &certificatesv1.PodCertificateRequest{} },
			selectable: func(obj runtime.Object) fields.Set {
				request, ok := obj.(*certificatesv1.PodCertificateRequest)
				if !ok {
					request = &certificatesv1.PodCertificateRequest{}
				}
				return fields.Set{fieldNode: string(request.Spec.NodeName)}
			},
		},
		{
			// kube-proxy refuses what comes for their addresses that no Service has.
			resource: rangesResource, gvk: networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"),
			list: func() runtime.Object { return &networkingv1.ServiceCIDRList{} },
			item: func() runtime.Object { return &networkingv1.ServiceCIDR{} },
		},
		{
			// The copies of this node, for the volumes that are attached to it.
			resource: nodeResource, gvk: corev1.SchemeGroupVersion.WithKind("Node"), inner: true,
			list: func() runtime.Object { return &corev1.NodeList{} },
			item: func() runtime.Object { return &corev1.Node{} },
		},
	}
}

// adopt makes an object of a partition one of this node. qualifier is the name of
// the partition, empty for the home partition.
func (k kind) adopt(qualifier string, obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	obj.GetObjectKind().SetGroupVersionKind(k.gvk) // which lists leave out
	m.SetManagedFields(nil)
	if qualifier == "" {
		return nil
	}
	return qualify.To(qualifier).Map(obj)
}

// tenant is the one to whose space an object belongs, empty for the system.
func (k kind) tenant(m metav1.Object) string {
	var tenant string
	switch {
	case k.resource == namespaceResource:
		tenant, _ = space.SplitNamespace(m.GetName())
	case m.GetNamespace() == "":
		tenant, _ = space.SplitClusterName(m.GetName())
	default:
		tenant, _ = space.SplitNamespace(m.GetNamespace())
	}
	if space.IsSystem(tenant) {
		return ""
	}
	return tenant
}

// matcher tells which objects a request asks for.
type matcher func(runtime.Object) bool

// matcher reads the selectors of a request.
func (k kind) matcher(o *metav1.ListOptions) (matcher, error) {
	byLabel, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("the label selector %q: %w", o.LabelSelector, err)
	}
	byField, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return nil, fmt.Errorf("the field selector %q: %w", o.FieldSelector, err)
	}
	known := k.fields(k.item())
	for _, r := range byField.Requirements() {
		if !known.Has(r.Field) {
			return nil, fmt.Errorf("the field selector %q: %q is not a field by which %s are selected",
				o.FieldSelector, r.Field, k.resource.Resource)
		}
	}
	return func(obj runtime.Object) bool {
		m, err := meta.Accessor(obj)
		return err == nil && byLabel.Matches(labels.Set(m.GetLabels())) &&
			(byField.Empty() || byField.Matches(k.fields(obj)))
	}, nil
}

func (k kind) fields(obj runtime.Object) fields.Set {
	set := fields.Set{}
	if k.selectable != nil {
		set = k.selectable(obj)
	}
	if m, err := meta.Accessor(obj); err == nil {
		set["metadata.name"], set["metadata.namespace"] = m.GetName(), m.GetNamespace()
	}
	return set
}
