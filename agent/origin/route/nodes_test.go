package route

import (
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/tests/partitiontest"
)

// follow keeps a store as flannel does, with the names of all nodes.
func follow(t *testing.T, api kubernetes.Interface) (names func() []string) {
	t.Helper()
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(api.CoreV1().RESTClient(), "nodes", "", fields.Everything()),
		ObjectType:    &corev1.Node{}, Handler: cache.ResourceEventHandlerFuncs{},
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		controller.RunWithContext(t.Context())
	}()
	t.Cleanup(func() { <-done })
	return func() []string {
		got := store.ListKeys()
		slices.Sort(got)
		return got
	}
}

func nodeCalled(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// TestNodesOfTheCluster: the partition of the node has no others, so one with tenants tells them,
// and another one when it is away.
func TestNodesOfTheCluster(t *testing.T) {
	c := newCluster(t, Options{})
	c.rp.Put(t, "nodes", nodeCalled(nodeName))
	for _, name := range []string{nodeName, "of-home"} {
		c.home.Put(t, "nodes", nodeCalled(name))
		c.tp2.Put(t, "nodes", nodeCalled(name))
	}
	names := follow(t, c.api)
	is := func(want ...string) {
		t.Helper()
		eventually(t, func() bool { return slices.Equal(names(), want) }, func() any { return names() })
	}
	is(nodeName, "of-home")
	if asked := c.rp.Asked("GET", "/api/v1/nodes"); len(asked) > 0 {
		t.Errorf("a partition was asked that does not know all: %v", asked)
	}
	c.home.Put(t, "nodes", nodeCalled("of-tp3"))
	is(nodeName, "of-home", "of-tp3")

	// Another one, which has other versions and knows one more and one less.
	c.tp2.Put(t, "nodes", nodeCalled("of-tp2"))
	c.home.Away.Store(true)
	c.home.HangUp()
	is(nodeName, "of-home", "of-tp2")
	c.tp2.Put(t, "nodes", nodeCalled("of-tp4"))
	is(nodeName, "of-home", "of-tp2", "of-tp4")
	if asked := c.tp2.Asked("GET", "/api/v1/nodes"); asked[0].Query.Get("resourceVersion") != "" {
		t.Errorf("it was asked for a version of another partition: %v", asked[0])
	}
	// And back.
	c.home.Away.Store(false)
	c.tp2.Away.Store(true)
	c.tp2.HangUp()
	is(nodeName, "of-home", "of-tp3")
}

// TestNodesForTwoClients: versions that a client has are of the partition that gave it its list,
// whichever gave another client one since.
func TestNodesForTwoClients(t *testing.T) {
	c := newCluster(t, Options{})
	for _, s := range []*partitiontest.Server{c.home, c.tp2} {
		s.Put(t, "nodes", nodeCalled("n"))
	}
	client := func() kubernetes.Interface {
		api, err := kubernetes.NewForConfig(&rest.Config{Host: "http://origin", QPS: -1,
			Transport: origin.New(c.Through(c.rp.Transport()), origin.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		return api
	}
	first, second := client(), client()
	list, err := first.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.home.Away.Store(true)
	if _, err := second.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	c.home.Away.Store(false)
	w, err := first.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, a := range c.tp2.Asked("GET", "/api/v1/nodes") {
		if a.Query.Get("watch") != "" && a.Query.Get("resourceVersion") == list.ResourceVersion &&
			a.Query.Get("fieldSelector") == "" {
			t.Error("a partition was asked for the version of another")
		}
	}
}

// TestNodesByTheOwnPartition: one with tenants has copies of all nodes.
func TestNodesByTheOwnPartition(t *testing.T) {
	c := newCluster(t, Options{})
	main, own := c.home.Partition(true), c.tp2.Partition(false)
	own.Node = true
	c.directory.set(main, own)
	eventually(t, func() bool { return c.table.Load().node != c.Router.node }, func() any { return "not known" })
	c.tp2.Put(t, "nodes", nodeCalled("n2"))
	names := follow(t, c.api)
	eventually(t, func() bool { return slices.Equal(names(), []string{"n2"}) }, func() any { return names() })
	if asked := c.home.Asked("GET", "/api/v1/nodes"); len(asked) > 0 {
		t.Errorf("another partition was asked: %v", asked)
	}
}

// TestServiceRanges are those of all partitions, which have equal names.
func TestServiceRanges(t *testing.T) {
	c := newCluster(t, Options{})
	ranges := func(cidr string) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
			Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}}
	}
	c.home.Put(t, "servicecidrs", ranges("10.43.0.0/16"))
	c.tp2.Put(t, "servicecidrs", ranges("10.44.0.0/16"))
	all := func() []string {
		list, err := c.api.NetworkingV1().ServiceCIDRs().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return []string{err.Error()}
		}
		var out []string
		for _, r := range list.Items {
			out = append(out, r.Name+"="+r.Spec.CIDRs[0])
		}
		slices.Sort(out)
		return out
	}
	want := []string{"kubernetes.tp2.system.tenant=10.44.0.0/16", "kubernetes=10.43.0.0/16"}
	eventually(t, func() bool { return slices.Equal(all(), want) }, func() any { return all() })
}

// TestServicesForTheProxy: it sees all Services, which the kubelet does not.
func TestServicesForTheProxy(t *testing.T) {
	c := newCluster(t, Options{})
	service := func(namespace, name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	for _, s := range []*partitiontest.Server{c.home, c.tp2} {
		s.Put(t, "services", service("default", "kubernetes"))
	}
	c.tp2.Put(t, "services", service("default.t2", "kubernetes"))
	names := func(api kubernetes.Interface) []string {
		list, err := api.CoreV1().Services("").List(t.Context(), metav1.ListOptions{
			FieldSelector: "spec.clusterIP!=None", LabelSelector: "!service.kubernetes.io/service-proxy-name"})
		if err != nil {
			return []string{err.Error()}
		}
		var out []string
		for _, s := range list.Items {
			out = append(out, s.Namespace+"/"+s.Name)
		}
		slices.Sort(out)
		return out
	}
	want := []string{"default.t2/kubernetes", "default.tp2.system/kubernetes", "default/kubernetes"}
	asked := 0
	proxy, err := kubernetes.NewForConfig(&rest.Config{Host: "http://origin",
		Transport: origin.Plain(c.Through(roundTripper(func(r *http.Request) (*http.Response, error) {
			asked++
			return c.rp.Transport().RoundTrip(r)
		})))})
	if err != nil {
		t.Fatal(err)
	}
	c.rp.Put(t, "nodes", nodeCalled(nodeName))
	if _, err := proxy.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{}); err != nil || asked != 1 {
		t.Errorf("about the node it asks %d times by its own way: %v", asked, err)
	}
	eventually(t, func() bool { return slices.Equal(names(proxy), want) }, func() any { return names(proxy) })
	if got := names(c.api); !slices.Equal(got, want[1:]) {
		t.Errorf("the kubelet sees %v", got)
	}
}
