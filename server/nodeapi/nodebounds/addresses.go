package nodebounds

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/core"
)

// trim takes off a Node what its node may not say although honest ones do: addresses that
// they were told of after they joined, and, when they make the Node anew, what administrators
// noted on the one before. Without it all of what such a node says would be refused.
func (b *Bounds) trim(ctx context.Context, node string, attr admission.Attributes) error {
	now, ok := attr.GetObject().(*core.Node)
	if !ok || now.Name != node || attr.GetResource().GroupResource() != core.Resource("nodes") {
		return nil
	}
	was, updates := attr.GetOldObject().(*core.Node)
	if !updates {
		was = &core.Node{}
		c := &change{ctx: ctx, b: b, now: now, was: was, creates: true}
		for key := range now.Annotations {
			if nodesOwn(key) {
				continue
			}
			if may, err := b.bringsBack(c, key); err != nil {
				return err
			} else if !may {
				delete(now.Annotations, key)
				warning.AddWarning(ctx, "", "the annotation "+key+" is not for a node to set, and was left out")
			}
		}
	}
	if equality.Semantic.DeepEqual(now.Status.Addresses, was.Status.Addresses) {
		return nil
	}
	left, dropped, err := b.own(ctx, now)
	if err != nil || len(dropped) == 0 {
		return err
	}
	now.Status.Addresses = left
	warning.AddWarning(ctx, "", "status.addresses: "+notOwn(dropped))
	return nil
}

// judgeAddresses judges what trim, and webhooks after it, left.
func (b *Bounds) judgeAddresses(ctx context.Context, now *core.Node) error {
	_, dropped, err := b.own(ctx, now)
	if err != nil {
		return err
	}
	if len(dropped) > 0 {
		return fmt.Errorf("status.addresses: %s", notOwn(dropped))
	}
	return nil
}

func notOwn(dropped []core.NodeAddress) string {
	var texts []string
	for _, a := range dropped {
		texts = append(texts, string(a.Type)+" "+a.Address)
	}
	return strings.Join(texts, ", ") + ": a node says its own name and the addresses that it joined with; " +
		"start its agent again with its token to change them"
}

// own parts the addresses that a node may say from those that it may not.
func (b *Bounds) own(ctx context.Context, now *core.Node) (own, others []core.NodeAddress, err error) {
	if err := b.known(); err != nil {
		return nil, nil, err
	}
	joined, known, err := b.joined(ctx, now.Name)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range now.Status.Addresses {
		ok := false
		switch a.Type {
		case core.NodeInternalIP, core.NodeExternalIP:
			ip, err := netip.ParseAddr(a.Address)
			switch {
			case err != nil:
			case known:
				ok = slices.Contains(joined, ip.Unmap())
			default:
				if ok, err = b.nobodys(ip.Unmap(), now.Name); err != nil {
					return nil, nil, err
				}
			}
		case core.NodeHostName, core.NodeInternalDNS, core.NodeExternalDNS:
			ok = a.Address == now.Name
		}
		if ok {
			own = append(own, a)
		} else {
			others = append(others, a)
		}
	}
	return own, others, nil
}

// nobodys reports whether an address may be that of a node of which nothing is known: it is a
// host's, and no other node has it.
func (b *Bounds) nobodys(ip netip.Addr, node string) (bool, error) {
	if !ip.IsGlobalUnicast() || ip.Zone() != "" || b.o.Pods.Contains(ip) {
		return false, nil
	}
	all, err := b.nodes.List(labels.Everything())
	if err != nil {
		return false, err
	}
	for _, n := range all {
		if n.Name != node && slices.Contains(addressesOf(n), ip) {
			return false, nil
		}
	}
	return true, nil
}

// addressesOf are the addresses in the status of a Node.
func addressesOf(n *corev1.Node) (out []netip.Addr) {
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

// joined are the addresses that a node joined with or, of one that joined before they were
// written down, those that its Node has.
func (b *Bounds) joined(ctx context.Context, node string) (out []netip.Addr, known bool, err error) {
	if b.o.Joined != nil {
		if out, known, err = b.o.Joined(ctx, node); err != nil || known {
			return out, known, err
		}
	}
	n, err := b.nodes.Get(node)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	out = addressesOf(n)
	return out, len(out) > 0, nil
}
