package charts

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/server/addons/charts/reconcile"
)

// TestWhatIsWatchedIsReadAgain: a HelmChart that the API says is not there, though its watch has not told of an end,
// is asked for again. Else nobody would look at it until it changes.
func TestWhatIsWatchedIsReadAgain(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	known := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: reconcile.Charts().GroupVersion().String(), Kind: "HelmChart"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "watched"},
	}
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Hour, time.Hour))
	t.Cleanup(queue.ShutDown)
	c := &controller{queue: queue,
		watches: newWatches(t.Context(), metadatafake.NewSimpleMetadataClient(scheme, known), queue, all)}
	c.Objects = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{reconcile.Charts(): "HelmChartList"})
	c.Watches = c.watches
	t.Cleanup(c.watches.wait)
	if err := c.watches.charts(); err != nil {
		t.Fatal(err)
	}
	// What it has told of is there.
	if key, _ := queue.Get(); key.Name != "watched" {
		t.Fatalf("the watch told of %s", key)
	}
	for name, want := range map[string]bool{"watched": true, "gone": false} {
		next, err := c.Reconcile(t.Context(), types.NamespacedName{Namespace: "kube-system", Name: name})
		if err != nil || (next == reconcile.Again) != want {
			t.Errorf("%s: %v, %v", name, next, err)
		}
	}
}

// TestWhatIsOlderThanItsWatch: a HelmChart is read again if its watch knows more of it.
func TestWhatIsOlderThanItsWatch(t *testing.T) {
	now := metav1.Now()
	told := func(o metav1.ObjectMeta) *metav1.PartialObjectMetadata {
		o.Namespace, o.Name = "kube-system", "c"
		return &metav1.PartialObjectMetadata{ObjectMeta: o}
	}
	object := func(uid types.UID, generation int64) metav1.ObjectMeta {
		return metav1.ObjectMeta{UID: uid, Generation: generation}
	}
	for name, tc := range map[string]struct {
		watched, read metav1.ObjectMeta
		behind, ends  bool
	}{
		"the same": {watched: object("1", 1), read: object("1", 1)},
		"newer":    {watched: object("1", 1), read: object("1", 2)},
		"older":    {watched: object("1", 2), read: object("1", 1), behind: true},
		"another":  {watched: object("1", 2), read: object("2", 1)},
		"before its end": {watched: metav1.ObjectMeta{UID: "1", DeletionTimestamp: &now,
			Finalizers: []string{reconcile.Finalizer}}, read: object("1", 0), behind: true, ends: true},
		"kept by others": {watched: metav1.ObjectMeta{UID: "1", DeletionTimestamp: &now,
			Finalizers: []string{"example.com/other"}}, read: object("1", 0), behind: true},
	} {
		t.Run(name, func(t *testing.T) {
			queue := workqueue.NewTypedRateLimitingQueue(
				workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Hour, time.Hour))
			defer queue.ShutDown()
			w := newWatches(t.Context(), nil, queue, all)
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			kept, err := trim(told(tc.watched))
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Add(kept); err != nil {
				t.Fatal(err)
			}
			w.begun[watched{reconcile.Charts(), metav1.NamespaceAll}] = begun{found: store}
			if got := w.Behind(told(tc.read)); got != tc.behind {
				t.Errorf("behind: %v", got)
			}
			w.addEnding()
			if got := queue.Len() > 0; got != tc.ends {
				t.Errorf("looked at again: %v", got)
			}
		})
	}
}
