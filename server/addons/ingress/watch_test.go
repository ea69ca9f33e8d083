package ingress

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// knows is what a node knows by the lines that it was told.
type knows map[string]joinapi.IngressLine

func (k knows) apply(t *testing.T, lines []joinapi.IngressLine) {
	t.Helper()
	for _, l := range lines {
		key, deleted := l.Key(), l.IsDeletion()
		if _, had := k[key]; deleted && !had {
			t.Errorf("%s is gone, and was never told", key)
		}
		if k[key] = l; deleted {
			delete(k, key)
		}
	}
	for key, l := range k {
		for _, needed := range needs(l) {
			if of, ok := k[needed]; !ok || tenantOf(&of) != tenantOf(&l) {
				t.Errorf("at the end of a batch %s needs %s, which is %+v", key, needed, of)
			}
		}
	}
}

func needs(l joinapi.IngressLine) (out []string) {
	if l.Host == nil {
		return nil
	}
	for _, p := range l.Host.Paths {
		out = append(out, "backend "+p.Backend)
	}
	if l.Host.Certificate != "" {
		out = append(out, "certificate "+l.Host.Certificate)
	}
	return out
}

func (k knows) keys() string { return strings.Join(slices.Sorted(maps.Keys(k)), ", ") }

func node(name string, labels map[string]string, addresses ...string) *corev1.Node {
	out := &corev1.Node{ObjectMeta: metaOf("/" + name)}
	out.Labels = labels
	out.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, a := range addresses {
		out.Status.Addresses = append(out.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return out
}

func excluded() map[string]string { return map[string]string{corev1.LabelNodeExcludeBalancers: "true"} }

// still is a Controller that knows everything, and does nothing by itself.
func still(nodes ...*corev1.Node) *Controller {
	c := New(Options{Pool: interning.New(), Owner: func(netip.Addr) string { return "" }})
	c.known = true
	for _, n := range nodes {
		observer{c}.seeNode(n, false)
	}
	return c
}

func watching(t *testing.T, c *Controller, node string) *Watch {
	t.Helper()
	w, ok := c.Watch(node)
	if !ok {
		t.Fatal("nothing is known")
	}
	return w
}

// secured is a space with a host, a backend and a certificate.
func secured(t *testing.T, tenant string, hosts ...string) *result {
	t.Helper()
	key := "default." + tenant
	o := ing(key+"/a", 1, tlsOf("cert"))
	for _, host := range hosts {
		rule(host, "Prefix / web:80")(o)
	}
	w := &world{ingresses: list(o), services: list(svc(key+"/web", ":80")), secrets: list(good(t, key+"/cert"))}
	return resolve(w.view(tenant))
}

func TestANodeOutOfThePoolIsToldNothing(t *testing.T) {
	c := still(node("in", nil), node("out", excluded()), node("theirs", map[string]string{"a4s.io/lb-partition": "p"}))
	c.publish("t1", secured(t, "t1", "a.x"), time.Time{})
	for name, want := range map[string]int{"in": 3, "out": 0, "theirs": 0, "nobody": 0} {
		w := watching(t, c, name)
		if lines := w.news(); len(lines) != want {
			t.Errorf("%s is told %+v", name, lines)
		}
		c.publish("t1", secured(t, "t1", "a.x"), time.Time{}) // with a new certificate
		if lines := w.news(); len(lines) != min(1, want) {
			t.Errorf("then %s is told %+v", name, lines)
		}
		w.Stop()
	}
}

func TestANodeThatLeavesThePoolForgets(t *testing.T) {
	c, k := still(node("n", nil), node("other", nil)), knows{}
	c.publish("t1", secured(t, "t1", "a.x"), time.Time{})
	w, other := watching(t, c, "n"), watching(t, c, "other")
	k.apply(t, w.news())
	other.news()
	if len(k) != 3 {
		t.Fatalf("it knows %s", k.keys())
	}
	observer{c}.seeNode(node("n", excluded()), false)
	<-w.Changed()
	lines := w.news()
	if k.apply(t, lines); len(k) != 0 || len(lines) != 3 {
		t.Errorf("out of the pool it knows %s", k.keys())
	}
	for _, l := range lines {
		if c := l.Certificate; c != nil && (c.Key != nil || c.Chain != nil) {
			t.Error("it is told the key once more")
		}
	}
	if lines := other.news(); len(lines) != 0 {
		t.Errorf("the other one is told %v", lines)
	}
	observer{c}.seeNode(node("n", nil), false)
	if k.apply(t, w.news()); len(k) != 3 {
		t.Errorf("back in the pool it knows %s", k.keys())
	}
	observer{c}.seeNode(node("n", nil), true)
	if k.apply(t, w.news()); len(k) != 0 {
		t.Errorf("deleted, it knows %s", k.keys())
	}
}

func TestChangesAreToldOnce(t *testing.T) {
	c := still(node("n", nil))
	w := watching(t, c, "n")
	if lines := w.news(); len(lines) != 0 {
		t.Errorf("of nothing it is told %v", lines)
	}
	first := secured(t, "t1", "a.x")
	c.publish("t1", first, time.Time{})
	<-w.Changed()
	if lines := w.news(); len(lines) != 3 {
		t.Errorf("it is told %v", lines)
	}
	again := *first // as resolved again: equal, and not the same
	again.hosts = map[string]*joinapi.IngressHost{"a.x": ptr(*first.hosts["a.x"])}
	c.publish("t1", &again, time.Time{})
	if len(w.Changed()) != 0 || len(w.news()) != 0 {
		t.Error("what stays as it is is told again")
	}
	c.publish("t2", secured(t, "t2", "b.x"), time.Time{})
	if lines := w.news(); len(lines) != 3 || len(w.news()) != 0 {
		t.Errorf("of another space it is told %v", lines)
	}
	c.publish("t1", resolve((&world{}).view("t1")), time.Time{})
	if lines := w.news(); len(lines) != 3 || len(w.news()) != 0 || c.results["t1"] != nil {
		t.Errorf("of the end it is told %v", lines)
	}
	w.Stop()
	<-w.Changed() // of what it has looked at already
	c.publish("t2", resolve((&world{}).view("t2")), time.Time{})
	if len(w.Changed()) != 0 {
		t.Error("one that was stopped is told")
	}
}

func ptr[T any](v T) *T { return &v }

// Servers resolve the two spaces in any order, and a node may look in between or not.
func TestAHostThatMoves(t *testing.T) {
	with, without := secured(t, "t1", "a.x", "b.x"), secured(t, "t1", "b.x")
	none, theirs := resolve((&world{}).view("t2")), secured(t, "t2", "a.x")
	keep := func(c *Controller) { c.publish("t1", with, time.Time{}) }
	giveUp := func(c *Controller) { c.publish("t1", without, time.Time{}) }
	take := func(c *Controller) { c.publish("t2", theirs, time.Time{}) }
	end := func(c *Controller) { c.publish("t2", none, time.Time{}) }
	for name, steps := range map[string][]func(c *Controller){
		"given up first": {giveUp, take},
		"taken first":    {take, giveUp},
		"and back":       {take, giveUp, keep, end, take, giveUp},
	} {
		for _, looks := range []bool{true, false} {
			c, k := still(node("n", nil)), knows{}
			w := watching(t, c, "n")
			c.publish("t1", with, time.Time{})
			k.apply(t, w.news())
			for _, step := range steps {
				if step(c); looks {
					k.apply(t, w.news())
				}
			}
			k.apply(t, w.news())
			late := knows{}
			late.apply(t, watching(t, c, "n").news())
			for who, k := range map[string]knows{"who was there": k, "who came later": late} {
				if h := k["host a.x"].Host; h == nil || h.Tenant != "t2" || k["host b.x"].Host == nil || len(k) != 6 {
					t.Errorf("%s, looked in between: %v: %s knows %s", name, looks, who, k.keys())
				}
			}
		}
	}
}

func TestAWatchEndsWithTheController(t *testing.T) {
	c := still(node("n", nil))
	w := watching(t, c, "n")
	c.reset(nil)
	<-w.Done()
	if _, ok := c.Watch("n"); ok {
		t.Error("one begins while nothing is known")
	}
	w.Stop()
}

func TestAddressesOfNodes(t *testing.T) {
	notReady := node("d", nil, "192.0.2.4")
	notReady.Status.Conditions[0].Status = corev1.ConditionFalse
	c := still(node("b", nil, "192.0.2.2"), node("a", nil, "192.0.2.1"), node("c", excluded(), "192.0.2.3"), notReady)
	balanced := func(port string, addresses ...string) *corev1.Service {
		port, udp := strings.CutSuffix(port, "/UDP")
		s := typed(svc("default.t1/lb", port), corev1.ServiceTypeLoadBalancer)
		if udp {
			over(s, corev1.ProtocolUDP)
		}
		for _, a := range addresses {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
		}
		kept, err := trimmer(interning.New())(s)
		if err != nil {
			t.Fatal(err)
		}
		return kept.(*corev1.Service)
	}
	for _, step := range []struct {
		service *corev1.Service
		deleted bool
		want    string
	}{
		{balanced(":8080", "192.0.2.1"), false, "192.0.2.1 192.0.2.2"},
		{balanced(":80", "192.0.2.1"), false, "192.0.2.2"},
		{balanced(":443", "192.0.2.1", "192.0.2.2"), false, ""},
		{balanced(":443/UDP", "192.0.2.1", "192.0.2.2"), false, "192.0.2.1 192.0.2.2"},
		{balanced(":443", "192.0.2.2"), false, "192.0.2.1"},
		{balanced(":443", "192.0.2.2"), true, "192.0.2.1 192.0.2.2"},
	} {
		observer{c}.seeService(step.service, step.deleted)
		var got []string
		for _, at := range c.nodes.addresses("") {
			got = append(got, at.IP)
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("with %v the addresses are %q, want %s", step.service.Status, got, step.want)
		}
	}
}

// TestNodesOfATenantAreToldItsHostsOnly: who breaks out of a pod of such a node reads what it was told.
func TestNodesOfATenantAreToldItsHostsOnly(t *testing.T) {
	k := newCluster(t, node("n1", nil, "192.0.2.1"), node("n2", map[string]string{"for": "t1"}, "192.0.2.2"),
		ourClass(), svc("default/web", "http:80"), svc("default.t1/web", "http:80"), svc("default.t2/web", "http:80"),
		ing("default/web", 3, rule("system.example.com", "Prefix / web:80")),
		ing("default.t1/web", 2, rule("one.example.com", "Prefix / web:80")),
		ing("default.t2/web", 1, rule("two.example.com", "Prefix / web:80")))
	c, _ := k.server()
	told := func(node string) string {
		c.mu.Lock()
		known := c.known
		c.mu.Unlock()
		if !known {
			return ""
		}
		w := watching(t, c, node)
		defer w.Stop()
		var hosts []string
		for _, line := range w.news() {
			if line.Host != nil {
				hosts = append(hosts, strings.TrimSuffix(line.Host.Name, ".example.com"))
			}
		}
		return strings.Join(hosts, " ")
	}
	const all = "one system two"
	k.await("both are told everything", func() bool { return told("n1") == all && told("n2") == all })
	w := watching(t, c, "n2")
	defer w.Stop()
	w.news()
	k.keeps.Add(1)
	var gone []string
	k.await("the node is told what it is to forget", func() bool {
		for _, line := range w.news() {
			if line.Host != nil && line.Host.Deleted {
				gone = append(gone, line.Host.Name)
			}
		}
		return strings.Join(gone, " ") == "system.example.com two.example.com"
	})
	if got := told("n2"); got != "one" {
		t.Errorf("the tenant's node is told of %q", got)
	}
	if got := told("n1"); got != all {
		t.Errorf("the other node is told of %q", got)
	}
	for key, want := range map[string]string{"default/web": "192.0.2.1", "default.t1/web": "192.0.2.1 192.0.2.2",
		"default.t2/web": "192.0.2.1"} {
		k.await(key+" has the addresses that serve it", func() bool { return k.at(key) == want })
	}
}

// news is what Next has.
func (w *Watch) news() []joinapi.IngressLine {
	lines, _ := w.Next()
	return lines
}

// TestAWatchThatEndedTellsNothing: what it would tell is that everything is gone.
func TestAWatchThatEndedTellsNothing(t *testing.T) {
	c := still(node("n", nil))
	c.publish("t1", &result{wants: []string{"a.x"},
		hosts: map[string]*joinapi.IngressHost{"a.x": {Name: "a.x", Tenant: "t1"}}}, time.Now())
	w := watching(t, c, "n")
	if lines, ok := w.Next(); len(lines) != 1 || !ok {
		t.Fatalf("the node is told %v", lines)
	}
	observer{c}.seeNode(node("n", map[string]string{"a": "b"}), false) // it has something to look at
	c.reset(nil)
	if lines, ok := w.Next(); len(lines) != 0 || ok {
		t.Errorf("the node is told %v", lines)
	}
}
