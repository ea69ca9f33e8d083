package nodeapi

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

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
// nodes to keep tenants apart. A node may not read the pods of others itself.
type Addresses struct {
	client kubernetes.Interface

	mu       sync.Mutex
	synced   bool
	claims   map[netip.Addr]map[string]claim // by who claims it
	owned    map[string][]netip.Addr         // addresses of a claimant
	ranges   map[string][]netip.Prefix       // of pods, by node
	watchers map[*addressWatch]bool
	// news are what the streams are not told yet, and told is when they were last.
	news map[netip.Addr]joinapi.PodAddress
	told time.Time
}

const (
	// perStream is how long a change waits for others, for each stream that there is. To
	// tell a stream costs about a fifth of it, whatever is told, so all of them take a
	// fifth of a processor at most, however fast pods come and go, up to 5,000 of them.
	perStream = 200 * time.Microsecond
	// longest is how long a change waits at most.
	longest = time.Second
)

// claim is what somebody says of an address, and on which node.
type claim struct {
	joinapi.PodAddress
	node string
}

// addressWatch is one stream.
type addressWatch struct {
	pending map[netip.Addr]joinapi.PodAddress
	wake    chan struct{}
	done    chan struct{} // closed when the stream must end
}

// NewAddresses returns the controller. It needs to list and watch pods and
// nodes.
func NewAddresses(client kubernetes.Interface) *Addresses {
	return &Addresses{client: client, watchers: map[*addressWatch]bool{}, news: map[netip.Addr]joinapi.PodAddress{}}
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
	for w := range a.watchers {
		close(w.done)
	}
	a.synced = false
	a.claims, a.owned, a.watchers = map[netip.Addr]map[string]claim{}, map[string][]netip.Addr{},
		map[*addressWatch]bool{}
	a.ranges = map[string][]netip.Prefix{}
	clear(a.news)
}

// watch returns a stream that begins with everything; false while not
// everything is known.
func (a *Addresses) watch() (*addressWatch, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.synced {
		return nil, false
	}
	w := &addressWatch{pending: make(map[netip.Addr]joinapi.PodAddress, len(a.claims)), wake: make(chan struct{}, 1),
		done: make(chan struct{})}
	for addr := range a.claims {
		if p := a.current(addr); !p.Deleted {
			w.pending[addr] = p
		}
	}
	a.watchers[w] = true
	return w, true
}

// stop ends w.
func (a *Addresses) stop(w *addressWatch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.watchers, w)
}

// take returns what w has not told yet.
func (a *Addresses) take(w *addressWatch) map[netip.Addr]joinapi.PodAddress {
	a.mu.Lock()
	defer a.mu.Unlock()
	pending := w.pending
	w.pending = map[netip.Addr]joinapi.PodAddress{}
	return pending
}

func (a *Addresses) set(obj any) {
	key, claims := claimsOf(obj)
	if key == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := map[netip.Addr]joinapi.PodAddress{}
	a.setRanges(obj, changed)
	for _, addr := range a.owned[key] {
		if _, still := claims[addr]; !still {
			a.note(addr, changed)
			delete(a.claims[addr], key)
		}
	}
	delete(a.owned, key)
	for addr, p := range claims {
		a.note(addr, changed)
		if a.claims[addr] == nil {
			a.claims[addr] = map[string]claim{}
		}
		a.claims[addr][key] = p
		a.owned[key] = append(a.owned[key], addr)
	}
	a.tell(changed)
}

func (a *Addresses) unset(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	key, _ := claimsOf(obj)
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := map[netip.Addr]joinapi.PodAddress{}
	if node, ok := obj.(*corev1.Node); ok {
		a.setRanges(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, changed)
	}
	for _, addr := range a.owned[key] {
		a.note(addr, changed)
		delete(a.claims[addr], key)
	}
	delete(a.owned, key)
	a.tell(changed)
}

// tell hands what changed, given with what it was, to the streams: at once after a pause
// without changes, and else with what else changes until then.
func (a *Addresses) tell(changed map[netip.Addr]joinapi.PodAddress) {
	for addr, before := range changed {
		now := a.current(addr)
		if len(a.claims[addr]) == 0 {
			delete(a.claims, addr)
		}
		if now == before {
			delete(changed, addr)
		} else {
			changed[addr] = now
		}
	}
	if len(changed) == 0 {
		return
	}
	waits := len(a.news) > 0 // somebody does it later
	maps.Copy(a.news, changed)
	if waits {
		return
	}
	if left := a.pause() - time.Since(a.told); left > 0 {
		time.AfterFunc(left, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.tellNews()
		})
		return
	}
	a.tellNews()
}

// pause is the time between two times at which the streams are told something.
func (a *Addresses) pause() time.Duration {
	return min(longest, time.Duration(len(a.watchers))*perStream)
}

// tellNews hands the news to the streams.
func (a *Addresses) tellNews() {
	if len(a.news) == 0 {
		return // they were forgotten
	}
	for w := range a.watchers {
		maps.Copy(w.pending, a.news)
		select {
		case w.wake <- struct{}{}:
		default: // it has not looked yet
		}
	}
	clear(a.news)
	a.told = time.Now()
}

// setRanges takes note of the ranges of a node that changed, and of what its pods were until
// now.
func (a *Addresses) setRanges(obj any, changed map[netip.Addr]joinapi.PodAddress) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
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
