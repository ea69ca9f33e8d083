package ingress

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
)

// settle has tenants decide one after the other until nothing changes, each at a later second.
func (w *world) settle(t testing.TB, clock *int64, tenants ...string) {
	t.Helper()
	for range 20 {
		news := false
		for _, tenant := range tenants {
			*clock++
			next, changed := w.holders.next(tenant, resolve(w.view(tenant)).wants, w.policy, time.Unix(*clock, 0))
			if changed {
				news = true
				w.holders.set(tenant, next)
			}
		}
		if !news {
			return
		}
	}
	t.Fatal("the tenants do not come to rest")
}

func TestWhoCameFirstKeepsAHost(t *testing.T) {
	w, clock := &world{policy: newPolicy(), holders: newHolders()}, int64(0)
	older, younger := ing("default.t1/old", 100, rule("other.x")), ing("default.t2/new", 1, rule("a.x"))
	w.ingresses = append(w.ingresses, older, younger)
	w.settle(t, &clock, "t1", "t2")
	w.ingresses[0] = ing("default.t1/old", 100, rule("a.x")) // edited; its age is as before
	w.settle(t, &clock, "t1", "t2")
	if got := w.holders.holder("a.x"); got != "t2" {
		t.Errorf("an older Ingress that was edited took the host: %q has it", got)
	}
	r := resolve(w.view("t1"))
	if len(r.taken) == 0 || len(r.hosts) != 0 || !slices.Equal(r.wants, []string{"a.x"}) || len(r.served) != 0 ||
		!strings.Contains(strings.Join(r.said(), "\n"), `HostTaken: no requests for host "a.x" are taken: another`) {
		t.Errorf("who came second has %v, wants %q and is told %q", r.show(), r.wants, r.said())
	}
	if got := w.holders.holder("other.x"); got != "" {
		t.Errorf("%q has a host that nobody wants", got)
	}
	w.ingresses = w.ingresses[:1]
	w.settle(t, &clock, "t2", "t1")
	if got := w.holders.holder("a.x"); got != "t1" {
		t.Errorf("%q has the host that was given up", got)
	}
}

// Two servers that write can say so for a moment.
func TestTheFirstOfTwoThatSayTheSame(t *testing.T) {
	at := func(s int64) claims { return claims{"a.x": time.Unix(s, 0)} }
	for _, c := range []struct {
		one, two claims
		want     string
	}{{at(1), at(2), "t1"}, {at(2), at(1), "t2"}, {at(1), at(1), "t1"}} {
		h := newHolders()
		h.set("t2", c.two)
		h.set("t1", c.one)
		loser := map[string]string{"t1": "t2", "t2": "t1"}[c.want]
		if got := h.holder("a.x"); got != c.want || taken(h, loser, "a.x", newPolicy()) != c.want {
			t.Errorf("%v, %v: %q has it, want %s", c.one, c.two, got, c.want)
		}
		kept, changed := h.next(c.want, []string{"a.x"}, newPolicy(), time.Unix(9, 0))
		if changed || len(kept) != 1 {
			t.Errorf("the first one gets %v, changed: %v", kept, changed)
		}
		lost, changed := h.next(loser, []string{"a.x"}, newPolicy(), time.Unix(9, 0))
		if !changed || len(lost) != 0 {
			t.Errorf("the second one gets %v, changed: %v", lost, changed)
		}
		h.set(loser, lost)
		if freed := h.set(c.want, nil); !slices.Equal(freed, []string{"a.x"}) || h.holder("a.x") != "" {
			t.Errorf("freed are %q, and %q has it", freed, h.holder("a.x"))
		}
	}
}

func TestAWildcardKeepsNewNamesBelowIt(t *testing.T) {
	w, clock := &world{policy: newPolicy(), holders: newHolders()}, int64(0)
	w.policy.set("t1", []string{"*.x"})
	w.policy.set("t3", []string{"named.x"})
	w.ingresses = append(w.ingresses, ing("default.t1/a", 1, rule("*.x")))
	w.settle(t, &clock, "t1")
	w.policy.set("t1", []string{"*.x", "y"}) // as before, but for the claim
	for _, c := range []struct{ tenant, host, from string }{
		{"t1", "a.x", ""}, {"t2", "a.x", "t1"}, {"t2", "b.a.x", "t1"}, {"t2", "x", ""}, {"t3", "named.x", ""},
		{"t3", "other.x", "t1"}, {space.System, "a.x", "t1"}, {"t2", "*.x", "t1"}, {"t2", "*.y", ""},
		{"t2", anyHost, ""},
	} {
		if got := taken(w.holders, c.tenant, c.host, w.policy); got != c.from {
			t.Errorf("%s does not get %q because of %q, want %q", c.tenant, c.host, got, c.from)
		}
	}
}

// Who has a name below it keeps the name when another gets the wildcard.
func TestAWildcardTakesNoName(t *testing.T) {
	h, p := newHolders(), newPolicy()
	h.set("t1", claims{"a.x": time.Unix(5, 0)})
	h.set("t2", claims{"*.x": time.Unix(1, 0)})
	if kept, changed := h.next("t1", []string{"a.x"}, p, time.Unix(9, 0)); changed || len(kept) != 1 {
		t.Errorf("it has %v", kept)
	}
}

func TestASpaceHasSoManyHosts(t *testing.T) {
	var wants []string
	for i := range mostHosts + 5 {
		wants = append(wants, fmt.Sprintf("h%d.x", i))
	}
	h, p := newHolders(), newPolicy()
	first, changed := h.next("t1", wants, p, time.Unix(1, 0))
	if !changed || len(first) != mostHosts {
		t.Fatalf("it gets %d hosts", len(first))
	}
	h.set("t1", first)
	slices.Reverse(wants) // what it has stays, whatever comes first
	if again, changed := h.next("t1", wants, p, time.Unix(2, 0)); changed || !maps.Equal(again, first) {
		t.Errorf("it gets %d hosts, changed: %v", len(again), changed)
	}
	if fewer, changed := h.next("t1", wants[:10], p, time.Unix(3, 0)); !changed || len(fewer) != 10 {
		t.Errorf("it gets %d hosts, changed: %v", len(fewer), changed)
	}
}

func TestClaimsAreReadAsTheyWereWritten(t *testing.T) {
	since := time.Date(2026, 7, 31, 12, 0, 0, 123456789, time.FixedZone("there", 7200))
	long := strings.Repeat(strings.Repeat("a", 62)+".", 4) + "x"
	want := claims{anyHost: since, "*.x": since, "a.x": since, "x": since.Add(1), "*.b.a.x": since,
		"xn--bcher-kva.x": since, long: since}
	stored := want.stored("t1", "7")
	if stored.Namespace != claimsNamespace || stored.ResourceVersion != "7" || len(stored.Data) != len(want) {
		t.Errorf("it is stored as %+v", stored)
	}
	for key := range stored.Data {
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" || len(key) > 253 || key == "" {
			t.Errorf("no ConfigMap has the key %q", key)
		}
	}
	if tenant, got := claimsIn(stored); tenant != "t1" || !maps.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("read are %v of %q", got, tenant)
	}
}

func TestClaimsThatSomebodyChanged(t *testing.T) {
	made := metav1.NewTime(time.Unix(77, 0))
	stored := claims{"a.x": time.Unix(1, 0)}.stored("t1", "")
	stored.CreationTimestamp, stored.Data["b.x"] = made, "yesterday"
	if _, got := claimsIn(stored); !got["b.x"].Equal(made.Time) || !got["a.x"].Equal(time.Unix(1, 0)) {
		t.Errorf("read are %v", got)
	}
	for name, spoil := range map[string]func(*corev1.ConfigMap){
		"without the label":      func(o *corev1.ConfigMap) { o.Labels = nil },
		"with an empty label":    func(o *corev1.ConfigMap) { o.Labels[claimsLabel] = "" },
		"of another name":        func(o *corev1.ConfigMap) { o.Name = "somebody-elses" },
		"with another in a name": func(o *corev1.ConfigMap) { o.Name = claimsPrefix + "t2" },
	} {
		foreign := stored.DeepCopy()
		spoil(foreign)
		if tenant, got := claimsIn(foreign); tenant != "" || got != nil {
			t.Errorf("a ConfigMap %s is that of %q: %v", name, tenant, got)
		}
	}
}

func TestOnlyTheClusterLearnsWhoHasAHost(t *testing.T) {
	for _, c := range []struct{ viewer, holder, want string }{
		{"t1", "t2", "another space has it"}, {"t1", space.System, "another space has it"},
		{space.System, "t2", "tenant t2 has it"},
	} {
		if got := about(c.viewer, c.holder); got != c.want {
			t.Errorf("%s learns of %s: %q", c.viewer, c.holder, got)
		}
	}
}

// TestHostsHaveOneHolder: whatever three tenants do with their Ingresses, a host has one holder, who keeps it as
// long as it wants it, and none only if nobody wants it who may have it.
func TestHostsHaveOneHolder(t *testing.T) {
	tenants := []string{"t1", "t2", "t3", space.System}
	hosts := []string{"a.x", "b.x", "*.x", "a.y", "y", anyHost, "*.a.y", "b.a.y"}
	lists := [][]string{nil, nil, {"*"}, {"*.x"}, {"a.x", "*.y"}, {"b.a.y"}}
	for seed := range uint64(60) {
		d := rand.New(rand.NewPCG(seed, 1))
		w, clock := &world{policy: newPolicy(), holders: newHolders()}, int64(0)
		for _, tenant := range tenants[:3] {
			w.policy.set(tenant, lists[d.IntN(len(lists))])
		}
		for step := range 40 {
			w.mutate(d, tenants, hosts)
			before := map[string]string{}
			for _, host := range hosts {
				before[host] = w.holders.holder(host)
			}
			d.Shuffle(len(tenants), func(i, j int) { tenants[i], tenants[j] = tenants[j], tenants[i] })
			w.settle(t, &clock, tenants...)
			for _, wrong := range w.wrong(tenants, before) {
				t.Fatalf("seed %d, step %d: %s", seed, step, wrong)
			}
		}
	}
}

// mutate makes, changes or deletes an Ingress.
func (w *world) mutate(d *rand.Rand, tenants, hosts []string) {
	n := d.IntN(3 * len(tenants))
	namespace := "default"
	if tenant := slices.Sorted(slices.Values(tenants))[n/3]; tenant != space.System {
		namespace += "." + tenant
	}
	key := fmt.Sprintf("%s/i%d", namespace, n)
	at := slices.IndexFunc(w.ingresses, func(o *networkingv1.Ingress) bool { return ingressKey(o) == key })
	next := ing(key, d.IntN(1000))
	if at >= 0 {
		next.CreationTimestamp = w.ingresses[at].CreationTimestamp
		w.ingresses = slices.Delete(w.ingresses, at, at+1)
		if d.IntN(3) == 0 {
			return
		}
	}
	for range d.IntN(3) + 1 {
		rule(hosts[d.IntN(len(hosts))], "Prefix / web:80")(next)
	}
	w.ingresses = append(w.ingresses, next)
}

// wrong says which of the rules do not hold. before is who had which host.
func (w *world) wrong(tenants []string, before map[string]string) (out []string) {
	for host, of := range w.holders.of {
		if len(of) > 1 {
			out = append(out, fmt.Sprintf("%q is of %v", host, of))
		}
	}
	for _, tenant := range tenants {
		r := resolve(w.view(tenant))
		for _, host := range r.wants {
			holder := w.holders.holder(host)
			if before[host] == tenant && holder != tenant {
				out = append(out, fmt.Sprintf("%q lost %q to %q", tenant, host, holder))
			}
			if holder == "" && taken(w.holders, tenant, host, w.policy) == "" {
				out = append(out, fmt.Sprintf("%q wants %q, which nobody has", tenant, host))
			}
			if (r.hosts[host] != nil) != (holder == tenant) {
				out = append(out, fmt.Sprintf("%q is served for %q, and of %q", host, tenant, holder))
			}
		}
		for host := range w.holders.by[tenant] {
			if !slices.Contains(r.wants, host) {
				out = append(out, fmt.Sprintf("%q keeps %q, which it does not want", tenant, host))
			}
		}
	}
	return out
}

func taken(h *holders, tenant, host string, p *policy) string {
	who, _ := h.takenFrom(tenant, host, p)
	return who
}
