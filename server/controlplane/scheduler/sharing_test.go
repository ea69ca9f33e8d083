package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// TestObjectsAreThoseOfTheControllers: of what there is much of, the scheduler keeps no copy of its own.
func TestObjectsAreThoseOfTheControllers(t *testing.T) {
	node := func() *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "7"}}
	}
	pool := interning.New()
	kept := func(f informers.SharedInformerFactory) any {
		informer := f.Core().V1().Nodes().Informer()
		f.Start(t.Context().Done())
		f.WaitForCacheSync(t.Context().Done())
		obj, found, err := informer.GetIndexer().GetByKey("n")
		if err != nil || !found {
			t.Fatalf("no node: %v", err)
		}
		return obj
	}
	controllers := kept(informers.NewSharedInformerFactoryWithOptions(fake.NewClientset(node()), 0,
		informers.WithTransform(pool.Transform)))
	ours := informers.NewSharedInformerFactory(fake.NewClientset(node()), 0)
	if err := shareObjects(ours, pool); err != nil {
		t.Fatal(err)
	}
	if got := kept(ours); got != controllers {
		t.Errorf("%p is not %p", got, controllers)
	}
}
