package networkpolicy

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// trimmer keeps what is read here.
func trimmer(pool *interning.Pool) func(obj any) (any, error) {
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case *corev1.Pod:
			obj = trimPod(o)
		case *corev1.Namespace:
			obj = &corev1.Namespace{ObjectMeta: trimMeta(&o.ObjectMeta)}
		case *networkingv1.NetworkPolicy:
			obj = &networkingv1.NetworkPolicy{ObjectMeta: trimMeta(&o.ObjectMeta), Spec: o.Spec}
		}
		return pool.Transform(obj)
	}
}

func trimMeta(o *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID,
		ResourceVersion: o.ResourceVersion, Labels: o.Labels}
}

func trimPod(o *corev1.Pod) *corev1.Pod {
	kept := &corev1.Pod{
		ObjectMeta: trimMeta(&o.ObjectMeta),
		Spec:       corev1.PodSpec{NodeName: o.Spec.NodeName, HostNetwork: o.Spec.HostNetwork},
		Status:     corev1.PodStatus{Phase: o.Status.Phase, PodIPs: o.Status.PodIPs},
	}
	if mirrored, ok := o.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		kept.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: mirrored}
	}
	keep := func(containers []corev1.Container) (out []corev1.Container) {
		for _, c := range containers {
			for _, p := range c.Ports {
				if p.Name != "" {
					out = append(out, corev1.Container{Ports: c.Ports, RestartPolicy: c.RestartPolicy})
					break
				}
			}
		}
		return out
	}
	kept.Spec.Containers, kept.Spec.InitContainers = keep(o.Spec.Containers), keep(o.Spec.InitContainers)
	return kept
}

// podOf returns nil for a pod without addresses of its own: it has its node's
// network, was given no node yet, or ended.
func podOf(o *corev1.Pod) *pod {
	if o.Spec.HostNetwork || o.Spec.NodeName == "" || o.Status.Phase == corev1.PodSucceeded ||
		o.Status.Phase == corev1.PodFailed {
		return nil
	}
	p := &pod{namespace: o.Namespace, name: o.Name, uid: string(o.UID), node: o.Spec.NodeName,
		labels: labels.Set(o.Labels)}
	if mirrored, ok := o.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		p.uid = mirrored // the node made up its own
	}
	for _, ip := range o.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			p.addrs = append(p.addrs, addr.Unmap())
		}
	}
	name := func(containers []corev1.Container) {
		for _, c := range containers {
			for _, cp := range c.Ports {
				if cp.Name == "" || cp.ContainerPort <= 0 || cp.ContainerPort > 65535 {
					continue
				}
				protocol := string(cp.Protocol)
				if protocol == "" {
					protocol = string(corev1.ProtocolTCP)
				}
				p.ports = append(p.ports, port{name: cp.Name, protocol: protocol, number: uint16(cp.ContainerPort)})
			}
		}
	}
	name(o.Spec.Containers)
	for _, c := range o.Spec.InitContainers { // those that stay
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			name([]corev1.Container{c})
		}
	}
	return p
}
