package ingress

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func TestTheClass(t *testing.T) {
	is := func(class *networkingv1.IngressClass) *networkingv1.IngressClass {
		class.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
		return class
	}
	for name, c := range map[string]struct {
		there      *networkingv1.IngressClass
		controller string
		isDefault  bool
	}{
		"the only one":                      {nil, ControllerName, true},
		"beside one that is not default":    {classOf("nginx", "k8s.io/nginx"), ControllerName, false},
		"beside the default one":            {is(classOf("nginx", "k8s.io/nginx")), ControllerName, false},
		"there already, as somebody has it": {ourClass(), ControllerName, false},
		"another controller's":              {classOf(ClassName, "k8s.io/nginx"), "k8s.io/nginx", false},
	} {
		t.Run(name, func(t *testing.T) {
			k := newCluster(t)
			if c.there != nil {
				k = newCluster(t, c.there)
			}
			w := writer{k, logrus.NewEntry(logrus.New())}
			for range 2 {
				if err := w.ensureClass(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			class, err := k.NetworkingV1().IngressClasses().Get(t.Context(), ClassName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if is := class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true"; is != c.isDefault ||
				class.Spec.Controller != c.controller {
				t.Errorf("it is %+v, default: %v", class.Spec, is)
			}
		})
	}
}

// The Ingresses of a class that is of another controller are not ours, whatever its name.
func TestAClassOfAnotherControllerIsLeftAlone(t *testing.T) {
	k := newCluster(t, classOf(ClassName, "k8s.io/nginx"), classOf("mine", ControllerName),
		node("n", nil, "192.0.2.1"), svc("default.t1/web", ":80"),
		ing("default.t1/a", 2, rule("a.x", "Prefix / web:80")),
		ing("default.t1/b", 1, ofClass("mine"), rule("b.x", "Prefix / web:80")))
	c, _ := k.server()
	n := k.node(c, "n")
	n.await("it serves the Ingress of the other name", func() bool { return n.knows["host b.x"].Host != nil })
	k.await("its status is written", func() bool { return k.at("default.t1/b") == "192.0.2.1" })
	if k.at("default.t1/a") != "" || n.knows["host a.x"].Host != nil || k.claims() != "t1:b.x" {
		t.Errorf("the node knows %s, written down are %q", n.keys(), k.claims())
	}
}

func TestHostsOfTenants(t *testing.T) {
	k := newCluster(t, ourClass(), node("n", nil, "192.0.2.1"), svc("default.t1/web", ":80"),
		svc("default.t2/web", ":80"), ing("default.t1/a", 9, rule("a.x", "Prefix / web:80")))
	c, _ := k.server()
	n := k.node(c, "n")
	n.await("t1 has the host", func() bool { return n.knows["host a.x"].Host != nil })
	// One that is older, as the API says, came later.
	k.put(ing("default.t2/b", 99, rule("a.x", "Prefix / web:80"), rule("b.x", "Prefix / web:80")))
	n.await("t2 has the other host", func() bool { return n.knows["host b.x"].Host != nil })
	k.await("t2 learns that it does not get both", func() bool { return k.events("default.t2/b") == reasonTaken })
	if h := n.knows["host a.x"].Host; h.Tenant != "t1" || k.claims() != "t1:a.x t2:b.x" {
		t.Errorf("it is of %s; claims are %q", h.Tenant, k.claims())
	}
	k.await("both have addresses", func() bool { return k.at("default.t1/a") != "" && k.at("default.t2/b") != "" })

	// It is given up, and the next one has it.
	k.drop("default.t1/a")
	n.await("t2 has the host", func() bool {
		h := n.knows["host a.x"].Host
		return h != nil && h.Tenant == "t2"
	})
	if got := k.claims(); got != "t2:a.x t2:b.x" {
		t.Errorf("claims are %q", got)
	}

	// The administrator gives it to t1: it is taken from t2.
	k.put(ing("default.t1/a", 1, rule("a.x", "Prefix / web:80")))
	k.await("t1 learns that it does not get it",
		func() bool { return strings.Contains(k.events("default.t1/a"), reasonTaken) })
	k.setHosts("t1", "*.x")
	n.await("t1 has the host", func() bool {
		h := n.knows["host a.x"].Host
		return h != nil && h.Tenant == "t1" && n.knows["host b.x"].Host == nil
	})
	k.await("t2 has none, and its Ingress no address", func() bool {
		return k.at("default.t2/b") == "" && k.claims() == "t1:a.x" &&
			k.events("default.t2/b") == "HostNotAllowed HostTaken"
	})
	k.setHosts("t1")
	n.await("t2 has its other host again", func() bool { return n.knows["host b.x"].Host != nil })
	k.await("its Ingress has an address again", func() bool { return k.at("default.t2/b") == "192.0.2.1" })
}

func TestStatusFollowsNodes(t *testing.T) {
	k := newCluster(t, ourClass(), node("a", nil, "192.0.2.1"), node("b", nil, "192.0.2.2"),
		svc("default.t1/web", ":80"), ing("default.t1/a", 1, rule("a.x", "Prefix / web:80")))
	k.server()
	const key = "default.t1/a"
	k.await("it has both addresses", func() bool { return k.at(key) == "192.0.2.1 192.0.2.2" })
	lb := typed(svc("default.t2/lb", ":443"), corev1.ServiceTypeLoadBalancer)
	lb.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	if _, err := k.CoreV1().Services("default.t2").Create(t.Context(), lb, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.await("a Service has one of them", func() bool { return k.at(key) == "192.0.2.2" })
	if _, err := k.CoreV1().Nodes().Update(t.Context(), node("b", excluded(), "192.0.2.2"),
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.await("the other one takes none", func() bool { return k.at(key) == "" && k.events(key) == "NoAddress" })
	if err := k.CoreV1().Services("default.t2").Delete(t.Context(), "lb", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.await("it has the first one back", func() bool { return k.at(key) == "192.0.2.1" })
}

// written are the actions that change something, but for Events.
func (k *cluster) written() (out []string) {
	for _, a := range k.Actions() {
		if v := a.GetVerb(); v != "list" && v != "watch" && v != "get" && a.GetResource().Resource != "events" {
			out = append(out, v+" "+a.GetResource().Resource+" "+a.GetNamespace())
		}
	}
	return out
}

func TestAnotherLeaderChangesNothing(t *testing.T) {
	k := newCluster(t, node("n", nil, "192.0.2.1"), svc("default.t1/web", ":80"), svc("default/web", ":80"),
		ing("default.t1/a", 1, rule("a.x", "Prefix / web:80")), ing("default.t2/b", 9, rule("a.x", "Prefix / web:80")),
		ing("default/all", 1, otherwise("web:80"), rule("*.y")))
	_, stop := k.server()
	var before string
	k.await("all is written", func() bool {
		before = k.claims()
		return k.at("default/all") == "192.0.2.1" &&
			(k.at("default.t1/a") == "192.0.2.1") != (k.at("default.t2/b") != "")
	})
	stop()
	stored := k.stored()
	k.ClearActions()
	c, _ := k.server()
	n := k.node(c, "n")
	n.await("it tells what the first one told", func() bool { return n.knows["host a.x"].Host != nil })
	k.await("it has looked at all", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.leader != nil && c.known && c.leader.claims.Len() == 0 && c.leader.statuses.Len() == 0
	})
	// What it writes now, it writes after all before.
	k.put(ing("default.t3/c", 1, rule("c.x")))
	k.await("it writes", func() bool { return strings.Contains(k.claims(), "t3:c.x") })
	got := k.written()
	want := []string{"create ingresses default.t3", "create configmaps kube-system"}
	if !slices.Equal(got, want) {
		t.Errorf("it did %q, want %q", got, want)
	}
	for tenant, of := range k.stored() {
		if tenant != "t3" && !maps.EqualFunc(of, stored[tenant], time.Time.Equal) {
			t.Errorf("%s has %v, and had %v", tenant, of, stored[tenant])
		}
	}
	if after := strings.TrimSuffix(k.claims(), " t3:c.x"); after != before || len(stored) != 2 {
		t.Errorf("claims are %q, and were %q", after, before)
	}
}

// stored is what is written down by tenants.
func (k *cluster) stored() map[string]claims {
	all, err := k.CoreV1().ConfigMaps(claimsNamespace).List(k.t.Context(), metav1.ListOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	out := map[string]claims{}
	for i := range all.Items {
		if tenant, of := claimsIn(&all.Items[i]); tenant != "" {
			out[tenant] = of
		}
	}
	return out
}

// What is written down of a tenant without Ingresses is freed, whether there are Ingresses of others or none.
func TestHostsThatNobodyWantsAreFreed(t *testing.T) {
	for name, more := range map[string][]runtime.Object{
		"no Ingress at all":     nil,
		"an Ingress of another": {ing("default.t1/a", 1, rule("a.x", "Prefix / web:80"))},
	} {
		t.Run(name, func(t *testing.T) {
			stale := claims{"a.x": time.Unix(1, 0), "b.x": time.Unix(1, 0)}.stored("t2", "1")
			k := newCluster(t, append(more, ourClass(), node("n", nil, "192.0.2.1"), stale)...)
			c := k.controller()
			// The leader looks before the controller knows anything.
			k.start(c.lead)
			k.await("the leader has looked", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.leader != nil && c.leader.claims.Len() == 0
			})
			k.start(c.Run)
			k.await("t2 has no host", func() bool { return !strings.Contains(k.claims(), "t2") })
			if len(more) > 0 {
				k.await("t1 has it", func() bool {
					return k.claims() == "t1:a.x" && k.at("default.t1/a") == "192.0.2.1"
				})
			}
		})
	}
}

// An administrator can delete what is written down, or change it: it is written again by who wants what.
func TestWhatSomebodyDeletedIsWrittenAgain(t *testing.T) {
	k := newCluster(t, ourClass(), node("n", nil, "192.0.2.1"), ing("default.t1/a", 1, rule("a.x", "Prefix / web:80")))
	c, _ := k.server()
	n := k.node(c, "n")
	n.await("t1 has the host", func() bool { return n.knows["host a.x"].Host != nil })
	client, name := k.CoreV1().ConfigMaps(claimsNamespace), claimsPrefix+"t1"
	was, err := client.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	version := was.ResourceVersion
	if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.await("it is written again", func() bool {
		now, err := client.Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && now.ResourceVersion != version
	})
	n.await("t1 has the host again", func() bool { return n.knows["host a.x"].Host != nil })
	foreign, err := client.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	foreign.Data["gone.x"] = foreign.Data["a.x"]
	if _, err := client.Update(t.Context(), foreign, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.await("a host that it does not want is freed", func() bool { return k.claims() == "t1:a.x" })
	k.put(ing("default.t1/a", 1, rule("b.x", "Prefix / web:80")))
	k.await("it gets others as before", func() bool { return k.claims() == "t1:b.x" })
}

// A status that is of another Ingress of that name by now is no error, another failure is.
func TestAStatusThatIsNotWritten(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"gone":    {apierrors.NewNotFound(networkingv1.Resource("ingresses"), "a"), true},
		"another": {apierrors.NewConflict(networkingv1.Resource("ingresses"), "a", nil), true},
		"failed":  {apierrors.NewInternalError(errors.ErrUnsupported), false},
	} {
		k := newCluster(t)
		const want = `{"metadata":{"uid":"default.t1/a"},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`
		k.PrependReactor("patch", "ingresses", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if p := a.(clienttesting.PatchActionImpl); p.Subresource != "status" ||
				string(p.Patch) != want {
				t.Errorf("the patch of %q is %s", p.Subresource, p.Patch)
			}
			return true, nil, c.err
		})
		w := writer{k, logrus.NewEntry(logrus.New())}
		err := w.writeStatus(t.Context(), ing("default.t1/a", 1), []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}})
		if (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRemovalTakesEverythingBack(t *testing.T) {
	foreign := ing("default.t1/foreign", 1, ofClass("nginx"), rule("b.x"))
	foreign.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "198.51.100.1"}}
	other := &corev1.ConfigMap{ObjectMeta: metaOf(claimsNamespace + "/other")}
	k := newCluster(t, node("n", nil, "192.0.2.1"), foreign, other, classOf("nginx", "k8s.io/nginx"),
		ing("default.t1/a", 1, rule("a.x", "Prefix / web:80")), ing("default/a", 1, otherwise("web:80")))
	_, stop := k.server()
	k.await("all is written", func() bool { return k.at("default.t1/a") != "" && k.at("default/a") != "" })
	stop()
	// What fails is tried again, and nothing is forgotten on the way.
	k.fail("patch ingresses", "delete-collection configmaps", "delete ingressclasses")
	for range 3 {
		ready := false
		if err := Removal(Options{Client: k}).Run(t.Context(), func() { ready = true }); err == nil || ready {
			t.Errorf("it is ready: %v, %v, and should have failed: %q", ready, err, k.fails)
		}
	}
	for range 2 { // a second time there is nothing to do
		if err := (writer{client: k}).takeBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		if k.at("default.t1/a") != "" || k.at("default/a") != "" || k.at("default.t1/foreign") != "198.51.100.1" ||
			k.claims() != "" {
			t.Errorf("left are %s, %s, %q", k.at("default.t1/a"), k.at("default/a"), k.claims())
		}
		classes, err := k.NetworkingV1().IngressClasses().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(classes.Items) != 1 || classes.Items[0].Name != "nginx" {
			t.Errorf("classes are %v, %v", classes, err)
		}
		_, err = k.CoreV1().ConfigMaps(claimsNamespace).Get(t.Context(), "other", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
		}
	}
}
