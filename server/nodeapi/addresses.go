package nodeapi

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/noderanges"
)

// Addresses knows the tenant behind every address of the pod network, for the
// nodes to keep tenants apart. A node may not read the pods of others itself, and is
// told the addresses of the tenants whose pods it runs, and of the system's.
type Addresses struct {
	client kubernetes.Interface

	mu      sync.Mutex
	synced  bool
	claims  map[netip.Addr]map[string]claim // by who claims it
	owned   map[string]claimant
	ranges  map[string][]netip.Prefix // of pods, by node
	streams addressStreams
}

// claimant is a pod or a node: the addresses that it claims, and where the pod is.
type claimant struct {
	addresses []netip.Addr
	place     place
}

// claim is what somebody says of an address, and on which node.
type claim struct {
	joinapi.PodAddress
	node string
}

// NewAddresses returns the controller. It needs to list and watch pods and
// nodes.
func NewAddresses(client kubernetes.Interface) *Addresses {
	a := &Addresses{client: client}
	a.reset()
	return a
}

// Run works until ctx ends; then it returns nil. Streams end with it.
func (a *Addresses) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(a.client, 0, informers.WithTransform(addressesOnly))
	defer factory.Shutdown()
	pods, nodes := factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes().Informer()
	a.reset()
	defer a.reset()
	var handled []cache.InformerSynced // later than the informers
	for _, informer := range []cache.SharedIndexInformer{pods, nodes} {
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    a.set,
			UpdateFunc: func(_, obj any) { a.set(obj) },
			DeleteFunc: a.unset,
		})
		if err != nil {
			return fmt.Errorf("watching addresses: %w", err)
		}
		handled = append(handled, handler.HasSynced)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before Shutdown, which waits for the informers
	factory.StartWithContext(ctx)
	if cache.WaitForCacheSync(ctx.Done(), handled...) {
		a.mu.Lock()
		a.synced = true
		a.mu.Unlock()
		<-ctx.Done()
	}
	return nil
}

// reset forgets everything and ends all streams.
func (a *Addresses) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.synced = false
	a.claims, a.owned = map[netip.Addr]map[string]claim{}, map[string]claimant{}
	a.ranges = map[string][]netip.Prefix{}
	a.streams.reset()
}

func (a *Addresses) set(obj any) {
	if key, claims := claimsOf(obj); key != "" {
		node, _ := obj.(*corev1.Node)
		a.change(key, node, claims, placeOf(obj))
	}
}

func (a *Addresses) unset(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	key, _ := claimsOf(obj)
	node, ok := obj.(*corev1.Node)
	if ok {
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}} // it has no range any more
	}
	a.change(key, node, nil, place{})
}

// change takes note of what a pod or a node claims now, and where the pod is. The node is nil if it is a pod.
func (a *Addresses) change(key string, node *corev1.Node, claims map[netip.Addr]claim, at place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := map[netip.Addr]joinapi.PodAddress{}
	if node != nil {
		a.setRanges(node, changed)
	}
	was, now := a.owned[key], claimant{place: at}
	for _, addr := range was.addresses {
		a.note(addr, changed)
		a.streams.unclaim(a.claims[addr][key].Tenant, addr)
		delete(a.claims[addr], key)
	}
	for addr, c := range claims {
		a.note(addr, changed)
		if a.claims[addr] == nil {
			a.claims[addr] = map[string]claim{}
		}
		a.claims[addr][key] = c
		now.addresses = append(now.addresses, addr)
		a.streams.claim(c.Tenant, addr)
	}
	if a.owned[key] = now; len(now.addresses) == 0 && at == (place{}) {
		delete(a.owned, key)
	}
	for addr, before := range changed {
		now := a.current(addr)
		if len(a.claims[addr]) == 0 {
			delete(a.claims, addr)
		}
		if now != before {
			a.streams.note(addr, before, now)
		}
	}
	a.move(was.place, at)
	a.tell()
}

// setRanges takes note of the ranges of a node that changed, and of what its pods were until
// now.
func (a *Addresses) setRanges(node *corev1.Node, changed map[netip.Addr]joinapi.PodAddress) {
	now := noderanges.Stored(node.Spec.PodCIDRs)
	was := a.ranges[node.Name]
	if slices.Equal(now, was) {
		return
	}
	for _, p := range slices.Concat(now, was) {
		if bits := p.Addr().BitLen() - p.Bits(); bits <= mostBits {
			for addr := p.Masked().Addr(); p.Contains(addr); addr = addr.Next() {
				if len(a.claims[addr]) > 0 {
					a.note(addr, changed)
				}
			}
			continue
		}
		for addr := range a.claims {
			if p.Contains(addr) {
				a.note(addr, changed)
			}
		}
	}
	if a.ranges[node.Name] = now; len(now) == 0 {
		delete(a.ranges, node.Name)
	}
}

// mostBits is how large ranges are whose addresses are gone through, not those that pods claim.
const mostBits = 12

// note takes note of what is known about addr before it changes.
func (a *Addresses) note(addr netip.Addr, changed map[netip.Addr]joinapi.PodAddress) {
	if _, noted := changed[addr]; !noted {
		changed[addr] = a.current(addr)
	}
}

// current is what is known about addr. Who has it in the range of their node has it, whatever
// pods of other nodes say. Where two pods of different tenants
// claim it, as happens while one goes and the other comes, it belongs to
// nobody.
func (a *Addresses) current(addr netip.Addr) joinapi.PodAddress {
	out := joinapi.PodAddress{IP: addr.String(), Deleted: true}
	inRange := func(c claim) bool {
		return slices.ContainsFunc(a.ranges[c.node], func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	some := false
	for _, c := range a.claims[addr] {
		some = some || inRange(c)
	}
	for _, c := range a.claims[addr] {
		if some && !inRange(c) {
			continue
		}
		p := c.PodAddress
		switch {
		case out.Deleted:
			out = p
		case out.Tenant != p.Tenant:
			return joinapi.PodAddress{IP: addr.String(), Deleted: true}
		default:
			out.Shared = out.Shared && p.Shared
		}
	}
	return out
}

// Tenant is whose pod has an address, "" if nobody's or not known.
func (a *Addresses) Tenant(addr netip.Addr) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.current(addr); !p.Deleted {
		return p.Tenant
	}
	return ""
}

// Known reports whether all pods are known.
func (a *Addresses) Known() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.synced
}

// claimsOf returns the addresses of a pod, or those that a node has in the pod
// network: the first of its range is the tunnel's, the second the gateway's.
func claimsOf(obj any) (key string, claims map[netip.Addr]claim) {
	claims = map[netip.Addr]claim{}
	switch o := obj.(type) {
	case *corev1.Pod:
		key = "pod/" + o.Namespace + "/" + o.Name
		tenant, _ := space.SplitNamespace(o.Namespace)
		for _, ip := range o.Status.PodIPs {
			if addr, err := netip.ParseAddr(ip.IP); err == nil {
				addr = addr.Unmap()
				claims[addr] = claim{joinapi.PodAddress{IP: addr.String(), Tenant: tenant, Shared: isShared(o)},
					o.Spec.NodeName}
			}
		}
	case *corev1.Node:
		key = "node/" + o.Name
		for _, cidr := range o.Spec.PodCIDRs {
			prefix, err := netip.ParsePrefix(cidr)
			if err != nil {
				continue
			}
			first := prefix.Masked().Addr()
			for _, addr := range []netip.Addr{first, first.Next()} {
				claims[addr] = claim{joinapi.PodAddress{IP: addr.String(), Tenant: space.System, Shared: true}, o.Name}
			}
		}
	}
	return key, claims
}

func isShared(pod *corev1.Pod) bool {
	tenant, _ := space.SplitNamespace(pod.Namespace)
	return space.IsSystem(tenant) && (pod.Annotations[space.Shared] == "true" || pod.Labels[space.Shared] == "true")
}

// addressesOnly keeps what is read here. A pod with the node's network or that
// ended has no address of its own.
func addressesOnly(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		kept := &corev1.Pod{TypeMeta: o.TypeMeta, ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name,
			UID: o.UID, ResourceVersion: o.ResourceVersion}}
		if isShared(o) {
			kept.Annotations = map[string]string{space.Shared: "true"}
		}
		if !o.Spec.HostNetwork && o.Status.Phase != corev1.PodSucceeded && o.Status.Phase != corev1.PodFailed {
			kept.Status.PodIPs, kept.Spec.NodeName = o.Status.PodIPs, o.Spec.NodeName
		}
		return kept, nil
	case *corev1.Node:
		return &corev1.Node{
			TypeMeta:   o.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion},
			Spec:       corev1.NodeSpec{PodCIDRs: o.Spec.PodCIDRs},
		}, nil
	}
	return obj, nil // a tombstone
}
