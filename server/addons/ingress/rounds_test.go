package ingress

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// TestASliceThatBecomesAnothersLeavesItsService: its addresses must not stay with nodes when nobody looks at the
// slice any more.
func TestASliceThatBecomesAnothersLeavesItsService(t *testing.T) {
	k := newCluster(t, ourClass(), node("n", nil, "192.0.2.1"), svc("default.t1/web", ":80"),
		slice("default.t1/web", 8080, "10.42.0.1"), ing("default.t1/a", 1, rule("a.x", "Prefix / web:80")))
	k.own("10.42.0.1", "t1")
	c, _ := k.server()
	n := k.node(c, "n")
	const backend = "backend default.t1/web:80"
	endpoints := func() int {
		if line, ok := n.knows[backend]; ok {
			return len(line.Backend.Endpoints)
		}
		return -1
	}
	n.await("the address is told", func() bool { return endpoints() == 1 })
	other := slice("default.t1/web", 8080, "10.42.0.1")
	other.Labels[discoveryv1.LabelServiceName] = "nobody"
	if _, err := k.DiscoveryV1().EndpointSlices("default.t1").Update(t.Context(), other,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.await("the address is gone", func() bool { return endpoints() == 0 })
}

// TestWhatChangesWhileASpaceIsResolved may have been read before.
func TestWhatChangesWhileASpaceIsResolved(t *testing.T) {
	c := newCluster(t).controller()
	uses := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.dirty = map[string]bool{}
		observer{c}.uses(object{kindService, "default.t1", "web"})
		return c.dirty["t1"]
	}
	if uses() {
		t.Error("a space is resolved for a Service that it does not use")
	}
	v := c.view("t1")
	if !uses() {
		t.Error("a Service that comes meanwhile is missed")
	}
	c.publish("t1", resolve(v), time.Time{})
	if uses() {
		t.Error("it is resolved for ever")
	}
}

// TestNothingIsToldWhileAddressesAreUnknown: endpoints of tenants would be nobody's.
func TestNothingIsToldWhileAddressesAreUnknown(t *testing.T) {
	k := newCluster(t, ourClass(), ing("default.t1/a", 1, rule("a.x", "Prefix / web:80")))
	c := k.controller()
	var owned, asked atomic.Bool
	c.Owned = func() bool { asked.Store(true); return owned.Load() }
	k.start(c.Run)
	k.await("the controller waits", asked.Load)
	if _, ok := c.Watch("n"); ok {
		t.Error("nodes are told something")
	}
	owned.Store(true)
	k.await("nodes are told", func() bool { _, ok := c.Watch("n"); return ok })
	owned.Store(false)
	c.mu.Lock()
	c.dirty["t1"] = true
	c.mu.Unlock()
	if again := c.round(); again == 0 || !c.dirty["t1"] {
		t.Errorf("a space is resolved, again in %s", again)
	}
}

// TestASpaceThatTakesLongRests: others come first.
func TestASpaceThatTakesLongRests(t *testing.T) {
	c := newCluster(t).controller()
	c.dirty = map[string]bool{"slow": true, "other": true}
	c.rests = map[string]time.Time{"slow": time.Now().Add(time.Hour), "other": time.Now().Add(-time.Hour)}
	dirty, again := c.take()
	if !maps.Equal(dirty, map[string]bool{"other": true}) || !c.dirty["slow"] || again < time.Minute {
		t.Errorf("%v are resolved, %v later, in %s", dirty, c.dirty, again)
	}
	if _, rests := c.rests["other"]; rests {
		t.Error("it is not forgotten that a space has rested")
	}
}

// leaderOf is one that has written down what is held.
func leaderOf(k *cluster, keep time.Duration, held *holders) *Leader {
	c := k.controller()
	c.Keep, c.known, c.classes, c.holders = keep, true, map[string]bool{ClassName: true}, held
	l := &Leader{writer: writer{k, c.Log}, c: c, held: held, version: map[string]string{},
		wrote: map[string]time.Time{}, left: map[string]map[string]time.Time{}}
	l.claims = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Second))
	k.t.Cleanup(l.claims.ShutDown)
	return l
}

// TestAHostStaysForAMoment with who had it: an Ingress is often deleted and made again.
func TestAHostStaysForAMoment(t *testing.T) {
	k, held := newCluster(t), newHolders()
	held.set("t1", claims{"a.x": time.Unix(1, 0)})
	l := leaderOf(k, time.Minute, held)
	for _, c := range []struct {
		at      int64
		wants   []string
		policy  []string // of t2
		has     bool
		changed bool
	}{
		{100, []string{"a.x"}, nil, true, false}, {110, nil, nil, true, false}, {160, nil, nil, true, false},
		{165, []string{"a.x"}, nil, true, false}, {170, nil, nil, true, false}, {229, nil, nil, true, false},
		{231, nil, nil, false, true}, {240, nil, []string{"a.x"}, false, true},
	} {
		l.c.policy.set("t2", c.policy)
		l.c.results = map[string]*result{"t1": {wants: c.wants}}
		next, changed, _ := l.next("t1", time.Unix(c.at, 0))
		if _, has := next["a.x"]; has != c.has || changed != c.changed {
			t.Errorf("at %d it has %v, changed: %v", c.at, next, changed)
		}
	}
}

// TestNothingIsFreedWithoutAClass: somebody replaces it.
func TestNothingIsFreedWithoutAClass(t *testing.T) {
	k, held := newCluster(t), newHolders()
	held.set("t1", claims{"a.x": time.Unix(1, 0)})
	l := leaderOf(k, time.Nanosecond, held)
	later := time.Unix(100, 0)
	l.next("t1", later)
	if next, changed, _ := l.next("t1", later.Add(time.Hour)); !changed || len(next) != 0 {
		t.Errorf("a host that nobody wants stays: %v", next)
	}
	l.c.classes = map[string]bool{ClassName: false, "other": false}
	if _, changed, _ := l.next("t1", later.Add(time.Hour)); changed {
		t.Error("a host is given up because the class is away")
	}
}

func TestWhoWaitsForAHost(t *testing.T) {
	w := &world{policy: newPolicy(), holders: newHolders()}
	w.holders.set("t2", claims{"a.x": time.Unix(1, 0), "*.y": time.Unix(1, 0), "c.x": time.Unix(1, 0)})
	w.ingresses = append(w.ingresses, ing("default.t1/a", 1, rule("a.x"), rule("c.b.y"), rule("mine.x")))
	r := resolve(w.view("t1"))
	for host, want := range map[string]bool{"a.x": true, "*.y": true, "*.b.y": false, "c.b.y": false, "mine.x": false,
		"c.x": false, "": false} {
		if r.waitsFor([]string{"else", host}) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
}

// TestBoundsOfASpaceTogether: what one Service or Ingress may have does not multiply.
func TestBoundsOfASpaceTogether(t *testing.T) {
	w := &world{owners: map[string]string{}}
	ingress := ing("default.t1/a", 1)
	for i := range mostBackends + 5 {
		name := fmt.Sprintf("s%d", i)
		rule("a.x", fmt.Sprintf("Prefix /%d %s:80", i, name))(ingress)
		w.services = append(w.services, svc("default.t1/"+name, ":80"))
	}
	for i := range mostInAll/mostEndpoints + 5 {
		var all []string
		for j := range mostEndpoints {
			all = append(all, fmt.Sprintf("10.%d.%d.%d", i, j/250, j%250))
			w.owners[all[j]] = "t1"
		}
		w.slices = append(w.slices, slice(fmt.Sprintf("default.t1/s%d", i), 8080, all...))
	}
	for range mostEntries + 5 {
		tlsOf("missing")(ingress)
	}
	w.ingresses = append(w.ingresses, ingress)
	r := resolve(w.view("t1"))
	endpoints := 0
	for _, b := range r.backends {
		endpoints += len(b.Endpoints)
	}
	if endpoints != mostInAll || len(r.backends) > mostBackends+1 {
		t.Errorf("%d endpoints of %d backends", endpoints, len(r.backends))
	}
	said := strings.Join(r.said(), "\n")
	for _, want := range []string{"ports of Services together", "entries of spec.tls together",
		"too many endpoints"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing says %q: %s", want, said)
		}
	}
	if wrong := r.sound("t1"); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
	many := ing("default.t1/many", 1)
	for i := range 3 * mostProblems {
		rule("b.x", fmt.Sprintf("Prefix /%d none%d:80", i, i))(many)
	}
	r = resolve((&world{ingresses: list(many)}).view("t1"))
	if n := len(r.problems["default.t1/many"]); n != mostProblems {
		t.Errorf("%d problems are said", n)
	}
}

func TestAStatusHasSoManyAddresses(t *testing.T) {
	nodes := newTakers(nil)
	for i := range mostAddresses + 10 {
		nodes.set(node(fmt.Sprintf("n%d", i), nil, fmt.Sprintf("192.0.2.%d", i)), false)
	}
	changed := nodes.choose("")
	if n := len(nodes.addresses("")); n != mostAddresses || len(changed) != mostAddresses+10 {
		t.Errorf("%d addresses, and %d nodes changed", n, len(changed))
	}
	nodes.set(node("n3", map[string]string{"node.kubernetes.io/exclude-from-external-load-balancers": ""},
		"192.0.2.3"), false)
	nodes.set(node("n4", nil, "192.0.2.204"), false)
	if changed := slices.Collect(maps.Keys(nodes.choose(""))); !slices.Equal(changed, []string{"n3"}) {
		t.Errorf("%v are told anew", changed)
	}
}

// TestANodeWithoutPortsHasNoAddress: it says so itself, and is told of hosts even so.
func TestANodeWithoutPortsHasNoAddress(t *testing.T) {
	const key = "default.t1/a"
	without := node("n2", nil, "192.0.2.2")
	without.Status.Conditions = append(without.Status.Conditions, corev1.NodeCondition{Type: joinapi.NodeTakesIngress,
		Status: corev1.ConditionFalse})
	k := newCluster(t, ourClass(), node("n1", nil, "192.0.2.1"), without, ing(key, 1, rule("a.x", "Prefix / web:80")))
	c, _ := k.server()
	k.await("it has the address of the other", func() bool { return k.at(key) == "192.0.2.1" })
	w := watching(t, c, "n2")
	defer w.Stop()
	if len(w.news()) == 0 {
		t.Error("the node is told of nothing, and would not try again")
	}
	without = without.DeepCopy()
	without.Status.Conditions = without.Status.Conditions[:1]
	if _, err := k.CoreV1().Nodes().Update(t.Context(), without, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.await("it has both", func() bool { return k.at(key) == "192.0.2.1 192.0.2.2" })
}

// TestAnIngressThatLeavesTheClassLosesItsAddresses, but not those that another controller gave.
func TestAnIngressThatLeavesTheClassLosesItsAddresses(t *testing.T) {
	const key = "default.t1/a"
	k := newCluster(t, ourClass(), node("n", nil, "192.0.2.1"), ing(key, 1, rule("a.x", "Prefix / web:80")))
	k.server()
	k.await("it is served", func() bool { return k.at(key) == "192.0.2.1" })
	other := ing(key, 1, ofClass("nginx"), rule("a.x", "Prefix / web:80"))
	k.put(other)
	k.await("it has no address", func() bool { return k.at(key) == "" })
	other.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "203.0.113.1"}}
	if _, err := k.NetworkingV1().Ingresses("default.t1").Update(t.Context(), other,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.put(ing("default.t1/b", 1, rule("b.x", "Prefix / web:80")))
	k.await("another one is served", func() bool { return k.at("default.t1/b") == "192.0.2.1" })
	if at := k.at(key); at != "203.0.113.1" {
		t.Errorf("what another controller gave is %q", at)
	}
}

func TestCertificatesForTheVeryNameComeFirst(t *testing.T) {
	w := &world{secrets: list(good(t, "default.t1/all"), good(t, "default.t1/below"), good(t, "default.t1/exact")),
		ingresses: one(rule("a.x", "Prefix / web:80"), rule("b.x", "Prefix / web:80"), rule("c.y", "Prefix / web:80"),
			tlsOf("all"), tlsOf("below", "*.x"), tlsOf("exact", "a.x"))}
	r := resolve(w.view("t1"))
	for host, want := range map[string]string{"a.x": "exact", "b.x": "below", "c.y": "all"} {
		if got := r.hosts[host].Certificate; got != "default.t1/"+want {
			t.Errorf("%s has the certificate %q, want %s", host, got, want)
		}
	}
}

// TestAHostThatIsRenamedIsFreed: looks that come sooner do not take the last one away.
func TestAHostThatIsRenamedIsFreed(t *testing.T) {
	k := newCluster(t, ourClass(), ing("default.t1/a", 1, rule("a.x", "Prefix / web:80")))
	c := k.controller()
	c.Keep = 100 * time.Millisecond
	k.start(c.Run)
	k.start(c.lead)
	k.await("it has a.x", func() bool { return k.claims() == "t1:a.x" })
	k.put(ing("default.t1/a", 1, rule("b.x", "Prefix / web:80")))
	k.await("it has b.x alone", func() bool { return k.claims() == "t1:b.x" })
}

// TestAFreedHostWhileTheClassIsAway: what nobody looked at then is looked at when it is back.
func TestAFreedHostWhileTheClassIsAway(t *testing.T) {
	k := newCluster(t, ourClass(), ing("default.t1/a", 1, rule("a.x", "Prefix / web:80")))
	k.server()
	k.await("it has a.x", func() bool { return k.claims() == "t1:a.x" })
	classes := k.NetworkingV1().IngressClasses()
	if err := classes.Delete(t.Context(), ClassName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.drop("default.t1/a")
	k.put(ing("default.t2/b", 1, rule("b.x", "Prefix / web:80")))
	if _, err := classes.Create(t.Context(), ourClass(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.await("t2 has its host, and t1 none", func() bool { return k.claims() == "t2:b.x" })
}

// TestASpaceIsReadToABound: ports times endpoints times paths are not gone through.
func TestASpaceIsReadToABound(t *testing.T) {
	w := &world{owners: map[string]string{}}
	service, big, ingress := svc("default.t1/web"), slice("default.t1/web", 1), ing("default.t1/a", 1)
	big.Ports = nil
	for i := range 2000 {
		name, port := fmt.Sprintf("p%d", i), int32(i+1)
		service.Spec.Ports = append(service.Spec.Ports, svc("x/x", fmt.Sprintf("%s:%d", name, i+1)).Spec.Ports...)
		big.Ports = append(big.Ports, discoveryv1.EndpointPort{Name: &name, Port: &port})
		rule("a.x", fmt.Sprintf("Prefix /%d web:%s", i, name))(ingress)
	}
	for i := range 1000 {
		address := fmt.Sprintf("10.1.%d.%d", i/250, i%250)
		w.owners[address] = "t1"
		big.Endpoints = append(big.Endpoints, slice("x/x", 1, address).Endpoints...)
	}
	w.services, w.ingresses = list(service), list(ingress)
	for i := range 30 {
		more := big.DeepCopy()
		more.Name = fmt.Sprintf("web-%d", i)
		w.slices = append(w.slices, more)
	}
	asked := 0
	v := w.view("t1")
	owns := v.owns
	v.owns = func(addr netip.Addr) bool { asked++; return owns(addr) }
	r := resolve(v)
	if asked > 30*1000 || len(r.addresses) != 1000 {
		t.Errorf("%d times the owner of an address was asked for, of %d", asked, len(r.addresses))
	}
	if wrong := r.sound("t1"); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
	many := ing("default.t1/many", 1)
	for i := range mostLooked + 10 {
		rule(fmt.Sprintf("h%d.x", i))(many)
	}
	looked := 0
	v = (&world{ingresses: list(many)}).view("t1")
	v.refuse = func(string) string { looked++; return "it is not for you" }
	if r := resolve(v); looked != mostLooked || len(r.problems["default.t1/many"]) > mostProblems {
		t.Errorf("%d hosts were looked at", looked)
	}
}
