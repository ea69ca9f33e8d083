package controllers

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// TestControllersOfNodesAreApart: upstream still has each, and none is lost or twice.
func TestControllersOfNodesAreApart(t *testing.T) {
	all := app.NewControllerDescriptors()
	others, nodes := split(all)
	if len(nodes) != len(ofNodes()) || len(others)+len(nodes) != len(all) {
		t.Errorf("%d and %d of %d controllers", len(others), len(nodes), len(all))
	}
	for name := range nodes {
		if others[name] != nil {
			t.Errorf("%s is on both sides", name)
		}
	}
}

// TestSelectedNodes: the controllers of nodes see own nodes, by the informers that
// upstream's constructors ask for, and share all other informers.
func TestSelectedNodes(t *testing.T) {
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "own"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "copy",
			Labels: map[string]string{"a4s.io/resource-partition": "b"}}})
	f := informers.NewSharedInformerFactory(client, 0)
	cc := app.ControllerContext{ResyncPeriod: func() time.Duration { return 0 }}
	keep := cache.TransformFunc(func(obj any) (any, error) { return obj, nil })
	s := selectNodes(client, f, cc, keep, "!a4s.io/resource-partition")
	var factory informers.SharedInformerFactory = s
	own, every := factory.Core().V1().Nodes(), f.Core().V1().Nodes()
	_, _ = own.Informer(), every.Informer()
	if factory.Core().V1().Pods().Informer().GetIndexer() != f.Core().V1().Pods().Informer().GetIndexer() {
		t.Error("pods have informers of their own")
	}
	for _, f := range []informers.SharedInformerFactory{f, s.nodes} {
		f.Start(t.Context().Done())
		f.WaitForCacheSync(t.Context().Done())
	}
	for want, lister := range map[string]interface {
		List(labels.Selector) ([]*corev1.Node, error)
	}{"own": own.Lister(), "copy,own": every.Lister()} {
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
}

func join(names []string) string {
	out := names[0]
	for _, name := range names[1:] {
		out += "," + name
	}
	return out
}
