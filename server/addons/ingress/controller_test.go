package ingress

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// cluster is an API and what tests change in it.
type cluster struct {
	*fake.Clientset
	t       *testing.T
	mu      sync.Mutex
	lists   map[string][]string // spec.hosts
	follow  []func(tenant string, hosts []string)
	owners  map[string]string
	version int
	fails   []string // what fails next
	keeps   atomic.Uint64
}

func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	k := &cluster{Clientset: fake.NewClientset(objects...), t: t, lists: map[string][]string{},
		owners: map[string]string{}}
	k.PrependReactor("*", "configmaps", k.versions)
	k.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.fails) == 0 || k.fails[0] != a.GetVerb()+" "+a.GetResource().Resource {
			return false, nil, nil
		}
		k.fails = k.fails[1:]
		return true, nil, apierrors.NewInternalError(errors.ErrUnsupported)
	})
	return k
}

// versions does for ConfigMaps what the fake does not: versions of objects, conflicts, and collections.
func (k *cluster) versions(a clienttesting.Action) (bool, runtime.Object, error) {
	gvr, namespace := a.GetResource(), a.GetNamespace()
	current := func(name string) string {
		obj, err := k.Tracker().Get(gvr, namespace, name)
		if err != nil {
			return ""
		}
		return obj.(*corev1.ConfigMap).ResourceVersion
	}
	refused := func(name string) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(gvr.GroupResource(), name, nil)
	}
	switch a := a.(type) {
	case clienttesting.CreateActionImpl:
		k.version++
		a.Object.(*corev1.ConfigMap).ResourceVersion = strconv.Itoa(k.version)
	case clienttesting.UpdateActionImpl:
		o := a.Object.(*corev1.ConfigMap)
		if now := current(o.Name); now != "" && o.ResourceVersion != "" && o.ResourceVersion != now {
			return refused(o.Name)
		}
		k.version++
		o.ResourceVersion = strconv.Itoa(k.version)
	case clienttesting.DeleteActionImpl:
		p := a.DeleteOptions.Preconditions
		if now := current(a.Name); now != "" && p != nil && p.ResourceVersion != nil && *p.ResourceVersion != now {
			return refused(a.Name)
		}
	case clienttesting.DeleteCollectionActionImpl:
		list, err := k.Tracker().List(gvr, corev1.SchemeGroupVersion.WithKind("ConfigMap"), namespace)
		if err != nil {
			return true, nil, err
		}
		for _, o := range list.(*corev1.ConfigMapList).Items {
			if a.ListRestrictions.Labels.Matches(labels.Set(o.Labels)) {
				if err := k.Tracker().Delete(gvr, namespace, o.Name); err != nil {
					return true, nil, err
				}
			}
		}
		return true, nil, nil
	}
	return false, nil, nil
}

// FollowHosts implements Tenants.
func (k *cluster) FollowHosts(_ context.Context, changed func(tenant string, hosts []string)) (func(), bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for tenant, hosts := range k.lists {
		changed(tenant, hosts)
	}
	k.follow = append(k.follow, changed)
	return func() {}, true
}

// KeptFrom implements Tenants: a node with the label "for" is for the tenant that it names alone, while that is on.
func (k *cluster) KeptFrom(tenant string, node map[string]string) bool {
	return k.keeps.Load() > 0 && node["for"] != "" && node["for"] != tenant
}

// KeptVersion implements Tenants.
func (k *cluster) KeptVersion() uint64 { return k.keeps.Load() }

// setHosts changes spec.hosts of a tenant.
func (k *cluster) setHosts(tenant string, hosts ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lists[tenant] = hosts
	for _, changed := range k.follow {
		changed(tenant, hosts)
	}
}

func (k *cluster) own(address, tenant string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.owners[address] = tenant
}

func (k *cluster) owner(addr netip.Addr) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.owners[addr.String()]
}

// fail has requests fail, each once, one after the other.
func (k *cluster) fail(requests ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fails = requests
}

// start runs something until the test or stop ends it.
func (k *cluster) start(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(k.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			k.t.Error(err)
		}
	})
	k.t.Cleanup(stop)
	return stop
}

func (k *cluster) controller() *Controller {
	log := logrus.New()
	log.SetOutput(k.t.Output())
	return New(Options{Client: k, Pool: interning.New(), Tenants: k, Owner: k.owner, Keep: time.Nanosecond,
		Log: logrus.NewEntry(log)})
}

// server runs a controller that writes.
func (k *cluster) server() (c *Controller, stop func()) {
	c = k.controller()
	run := k.start(c.Run)
	lead := k.start(c.lead)
	return c, func() { lead(); run() }
}

// await waits until something holds.
func (k *cluster) await(what string, holds func() bool) {
	k.t.Helper()
	for late := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(late) {
			k.t.Fatalf("timed out until %s; claims are %q", what, k.claims())
		}
	}
}

// claims are which hosts are written down, as text.
func (k *cluster) claims() string {
	all, err := k.CoreV1().ConfigMaps(claimsNamespace).List(k.t.Context(), metav1.ListOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	h := newHolders()
	for i := range all.Items {
		if tenant, of := claimsIn(&all.Items[i]); tenant != "" {
			h.set(tenant, of)
		}
	}
	var out []string
	for _, tenant := range []string{space.System, "t1", "t2", "t3"} {
		for _, host := range sortedKeys(h.by[tenant]) {
			out = append(out, tenant+":"+host)
		}
	}
	return strings.Join(out, " ")
}

// at are the addresses in the status of an Ingress.
func (k *cluster) at(key string) string {
	namespace, name, _ := strings.Cut(key, "/")
	o, err := k.NetworkingV1().Ingresses(namespace).Get(k.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	var out []string
	for _, i := range o.Status.LoadBalancer.Ingress {
		out = append(out, i.IP)
	}
	return strings.Join(out, " ")
}

// events are the reasons of those about an Ingress.
func (k *cluster) events(key string) string {
	namespace, name, _ := strings.Cut(key, "/")
	all, err := k.CoreV1().Events(namespace).List(k.t.Context(), metav1.ListOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	out := map[string]bool{}
	for _, e := range all.Items {
		if e.InvolvedObject.Name == name && e.InvolvedObject.Kind == "Ingress" {
			out[e.Reason] = true
		}
	}
	return strings.Join(sortedKeys(out), " ")
}

// put makes an Ingress, or replaces it.
func (k *cluster) put(o *networkingv1.Ingress) {
	k.t.Helper()
	client := k.NetworkingV1().Ingresses(o.Namespace)
	was, err := client.Get(k.t.Context(), o.Name, metav1.GetOptions{})
	if err != nil {
		_, err = client.Create(k.t.Context(), o, metav1.CreateOptions{})
	} else {
		o.Status, o.CreationTimestamp = was.Status, was.CreationTimestamp
		_, err = client.Update(k.t.Context(), o, metav1.UpdateOptions{})
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *cluster) drop(key string) {
	k.t.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	if err := k.NetworkingV1().Ingresses(namespace).Delete(k.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		k.t.Fatal(err)
	}
}

// told is a node that follows a controller.
type toldNode struct {
	knows
	*Watch
	k *cluster
}

func (k *cluster) node(c *Controller, name string) *toldNode {
	n := &toldNode{knows: knows{}, k: k}
	k.await("nodes are told", func() (ok bool) {
		n.Watch, ok = c.Watch(name)
		return ok
	})
	return n
}

func (n *toldNode) await(what string, holds func() bool) {
	n.k.t.Helper()
	late := time.After(2 * time.Minute)
	for n.apply(n.k.t, n.news()); !holds(); n.apply(n.k.t, n.news()) {
		select {
		case <-n.Changed():
		case <-late:
			n.k.t.Fatalf("timed out until %s; the node knows %s", what, n.keys())
		}
	}
}

func ourClass() *networkingv1.IngressClass { return classOf(ClassName, ControllerName) }

func classOf(name, controller string) *networkingv1.IngressClass {
	return &networkingv1.IngressClass{ObjectMeta: metaOf("/" + name),
		Spec: networkingv1.IngressClassSpec{Controller: controller}}
}

func TestFromObjectsToLines(t *testing.T) {
	k := newCluster(t, node("n", nil, "192.0.2.1"), svc("default.t1/web", ":80"),
		slice("default.t1/web", 8080, "10.42.0.1"), good(t, "default.t1/cert"),
		ing("default.t1/foreign", 9, ofClass("nginx"), rule("foreign.x", "Prefix / web:80")))
	k.own("10.42.0.1", "t1")
	c, _ := k.server()
	n := k.node(c, "n")
	if lines := n.news(); len(lines) != 0 {
		t.Errorf("without an Ingress of the class a node is told %v", lines)
	}
	for _, a := range k.Actions() {
		if r := a.GetResource().Resource; r == "secrets" || r == "services" || r == "endpointslices" || r == "nodes" {
			t.Errorf("without an Ingress of the class the controller does %s of %s", a.GetVerb(), r)
		}
	}
	k.put(ing("default.t1/a", 1, rule("a.x", "Prefix / web:80"), tlsOf("cert", "a.x")))
	n.await("it serves the host", func() bool {
		h, b := n.knows["host a.x"].Host, n.knows["backend default.t1/web:80"].Backend
		return h != nil && h.Tenant == "t1" && h.Certificate == "default.t1/cert" && len(b.Endpoints) == 1
	})
	k.await("its status has the address", func() bool { return k.at("default.t1/a") == "192.0.2.1" })
	if got := k.claims(); got != "t1:a.x" || k.at("default.t1/foreign") != "" || len(n.knows) != 3 {
		t.Errorf("written down are %q, the node knows %s", got, n.keys())
	}
	if got := k.events("default.t1/a"); got != "" {
		t.Errorf("it has Events %s", got)
	}
	for _, a := range k.Actions() {
		if l, ok := a.(clienttesting.ListActionImpl); ok && a.GetResource().Resource == "secrets" &&
			l.GetListRestrictions().Fields.String() != "type=kubernetes.io/tls" {
			t.Errorf("Secrets are listed by %q", l.GetListRestrictions().Fields)
		}
	}

	// The pod is gone, and a neighbor's has its address: an EndpointSlice that nobody changed must not lead there.
	k.own("10.42.0.1", "t2")
	n.await("the endpoint is gone", func() bool {
		b := n.knows["backend default.t1/web:80"].Backend
		return b != nil && len(b.Endpoints) == 0
	})
	k.own("10.42.0.1", "t1")
	endpoints := func() int { return len(n.knows["backend default.t1/web:80"].Backend.Endpoints) }
	n.await("it is back with the pod", func() bool { return endpoints() == 1 })

	// What an Ingress depends on changes.
	if err := k.CoreV1().Secrets("default.t1").Delete(t.Context(), "cert", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.await("the certificate is gone", func() bool {
		return n.knows["host a.x"].Host.Certificate == "" && n.knows["certificate default.t1/cert"].Certificate == nil
	})
	k.await("that is said", func() bool { return k.events("default.t1/a") == reasonCertificate })
	if err := k.CoreV1().Services("default.t1").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.await("it has no endpoints", func() bool { return endpoints() == 0 })

	// The Ingress is deleted, and waits for a finalizer.
	ends := ing("default.t1/a", 1, rule("a.x", "Prefix / web:80"))
	ends.DeletionTimestamp = ptr(metav1.Now())
	ends.Finalizers = []string{"x/y"}
	k.put(ends)
	n.await("it knows nothing", func() bool { return len(n.knows) == 0 })
	k.await("the host is free", func() bool { return k.claims() == "" })
}

func TestAnIngressOfAnotherClassIsNotOurs(t *testing.T) {
	annotated := func(class string) change {
		return func(o *networkingv1.Ingress) {
			o.Spec.IngressClassName = nil
			o.Annotations = map[string]string{annotationClass: class}
		}
	}
	ended := func(o *networkingv1.Ingress) { o.DeletionTimestamp = ptr(metav1.Now()) }
	for name, c := range map[string]struct {
		change change
		want   bool
	}{
		"ours": {all(), true}, "another": {ofClass("nginx"), false}, "a class without a name": {ofClass(""), false},
		"none":                     {func(o *networkingv1.Ingress) { o.Spec.IngressClassName = nil }, false},
		"ours, in the old way":     {annotated(ClassName), true},
		"another, in the old way":  {annotated("nginx"), false},
		"the new way counts first": {all(annotated(ClassName), ofClass("nginx")), false},
		"ours, and deleted":        {ended, false},
		"one that was ours":        {ofClass("was"), false},
	} {
		classes := map[string]bool{ClassName: true, "was": false}
		if got := isOf(classes, ing("default.t1/a", 1, c.change)); got != c.want {
			t.Errorf("%s: it is ours: %v", name, got)
		}
	}
}
