package nodeapi

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/space"
)

const (
	// perStream is how long changes wait for others, for each stream that was told the last ones. To
	// tell a stream costs about a fifth of it, whatever is told, so all of them take a
	// fifth of a processor at most, however fast pods come and go, up to 5,000 of them.
	perStream = 200 * time.Microsecond
	// longest is how long a change waits at most.
	longest = time.Second
	// lingers is how long a node is told the addresses of a tenant whose last pod there has gone.
	lingers = time.Minute
)

// place is the node of a pod, and whose pod it is.
type place struct{ node, tenant string }

// placeOf is the place of a pod; that of others is empty. So is that of a pod that has no address of its own, and of
// one that everybody may reach: nothing has to be known for them.
func placeOf(obj any) place {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || isShared(pod) {
		return place{}
	}
	return place{pod.Spec.NodeName, space.OfNamespace(pod.Namespace)}
}

// addressStreams are the streams of nodes, and what is looked up for them.
type addressStreams struct {
	byNode streamsBy
	// byTenant are those of nodes that run pods of a tenant, or of the system. All are told the system's addresses.
	byTenant streamsBy
	// pods is how many of each tenant a node has.
	pods map[string]map[string]int
	// addresses are those that pods of a tenant claim, and how many do.
	addresses map[string]map[netip.Addr]int
	// leaving end the telling of a tenant that has no pod at a place any more.
	leaving map[place]*time.Timer
	// news are what the streams are not told yet; waiting is set while somebody does it later.
	news    map[netip.Addr]news
	waiting bool
	// told is when they were told last, and woken how many were.
	told  time.Time
	woken int
}

// streamsBy are streams by a name.
type streamsBy map[string]map[*addressWatch]bool

func (s streamsBy) add(name string, w *addressWatch) {
	if s[name] == nil {
		s[name] = map[*addressWatch]bool{}
	}
	s[name][w] = true
}

func (s streamsBy) remove(name string, w *addressWatch) {
	if delete(s[name], w); len(s[name]) == 0 {
		delete(s, name)
	}
}

// news is what an address is now, and whose it was.
type news struct {
	now  joinapi.PodAddress
	were map[string]bool
}

// addressWatch is one stream.
type addressWatch struct {
	node    string
	tenants map[string]bool
	pending map[netip.Addr]joinapi.PodAddress
	wake    chan struct{}
	done    chan struct{} // closed when the stream must end
}

// reset ends all streams.
func (s *addressStreams) reset() {
	for _, watches := range s.byNode {
		for w := range watches {
			close(w.done)
		}
	}
	*s = addressStreams{byNode: streamsBy{}, byTenant: streamsBy{}, pods: map[string]map[string]int{},
		addresses: map[string]map[netip.Addr]int{}, news: map[netip.Addr]news{}, leaving: map[place]*time.Timer{}}
}

// hearing are the streams that are told the addresses of a tenant; some may come twice.
func (s *addressStreams) hearing(tenant string) iter.Seq[*addressWatch] {
	return func(yield func(*addressWatch) bool) {
		for w := range s.byTenant[tenant] {
			if !yield(w) {
				return
			}
		}
		if !space.IsSystem(tenant) {
			for w := range s.byTenant[space.System] {
				if !yield(w) {
					return
				}
			}
			return
		}
		for _, watches := range s.byNode {
			for w := range watches {
				if !yield(w) {
					return
				}
			}
		}
	}
}

// count counts a pod at a place, or takes one away, and returns how many there are.
func (s *addressStreams) count(at place, more int) int {
	if s.pods[at.node] == nil {
		s.pods[at.node] = map[string]int{}
	}
	s.pods[at.node][at.tenant] += more
	n := s.pods[at.node][at.tenant]
	if n == 0 {
		delete(s.pods[at.node], at.tenant)
	}
	if len(s.pods[at.node]) == 0 {
		delete(s.pods, at.node)
	}
	return n
}

func (s *addressStreams) claim(tenant string, addr netip.Addr) {
	if s.addresses[tenant] == nil {
		s.addresses[tenant] = map[netip.Addr]int{}
	}
	s.addresses[tenant][addr]++
}

func (s *addressStreams) unclaim(tenant string, addr netip.Addr) {
	of := s.addresses[tenant]
	if of[addr]--; of[addr] > 0 {
		return
	}
	if delete(of, addr); len(of) == 0 {
		delete(s.addresses, tenant)
	}
}

// note takes note of an address that changed.
func (s *addressStreams) note(addr netip.Addr, before, now joinapi.PodAddress) {
	n := s.news[addr]
	if n.were == nil {
		n.were = map[string]bool{}
	}
	if n.now = now; !before.Deleted {
		n.were[before.Tenant] = true
	}
	s.news[addr] = n
}

// isTold reports whether the stream is told of the addresses of a tenant. A node that runs pods of the system is told
// of all: it keeps tenants from these pods, and lets addresses pass that it does not know, as a new pod of the system
// elsewhere may have them.
func (w *addressWatch) isTold(tenant string) bool {
	return space.IsSystem(tenant) || w.tenants[tenant] || w.tenants[space.System]
}

// hear has the stream tell something.
func (w *addressWatch) hear(addr netip.Addr, p joinapi.PodAddress) {
	if !p.Deleted && !w.isTold(p.Tenant) {
		p = joinapi.PodAddress{IP: p.IP, Deleted: true} // to this node it is nobody's
	}
	w.pending[addr] = p
}

func (w *addressWatch) awake() {
	select {
	case w.wake <- struct{}{}:
	default: // it has not looked yet
	}
}

// watch returns a stream of what concerns a node, which begins with everything; false while not
// everything is known.
func (a *Addresses) watch(node string) (*addressWatch, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.synced {
		return nil, false
	}
	w := &addressWatch{node: node, tenants: map[string]bool{}, pending: map[netip.Addr]joinapi.PodAddress{},
		wake: make(chan struct{}, 1), done: make(chan struct{})}
	a.streams.byNode.add(node, w)
	a.hear(w, space.System)
	for tenant := range a.streams.pods[node] {
		a.runs(w, tenant, true)
	}
	return w, true
}

// runs takes note of whether the node of a stream runs pods of a tenant, and reports whether that is news.
func (a *Addresses) runs(w *addressWatch, tenant string, does bool) bool {
	if w.tenants[tenant] == does {
		return false
	}
	concerned := []string{tenant}
	if space.IsSystem(tenant) { // it concerns all
		concerned = slices.Collect(maps.Keys(a.streams.addresses))
	}
	concerned = slices.DeleteFunc(concerned, func(t string) bool { return w.isTold(t) == does })
	if does {
		w.tenants[tenant] = true
		a.streams.byTenant.add(tenant, w)
	} else {
		delete(w.tenants, tenant)
		a.streams.byTenant.remove(tenant, w)
	}
	for _, t := range concerned {
		if w.isTold(t) == does {
			a.hear(w, t)
		}
	}
	return true
}

// hear has a stream tell of all addresses of a tenant, of those too that it is not to be told any more.
func (a *Addresses) hear(w *addressWatch, tenant string) {
	for addr := range a.streams.addresses[tenant] {
		if p := a.current(addr); !p.Deleted && p.Tenant == tenant {
			w.hear(addr, p)
		}
	}
}

// stop ends w.
func (a *Addresses) stop(w *addressWatch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for tenant := range w.tenants {
		a.streams.byTenant.remove(tenant, w)
	}
	a.streams.byNode.remove(w.node, w)
}

// take returns what w has not told yet.
func (a *Addresses) take(w *addressWatch) map[netip.Addr]joinapi.PodAddress {
	a.mu.Lock()
	defer a.mu.Unlock()
	pending := w.pending
	w.pending = map[netip.Addr]joinapi.PodAddress{}
	return pending
}

// move takes note of a pod that was at one place and is at another. Its node is told of a tenant that comes
// at once, as the pod is about to start, and of one that has left no more after a while.
func (a *Addresses) move(was, now place) {
	if was == now {
		return
	}
	if now.node != "" {
		a.streams.count(now, 1)
		if t := a.streams.leaving[now]; t != nil {
			t.Stop()
			delete(a.streams.leaving, now)
		}
		for w := range a.streams.byNode[now.node] {
			if a.runs(w, now.tenant, true) {
				w.awake()
			}
		}
	}
	if was.node != "" && a.streams.count(was, -1) == 0 {
		a.streams.leaving[was] = time.AfterFunc(lingers, func() { a.leave(was) })
	}
}

// leave has a node be told no more of a tenant, unless it has come back.
func (a *Addresses) leave(from place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams.pods[from.node][from.tenant] > 0 {
		return
	}
	delete(a.streams.leaving, from)
	for w := range a.streams.byNode[from.node] {
		if !a.runs(w, from.tenant, false) {
			continue
		}
		for addr, n := range a.streams.news { // what it has not been told yet
			if n.were[from.tenant] || space.IsSystem(from.tenant) {
				w.hear(addr, n.now)
			}
		}
		w.awake()
	}
}

// tell hands the news to the streams: at once after a pause without changes, and else with
// what else changes until then.
func (a *Addresses) tell() {
	s := &a.streams
	if len(s.news) == 0 || s.waiting {
		return
	}
	left := s.pause() - time.Since(s.told)
	if left <= 0 {
		s.tell()
		return
	}
	s.waiting = true
	time.AfterFunc(left, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.streams.waiting = false
		a.streams.tell()
	})
}

// pause is the time between two times at which the streams are told something.
func (s *addressStreams) pause() time.Duration {
	return min(longest, time.Duration(s.woken)*perStream)
}

// tell hands the news to the streams that they concern.
func (s *addressStreams) tell() {
	if len(s.news) == 0 {
		return // they were forgotten
	}
	woken := map[*addressWatch]bool{}
	for addr, n := range s.news {
		if !n.now.Deleted {
			n.were[n.now.Tenant] = true
		}
		for tenant := range n.were {
			for w := range s.hearing(tenant) {
				w.hear(addr, n.now)
				woken[w] = true
			}
		}
	}
	for w := range woken {
		w.awake()
	}
	clear(s.news)
	s.told, s.woken = time.Now(), len(woken)
}
