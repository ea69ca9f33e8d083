package ingress

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/internal/space"
)

func pick[T any](d *rand.Rand, of ...T) T { return of[d.IntN(len(of))] }

// chaos has objects with the same names in all spaces, and slices with the addresses of everybody.
func chaos(d *rand.Rand, certificates []*corev1.Secret) *world {
	w := &world{owners: map[string]string{}, policy: newPolicy(), holders: newHolders()}
	namespaces := []string{"default.t1", "other.t1", "default.t2", "default", "kube-system"}
	addresses := []string{"192.0.2.1", "169.254.169.254"}
	for i, tenant := range []string{"t1", "t1", "t2", "t2", space.System, ""} {
		address := fmt.Sprintf("10.42.0.%d", i)
		w.owners[address] = tenant
		addresses = append(addresses, address, "::ffff:"+address)
	}
	w.policy.set("t1", pick(d, nil, []string{"*"}, []string{"*.x", "a.y"}))
	w.policy.set("t2", pick(d, nil, []string{"*"}, []string{"*.y"}))
	hosts := []string{"a.x", "b.x", "*.x", "a.y", anyHost}
	for _, namespace := range namespaces {
		for _, name := range []string{"web", "api"} {
			if d.IntN(4) > 0 {
				s := svc(namespace+"/"+name, pick(d, ":80", "http:80", "https:443"))
				w.services = append(w.services, typed(s, pick(d, corev1.ServiceTypeClusterIP,
					corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP)))
			}
			for range d.IntN(3) {
				s := slice(namespace+"/"+name, 8080, pick(d, "", "-", "~")+pick(d, addresses...),
					pick(d, addresses...))
				w.slices = append(w.slices, called(s, pick(d, "", "", "http", "https")))
			}
			if d.IntN(3) > 0 {
				secret := pick(d, certificates...).DeepCopy()
				secret.ObjectMeta = metaOf(namespace + "/" + name)
				w.secrets = append(w.secrets, secret)
			}
		}
		for i := range d.IntN(4) {
			o := ing(fmt.Sprintf("%s/i%d", namespace, i), d.IntN(5))
			for range d.IntN(4) {
				path := pick(d, "Prefix", "Exact", "ImplementationSpecific") + " " + pick(d, "/", "/a", "/a/b/")
				rule(pick(d, hosts...), path+" "+pick(d, "web", "api", "gone", "web.default.t2", "../t2/web")+":"+
					pick(d, "80", "http", "443"))(o)
			}
			if d.IntN(3) == 0 || len(o.Spec.Rules) == 0 {
				otherwise(pick(d, "web:80", "api:443"))(o)
			}
			for range d.IntN(3) {
				tlsOf(pick(d, "web", "api", "", "gone"), pick(d, [][]string{nil, {"a.x"}, {"*.x", "a.y"}}...)...)(o)
			}
			w.ingresses = append(w.ingresses, o)
		}
		w.gateways = append(w.gateways, tlsGateway(namespace+"/web", pick(d, "", "", "*.x")))
		for i := range d.IntN(3) {
			route := tlsRoute(fmt.Sprintf("%s/r%d", namespace, i), d.IntN(5), pick(d, hosts...), pick(d, hosts...))
			for range d.IntN(3) {
				tlsTo(route, pick(d, "web", "api", "gone", "web.default.t2"), pick(d, "", "", "other", "default",
					"default.t2", "kube-system"), pick[int32](d, 80, 443), pick[int32](d, 1, 0, 3))
			}
			w.tlsRoutes = append(w.tlsRoutes, route)
		}
	}
	return w
}

// TestNothingOfATenantNamesAnother: whatever there is, lines of a tenant are made of what is the tenant's.
func TestNothingOfATenantNamesAnother(t *testing.T) {
	certificates := []*corev1.Secret{good(t, "x/1"), good(t, "x/2"), secretOf("x/3", []byte("no"), []byte("no"))}
	hosts, endpoints, chains, passed, tenants := 0, 0, 0, 0, []string{"t1", "t2", space.System}
	for seed := range uint64(800) {
		d := rand.New(rand.NewPCG(seed, 2))
		w, clock := chaos(d, certificates), int64(0)
		w.settle(t, &clock, pick(d, tenants, []string{space.System, "t2", "t1"})...)
		said := map[string]string{} // whose lines name what
		for _, tenant := range tenants {
			r := resolve(w.view(tenant))
			hosts, chains = hosts+len(r.hosts), chains+len(r.certificates)
			for _, wrong := range r.sound(tenant) {
				t.Errorf("seed %d, %s: %s", seed, tenant, wrong)
			}
			for key := range linesOf(r) {
				if other, ok := said[key]; ok {
					t.Errorf("seed %d: %s and %s have %s", seed, tenant, other, key)
				}
				said[key] = tenant
			}
			for _, h := range r.hosts {
				if h.Passthrough != nil && len(h.Passthrough.Split) > 0 {
					passed++
				}
			}
			for id, b := range r.backends {
				for _, e := range b.Endpoints {
					endpoints++
					if tenant != space.System && w.owners[e.Addr().String()] != tenant {
						t.Errorf("seed %d: %s has requests go to %s by %s", seed, tenant, e, id)
					}
				}
			}
			for id, c := range r.certificates {
				namespace, name, _ := strings.Cut(id, "/")
				if of := named(w.secrets, namespace, name); string(of.Data[corev1.TLSPrivateKeyKey]) != string(c.Key) {
					t.Errorf("seed %d: %s has the key of another", seed, id)
				}
			}
			for _, text := range r.said() {
				named := strings.Contains(text, "tenant t") || strings.Contains(text, "system has")
				if tenant != space.System && named {
					t.Errorf("seed %d: %s learns who has a host: %s", seed, tenant, text)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
	if hosts < 500 || endpoints < 100 || chains < 100 || passed < 100 {
		t.Errorf("there were only %d hosts, %d endpoints, %d certificates and %d hosts whose connections are passed "+
			"on: this shows little", hosts, endpoints, chains, passed)
	}
}

// The same objects give the same lines, in whatever order they come.
func TestTheOrderOfObjectsSaysNothing(t *testing.T) {
	certificates := []*corev1.Secret{good(t, "x/1")}
	for seed := range uint64(50) {
		d := rand.New(rand.NewPCG(seed, 3))
		w := chaos(d, certificates)
		first := resolve(w.view("t1"))
		d.Shuffle(len(w.ingresses), func(i, j int) { w.ingresses[i], w.ingresses[j] = w.ingresses[j], w.ingresses[i] })
		d.Shuffle(len(w.tlsRoutes), func(i, j int) { w.tlsRoutes[i], w.tlsRoutes[j] = w.tlsRoutes[j], w.tlsRoutes[i] })
		d.Shuffle(len(w.slices), func(i, j int) { w.slices[i], w.slices[j] = w.slices[j], w.slices[i] })
		p := newPublished()
		p.replace(nil, first)
		watch := &Watch{dirty: map[string]bool{}, wake: make(chan struct{}, 1)}
		p.watches[watch] = true
		if p.replace(first, resolve(w.view("t1"))); len(watch.dirty) != 0 || len(watch.wake) != 0 {
			t.Fatalf("seed %d: news are %v", seed, watch.dirty)
		}
	}
}
