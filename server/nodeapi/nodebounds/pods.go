package nodebounds

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/server/controlplane/noderanges"
)

// byAddress is the index of pods by the addresses that are theirs alone.
const byAddress = "a4s.io/node-bounds-address"

func podAddresses(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil, nil
	}
	var out []string
	for _, ip := range pod.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			out = append(out, addr.Unmap().String())
		}
	}
	return out, nil
}

// podMetaRules are for the metadata of a pod whose status a node writes.
func podMetaRules() []rule {
	return []rule{
		free("Name"), free("GenerateName"), free("Namespace"), free("SelfLink"), free("UID"), free("ResourceVersion"),
		free("Generation"), free("CreationTimestamp"), free("DeletionTimestamp"), free("DeletionGracePeriodSeconds"),
		free("ManagedFields"), free("OwnerReferences"), // all of these the API server keeps, whatever is sent
		free("Labels"), // NodeRestriction judges them
		never("Annotations", "others go by them"),
		never("Finalizers", "they can hold up the deletion of the pod"),
	}
}

// podRules are for the status of a pod. What is free says how the pod fares on its node, which
// nobody else can know; of what it holds of devices NodeRestriction judges.
func podRules(addresses func(c *change) error) []rule {
	return []rule{
		free("ObservedGeneration"), free("Phase"), free("Conditions"), free("Message"), free("Reason"),
		free("NominatedNodeName"), free("StartTime"), free("InitContainerStatuses"), free("ContainerStatuses"),
		free("QOSClass"), free("EphemeralContainerStatuses"), free("Resize"), free("AllocatedResources"),
		free("Resources"), free("VolumeHealth"), free("ResourceClaimStatuses"), free("ExtendedResourceClaimStatus"),
		free("NodeAllocatableResourceClaimStatuses"),
		judged("HostIP", addresses), judged("HostIPs", addresses), judged("PodIP", addresses),
		judged("PodIPs", addresses),
	}
}

// judgePod holds what a node says of a pod to the tables.
func (b *Bounds) judgePod(ctx context.Context, node string, attr admission.Attributes) error {
	now, ok := attr.GetObject().(*core.Pod)
	was, ok2 := attr.GetOldObject().(*core.Pod)
	if !ok || !ok2 {
		return fmt.Errorf("unexpected type %T", attr.GetObject())
	}
	addresses := func(c *change) error { return b.judgePodAddresses(c.ctx, node, now) }
	c := &change{ctx: ctx, b: b}
	if err := check(c, "metadata", podMetaRules(), &now.ObjectMeta, &was.ObjectMeta); err != nil {
		return err
	}
	return check(c, "status", podRules(addresses), &now.Status, &was.Status)
}

// judgePodAddresses lets a pod have addresses of its node's range, and one in the network of
// its node those of the node.
func (b *Bounds) judgePodAddresses(ctx context.Context, name string, pod *core.Pod) error {
	if err := b.known(); err != nil {
		return err
	}
	node, err := b.nodes.Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if node == nil {
		node = &corev1.Node{}
	}
	machines := addressesOf(node)
	if joined, known, err := b.joined(ctx, name); err != nil {
		return err
	} else if known {
		machines = append(machines, joined...)
	}
	ofMachine := func(what, text string) error {
		if ip, err := netip.ParseAddr(text); text == "" || err == nil && slices.Contains(machines, ip.Unmap()) {
			return nil
		}
		return fmt.Errorf("%s %s is not an address of node %s", what, text, name)
	}
	if err := ofMachine("status.hostIP", pod.Status.HostIP); err != nil {
		return err
	}
	for _, h := range pod.Status.HostIPs {
		if err := ofMachine("status.hostIPs", h.IP); err != nil {
			return err
		}
	}
	hostNetwork := pod.Spec.HostNetwork
	for _, p := range pod.Status.PodIPs {
		if hostNetwork {
			err = ofMachine("status.podIPs of a pod in the network of its node:", p.IP)
		} else {
			err = b.judgePodAddress(node, name, p.IP)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *Bounds) judgePodAddress(node *corev1.Node, name, text string) error {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return nil // upstream refuses it
	}
	ip = ip.Unmap()
	if b.o.PodsInRanges {
		for _, p := range noderanges.Stored(node.Spec.PodCIDRs) {
			if p.Contains(ip) {
				return nil
			}
		}
		if len(node.Spec.PodCIDRs) == 0 {
			return fmt.Errorf("status.podIPs: node %s has no range of pods yet, and %s is none of it", name, ip)
		}
		return fmt.Errorf("status.podIPs: %s is not in the range of node %s, which is %v", ip, name,
			node.Spec.PodCIDRs)
	}
	// Something else gives pods their addresses: then the older claim counts.
	found, err := b.pods.ByIndex(byAddress, ip.String())
	if err != nil {
		return err
	}
	for _, obj := range found {
		if other, ok := obj.(*corev1.Pod); ok && other.Spec.NodeName != name {
			return fmt.Errorf("status.podIPs: %s is that of a pod of another node", ip)
		}
	}
	return nil
}
