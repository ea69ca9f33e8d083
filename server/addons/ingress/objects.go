package ingress

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/server/addons/servicelb"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// annotationClass is how Ingresses named their class before spec.ingressClassName.
const annotationClass = "kubernetes.io/ingress.class"

// Ports of nodes that take requests.
const (
	HTTPPort  = 80
	HTTPSPort = 443
)

// trimmer keeps what is read here.
func trimmer(pool *interning.Pool) func(obj any) (any, error) {
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case *networkingv1.Ingress:
			kept := &networkingv1.Ingress{ObjectMeta: trimMeta(&o.ObjectMeta), Spec: o.Spec, Status: o.Status}
			kept.CreationTimestamp = o.CreationTimestamp
			if class, ok := o.Annotations[annotationClass]; ok {
				kept.Annotations = map[string]string{annotationClass: class}
			}
			obj = kept
		case *networkingv1.IngressClass:
			obj = &networkingv1.IngressClass{ObjectMeta: trimMeta(&o.ObjectMeta),
				Spec: networkingv1.IngressClassSpec{Controller: o.Spec.Controller}}
		case *corev1.Service:
			kept := &corev1.Service{ObjectMeta: trimMeta(&o.ObjectMeta),
				Spec: corev1.ServiceSpec{Type: o.Spec.Type, Ports: o.Spec.Ports}}
			if hasPort(o) {
				kept.Status.LoadBalancer = o.Status.LoadBalancer
			}
			obj = kept
		case *discoveryv1.EndpointSlice:
			obj = trimSlice(o)
		case *corev1.Secret:
			obj = &corev1.Secret{ObjectMeta: trimMeta(&o.ObjectMeta), Data: map[string][]byte{
				corev1.TLSCertKey:       o.Data[corev1.TLSCertKey],
				corev1.TLSPrivateKeyKey: o.Data[corev1.TLSPrivateKeyKey],
			}}
		case *corev1.Node:
			obj = servicelb.TrimNode(o)
		case *corev1.Namespace:
			kept := &corev1.Namespace{ObjectMeta: trimMeta(&o.ObjectMeta)}
			kept.Labels = o.Labels
			obj = kept
		}
		return pool.Transform(obj)
	}
}

func trimMeta(o *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
		DeletionTimestamp: o.DeletionTimestamp}
}

func trimSlice(o *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	kept := &discoveryv1.EndpointSlice{ObjectMeta: trimMeta(&o.ObjectMeta), AddressType: o.AddressType,
		Ports: o.Ports}
	kept.Labels = map[string]string{discoveryv1.LabelServiceName: o.Labels[discoveryv1.LabelServiceName]}
	for i := range o.Endpoints {
		kept.Endpoints = append(kept.Endpoints, discoveryv1.Endpoint{Addresses: o.Endpoints[i].Addresses,
			Conditions: o.Endpoints[i].Conditions})
	}
	return kept
}

// hasPort reports whether a Service has a port of the nodes that would take requests for Ingresses.
func hasPort(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
			return (p.Port == HTTPPort || p.Port == HTTPSPort) &&
				(p.Protocol == "" || p.Protocol == corev1.ProtocolTCP)
		})
}

// bySlice indexes EndpointSlices by their Service.
const bySlice = "service"

func serviceOf(obj any) ([]string, error) {
	o, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, nil
	}
	return []string{o.Namespace + "/" + o.Labels[discoveryv1.LabelServiceName]}, nil
}
