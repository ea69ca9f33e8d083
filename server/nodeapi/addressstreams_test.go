package nodeapi

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
)

// knowing returns addresses that are known to be all there are.
func knowing() *Addresses {
	a := NewAddresses(nil)
	a.synced = true
	return a
}

// heard is a stream and what its reader knows.
type heard struct {
	*addressWatch
	of    *Addresses
	known map[string]string
}

func (a *Addresses) listen(t testing.TB, node string) *heard {
	t.Helper()
	w, ok := a.watch(node)
	if !ok {
		t.Fatal("no stream")
	}
	return &heard{w, a, map[string]string{}}
}

// read takes in what the stream tells now, and returns how much it was.
func (h *heard) read() (n int) {
	select {
	case <-h.wake:
	default:
	}
	for _, p := range h.of.take(h.addressWatch) {
		n++
		if p.Deleted {
			delete(h.known, p.IP)
		} else {
			h.known[p.IP] = p.Tenant
		}
	}
	return n
}

func (h *heard) want(t *testing.T, when string, want map[string]string) {
	t.Helper()
	h.read()
	if !maps.Equal(h.known, want) {
		t.Errorf("%s the node knows %v, want %v", when, h.known, want)
	}
}

// TestNodesAreToldOfTheirTenants: a node has the addresses of the tenants whose pods it runs, and of the system's.
// Those of a tenant that comes are there at once, since its pod is about to start, and stay for a while when it goes.
func TestNodesAreToldOfTheirTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := knowing()
		a.set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
			Spec: corev1.NodeSpec{PodCIDRs: []string{"10.42.1.0/24"}}})
		a.set(podAt("kube-system", "dns", "10.42.2.2", on("n2")))
		a.set(podAt("default.t1", "here", "10.42.1.5", on("n1")))
		a.set(podAt("web.t1", "there", "10.42.2.5", on("n2")))
		a.set(podAt("default.t2", "there", "10.42.2.6", on("n2")))
		want := map[string]string{"10.42.1.0": "system", "10.42.1.1": "system", "10.42.2.2": "system",
			"10.42.1.5": "t1", "10.42.2.5": "t1"}
		h := a.listen(t, "n1")
		h.want(t, "at first", want)

		a.set(podAt("default.t2", "more", "10.42.2.7", on("n2")))
		synctest.Wait()
		if n := h.read(); n != 0 {
			t.Errorf("it was told %d addresses of a tenant that has no pod there", n)
		}
		// The pod is bound, and has no address yet.
		bound := podAt("default.t2", "here", "", on("n1"))
		a.set(bound)
		if len(h.wake) != 1 {
			t.Error("it is not told at once of a tenant that comes")
		}
		want["10.42.2.6"], want["10.42.2.7"] = "t2", "t2"
		h.want(t, "with a pod of t2", want)

		a.unset(bound)
		time.Sleep(lingers - time.Second)
		h.want(t, "soon after it went", want)
		a.set(bound)
		time.Sleep(time.Hour)
		h.want(t, "when it came back", want)
		a.unset(bound)
		// Addresses go while the node is still told of the tenant; it is not any more when others are.
		time.Sleep(lingers - perStream/2)
		a.set(podAt("default.t2", "last", "10.42.2.8", on("n2")))
		a.unset(podAt("default.t2", "more", "10.42.2.7", on("n2")))
		time.Sleep(2 * lingers)
		delete(want, "10.42.2.6")
		delete(want, "10.42.2.7")
		h.want(t, "when it was gone for a while", want)

		// Pods of the system are to be kept from all tenants, unless everybody may reach them.
		a.set(podAt("kube-system", "open", "10.42.1.8", on("n1"), func(p *corev1.Pod) {
			p.Annotations = map[string]string{space.Shared: "true"}
		}))
		want["10.42.1.8"] = "system"
		h.want(t, "with a shared pod of the system", want)
		operator := podAt("kube-system", "operator", "10.42.1.9", on("n1"))
		a.set(operator)
		all := maps.Clone(want)
		all["10.42.1.9"], all["10.42.2.6"], all["10.42.2.8"] = "system", "t2", "t2"
		time.Sleep(longest) // its own address waits for others
		if n := h.read(); n != 3 {
			t.Errorf("with another pod of the system it was told %d addresses, of which it did not know 3", n)
		}
		h.want(t, "with another pod of the system", all)
		a.unset(operator)
		time.Sleep(2 * lingers)
		h.want(t, "when that was gone for a while", want)

		// The address goes to a tenant that has no pod there.
		a.unset(podAt("web.t1", "there", "10.42.2.5", on("n2")))
		a.set(podAt("default.t2", "new", "10.42.2.5", on("n2")))
		time.Sleep(longest)
		delete(want, "10.42.2.5")
		h.want(t, "when an address became another tenant's", want)

		a.stop(h.addressWatch)
		if len(a.streams.byNode)+len(a.streams.byTenant) != 0 {
			t.Errorf("left of the stream: %v, %v", a.streams.byNode, a.streams.byTenant)
		}
	})
}

// TestStreamsTellWhatThereIs: whatever pods and nodes do, each node knows in the end the addresses that concern it,
// and no others.
func TestStreamsTellWhatThereIs(t *testing.T) {
	for seed := range 200 {
		synctest.Test(t, func(t *testing.T) {
			r, a := rand.New(rand.NewPCG(uint64(seed), 0)), knowing()
			names := []string{"n0", "n1", "n2"}
			node := func(i int) *corev1.Node {
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: names[i]},
					Spec: corev1.NodeSpec{PodCIDRs: []string{fmt.Sprintf("10.42.%d.0/28", i)}}}
			}
			pods := map[string]*corev1.Pod{}
			var streams []*heard
			for range 120 {
				switch n := r.IntN(20); {
				case n == 0:
					a.set(node(r.IntN(len(names))))
				case n == 1:
					a.unset(node(r.IntN(len(names))))
				case n == 2:
					streams = append(streams, a.listen(t, names[r.IntN(len(names))]))
				case n == 3 && len(streams) > 0:
					i := r.IntN(len(streams))
					a.stop(streams[i].addressWatch)
					streams = append(streams[:i], streams[i+1:]...)
				case n == 4:
					time.Sleep(time.Duration(r.IntN(int(2 * lingers))))
				case n < 9:
					for key, p := range pods {
						a.unset(p)
						delete(pods, key)
						break
					}
				default:
					at := r.IntN(len(names))
					name := fmt.Sprint("p", r.IntN(8))
					namespace := []string{"default.t1", "web.t1", "default.t2", "default.t3", "default"}[r.IntN(5)]
					ip := ""
					if r.IntN(4) > 0 {
						ip = fmt.Sprintf("10.42.%d.%d", at, 2+r.IntN(4))
					}
					p := podAt(namespace, name, ip, on(names[at]))
					pods[namespace+"/"+name] = p
					a.set(p)
				}
				if len(streams) > 0 && r.IntN(3) == 0 {
					streams[r.IntN(len(streams))].read()
				}
			}
			time.Sleep(2*lingers + longest)
			for _, h := range streams {
				want := map[string]string{}
				runs := map[string]bool{}
				for _, p := range pods {
					if tenant, _ := space.SplitNamespace(p.Namespace); p.Spec.NodeName == h.node {
						runs[tenant] = true
					}
				}
				for addr := range a.claims {
					p := a.current(addr)
					if !p.Deleted && (p.Tenant == space.System || runs[p.Tenant] || runs[space.System]) {
						want[p.IP] = p.Tenant
					}
				}
				h.want(t, fmt.Sprintf("seed %d, node %s: in the end", seed, h.node), want)
				a.stop(h.addressWatch)
			}
			for _, p := range pods {
				a.unset(p)
			}
			for i := range names {
				a.unset(node(i))
			}
			time.Sleep(2 * lingers)
			s := &a.streams
			if n := len(s.byNode) + len(s.byTenant) + len(s.pods) + len(s.addresses) + len(s.news) + len(a.owned) +
				len(a.claims) + len(a.ranges); n != 0 {
				t.Errorf("seed %d: left: %+v, %v, %v", seed, s, a.owned, a.claims)
			}
		})
	}
}

// TestManyStreamsAreToldTogether: the first change is told at once, and those that follow are
// told together, after a time that grows with the streams that they concern.
func TestManyStreamsAreToldTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, pods = 1000, 50
		a := knowing()
		var all []*heard
		for i := range streams {
			node := fmt.Sprint("n", i)
			a.set(podAt("default.t1", node, "", on(node)))
			all = append(all, a.listen(t, node))
		}
		other := a.listen(t, "other")
		told := func() (n int) {
			for _, h := range all {
				n += h.read()
			}
			return n
		}
		told()
		a.set(podAt("default.t1", "first", "10.42.0.1", on("n0")))
		if got := told(); got != streams {
			t.Errorf("%d of %d streams were told the first address at once", got, streams)
		}
		for i := range pods {
			a.set(podAt("default.t1", fmt.Sprint("p", i), fmt.Sprintf("10.42.1.%d", i), on("n0")))
			time.Sleep(time.Millisecond)
		}
		a.unset(podAt("default.t1", "p0", "10.42.1.0", on("n0")))
		if got := told(); got != 0 {
			t.Errorf("%d addresses were told before others could come", got)
		}
		if got := a.listen(t, "n1").read(); got != pods {
			t.Errorf("a stream that begins meanwhile is told %d addresses, want %d", got, pods)
		}
		time.Sleep(streams * perStream)
		if got := told(); got != streams*pods {
			t.Errorf("%d addresses were told together, want %d", got, streams*pods)
		}
		if got := other.read(); got != 0 {
			t.Errorf("a node without a pod of the tenant was told %d", got)
		}
		// Nobody is told anything of what was forgotten.
		a.set(podAt("default.t1", "last", "10.42.2.1", on("n0")))
		a.reset()
		time.Sleep(longest)
		if got := told(); got != 0 {
			t.Errorf("%d addresses were told after all was forgotten", got)
		}
		if got := a.streams.pause(); got != 0 {
			t.Errorf("without streams a change waits %s", got)
		}
	})
}

// TestTenantsThatComeAndGoAreCheap: a tenant whose pods come and go at a node has it told of the tenant once.
func TestTenantsThatComeAndGoAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const addresses = 1000
		a := knowing()
		for i := range addresses {
			a.set(podAt("default.t2", fmt.Sprint("p", i), fmt.Sprintf("10.42.%d.%d", 2+i/200, 2+i%200), on("n2")))
		}
		h := a.listen(t, "n1")
		lines := 0
		for i := range 300 {
			p := podAt("default.t2", fmt.Sprint("f", i), "", on("n1"))
			a.set(p)
			lines += h.read()
			time.Sleep(300 * time.Millisecond)
			a.unset(p)
			time.Sleep(800 * time.Millisecond)
			lines += h.read()
		}
		if lines != addresses {
			t.Errorf("%d lines, want %d", lines, addresses)
		}
	})
}

// TestTenantsThatLeaveDoNotHurryOthers: what is told of other tenants goes on waiting for more.
func TestTenantsThatLeaveDoNotHurryOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 200 // changes wait for 40 ms
		a := knowing()
		var all []*heard
		for i := range streams {
			node := fmt.Sprint("n", i)
			a.set(podAt("default.t1", node, "", on(node)))
			all = append(all, a.listen(t, node))
		}
		for i := range 1000 {
			p := podAt("default.hostile", fmt.Sprint("p", i), "", on(fmt.Sprint("n", i%streams)))
			a.set(p)
			a.unset(p)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(lingers - time.Second)
		for _, h := range all {
			h.read()
		}
		told := 0
		for i := range 1000 {
			a.set(podAt("default.t1", fmt.Sprint("new", i), fmt.Sprintf("10.42.%d.%d", 2+i/200, 2+i%200), on("n1")))
			time.Sleep(time.Millisecond)
			for _, h := range all {
				if len(h.wake) > 0 && h.read() > 0 {
					told++
				}
			}
		}
		if most := streams * 27; told > most {
			t.Errorf("streams told something %d times in a second, want at most %d", told, most)
		}
	})
}

// BenchmarkAddressStreams is what it takes to tell 2,000 streams of a pod that gets its address and goes, where all
// pods are of one tenant, so that all nodes are told all of them, and of 200, each on ten nodes.
func BenchmarkAddressStreams(b *testing.B) {
	const streams = 2000
	for _, tenants := range []int{1, 200} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			a := knowing()
			var all []*heard
			for i := range streams {
				node := fmt.Sprint("n", i)
				ip := fmt.Sprintf("10.%d.%d.2", i/256, i%256)
				a.set(podAt(fmt.Sprint("default.t", i%tenants), node, ip, on(node)))
				all = append(all, a.listen(b, node))
			}
			lines, i := 0, 0
			for _, h := range all {
				h.read()
			}
			for b.Loop() {
				i++
				pod := podAt(fmt.Sprint("default.t", i%tenants), "pod", fmt.Sprintf("10.%d.%d.3", i/256%8, i%256),
					on(fmt.Sprint("n", i%streams)))
				for _, change := range []func(any){a.set, a.unset} {
					change(pod)
					a.mu.Lock()
					a.streams.tell()
					a.mu.Unlock()
					for _, h := range all {
						if len(h.wake) > 0 {
							lines += h.read()
						}
					}
				}
			}
			b.ReportMetric(float64(lines)/float64(b.N), "lines/op")
		})
	}
}
