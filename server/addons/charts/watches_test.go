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
	"k8s.io/client-go/util/workqueue"
)

// TestWhatIsWatchedIsReadAgain: a HelmChart that the API says is not there, though its watch has not told of an end,
// is asked for again. Else nobody would look at it until it changes.
func TestWhatIsWatchedIsReadAgain(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	watched := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: chartResource().GroupVersion().String(), Kind: "HelmChart"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "watched"},
	}
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Hour, time.Hour))
	t.Cleanup(queue.ShutDown)
	c := &controller{queue: queue,
		objects: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{chartResource(): "HelmChartList"}),
		watches: newWatches(t.Context(), metadatafake.NewSimpleMetadataClient(scheme, watched), queue)}
	t.Cleanup(c.watches.wait)
	if err := c.watches.charts(); err != nil {
		t.Fatal(err)
	}
	// What it has told of is there.
	if key, _ := queue.Get(); key.Name != "watched" {
		t.Fatalf("the watch told of %s", key)
	}
	for name, want := range map[string]bool{"watched": true, "gone": false} {
		again, err := c.sync(t.Context(), types.NamespacedName{Namespace: "kube-system", Name: name})
		if err != nil || again != want {
			t.Errorf("%s: again %v, %v", name, again, err)
		}
	}
}
