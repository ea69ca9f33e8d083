package controllers

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/a4s-io/a4s/server/controlplane/controllers/gate"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// TestControllersOfNodesAreApart: upstream still has each, and none is lost or twice.
func TestControllersOfNodesAreApart(t *testing.T) {
	all := app.NewControllerDescriptors()
	others, nodes := split(all, ofNodes())
	if len(nodes) != len(ofNodes()) || len(others)+len(nodes) != len(all) {
		t.Errorf("%d and %d of %d controllers", len(others), len(nodes), len(all))
	}
	for name := range nodes {
		if others[name] != nil {
			t.Errorf("%s is on both sides", name)
		}
	}
}

// TestCopiesAreNotSeen: the controllers of nodes see own nodes, by the informers, listers
// and lists that upstream's constructors ask for, and share the informers with all others.
func TestCopiesAreNotSeen(t *testing.T) {
	const label = "a4s.io/resource-partition"
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "own"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "copy", Labels: map[string]string{label: "b"}}})
	f := informers.NewSharedInformerFactory(client, 0)
	cc := withoutCopies(app.ControllerContext{InformerFactory: f, ClientBuilder: builder{client: client}}, label)
	seen, every := cc.InformerFactory.Core().V1().Nodes(), f.Core().V1().Nodes()
	events := make(chan string, 10)
	tell := func(what string) func(any) {
		return func(obj any) { events <- what + " " + obj.(*corev1.Node).Name }
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: tell("add"), DeleteFunc: tell("delete"),
		UpdateFunc: func(_, obj any) { tell("update")(obj) }}
	for _, add := range []func() (cache.ResourceEventHandlerRegistration, error){
		func() (cache.ResourceEventHandlerRegistration, error) {
			return seen.Informer().AddEventHandler(handler)
		},
		func() (cache.ResourceEventHandlerRegistration, error) {
			return seen.Informer().AddEventHandlerWithResyncPeriod(handler, 0)
		},
		func() (cache.ResourceEventHandlerRegistration, error) {
			return seen.TypedInformer().AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
		},
	} {
		if _, err := add(); err != nil {
			t.Fatal(err)
		}
	}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	for range 3 {
		if e := <-events; e != "add own" {
			t.Errorf("got event %q", e)
		}
	}
	for want, lister := range map[string]interface {
		List(labels.Selector) ([]*corev1.Node, error)
	}{"own": seen.Lister(), "copy,own": every.Lister()} {
		list, err := lister.List(labels.Everything())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range list {
			got = append(got, n.Name)
		}
		slices.Sort(got)
		if len(got) == 0 || want != join(got) {
			t.Errorf("%v, want %s", got, want)
		}
	}
	if _, err := seen.Lister().Get("copy"); !apierrors.IsNotFound(err) {
		t.Errorf("the copy is found: %v", err)
	}
	if keys := seen.Informer().GetIndexer().ListKeys(); !slices.Equal(keys, []string{"own"}) {
		t.Errorf("keys %v", keys)
	}
	listing, err := cc.NewClient("node-controller")
	if err != nil {
		t.Fatal(err)
	}
	list, err := listing.CoreV1().Nodes().List(t.Context(),
		metav1.ListOptions{LabelSelector: labels.Everything().String()})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "own" {
		t.Errorf("%v, %v", list, err)
	}
	// What becomes of copies is nothing to them, and a node in the place of one is new.
	if err := client.CoreV1().Nodes().Delete(t.Context(), "copy", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "copy"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if e := <-events; e != "add copy" {
			t.Errorf("got event %q", e)
		}
	}
}

type builder struct {
	gate.Builder
	client kubernetes.Interface
}

func (b builder) Client(string) (kubernetes.Interface, error) { return b.client, nil }

// TestApart: what lets upstream make the informers is refused where there are copies.
func TestApart(t *testing.T) {
	for arg, fits := range map[string]bool{"": true, "node-monitor-grace-period=1m": true, "secure-port=10257": false,
		"leader-elect=true": false} {
		o := Options{Pool: interning.New()}
		if arg != "" {
			o.Args = []string{arg}
		}
		if err := Apart(o); (err == nil) != fits {
			t.Errorf("%q: %v", arg, err)
		}
	}
}

func join(names []string) string {
	out := names[0]
	for _, name := range names[1:] {
		out += "," + name
	}
	return out
}

// TestRangesThatCannotBeHad: a node with one, which would end all controllers, is shown to the
// controller of ranges without it.
func TestRangesThatCannotBeHad(t *testing.T) {
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "good"},
			Spec: corev1.NodeSpec{PodCIDR: "10.42.1.0/24", PodCIDRs: []string{"10.42.1.0/24"}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "outside"},
			Spec: corev1.NodeSpec{PodCIDR: "192.0.2.0/24", PodCIDRs: []string{"192.0.2.0/24"}}})
	in, err := NodeRanges(Options{ClusterCIDR: "10.42.0.0/16", ServiceCIDR: "10.43.0.0/16"})
	if err != nil || len(in) != 1 || in[0].Bits != 24 {
		t.Fatalf("%v, %v", in, err)
	}
	cc := withFitRanges(app.ControllerContext{ClientBuilder: builder{client: client}}, in,
		logrus.NewEntry(logrus.StandardLogger()))
	c, err := cc.ClientBuilder.Client("x")
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, n := range list.Items {
		got[n.Name] = len(n.Spec.PodCIDRs)
	}
	if len(got) != 2 || got["good"] != 1 || got["outside"] != 0 {
		t.Errorf("%v", got)
	}
}

// TestNodeRanges follows what users say to the controller of ranges.
func TestNodeRanges(t *testing.T) {
	for args, want := range map[string]string{
		"": "[{10.42.0.0/16 24}]", "node-cidr-mask-size=25": "[{10.42.0.0/16 25}]",
		"node-cidr-mask-size-ipv4=26": "[{10.42.0.0/16 26}]", "allocate-node-cidrs=false": "[]",
	} {
		o := Options{ClusterCIDR: "10.42.0.0/16", ServiceCIDR: "10.43.0.0/16"}
		if args != "" {
			o.Args = []string{args}
		}
		if got, err := NodeRanges(o); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v", args, got, err)
		}
	}
}
