package controllers

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// TestInformersEndWithTheirResource: what was defined and removed leaves nothing behind,
// and is found when it is defined again.
func TestInformersEndWithTheirResource(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme)
	var gone atomic.Bool
	client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, k8sruntime.Object, error) {
		if gone.Load() {
			return true, nil, apierrors.NewNotFound(a.GetResource().GroupResource(), "")
		}
		return false, nil, nil
	})
	client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		if gone.Load() {
			return true, nil, apierrors.NewNotFound(a.GetResource().GroupResource(), "")
		}
		return true, watch.NewEmptyWatch(), nil // so that it asks again
	})
	e := &endingInformers{
		typed: informers.NewSharedInformerFactory(fake.NewClientset(), 0),
		metadata: func(r schema.GroupVersionResource) informers.GenericInformer {
			return metadatainformer.NewFilteredMetadataInformer(client, r, "", 0, cache.Indexers{}, nil)
		},
		of: map[schema.GroupVersionResource]*endingInformer{},
	}
	builtIn := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	pods, err := e.ForResource(builtIn)
	if err != nil || len(e.of) > 0 {
		t.Fatalf("%v, %v: what is built in has an informer that ends", pods, err)
	}
	e.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), pods.Informer().HasSynced) {
		t.Fatal("an informer does not begin")
	}
	before := runtime.NumGoroutine()
	const many = 20
	custom := func(n int) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: string(rune('a'+n)) + "s"}
	}
	for n := range many {
		i, err := e.ForResource(custom(n))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := e.ForResource(custom(n)); err != nil || again != i {
			t.Fatalf("the informer is not shared: %v", err)
		}
		if _, err := i.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{}); err != nil {
			t.Fatal(err)
		}
	}
	e.Start(t.Context().Done())
	for n := range many {
		i, err := e.ForResource(custom(n))
		if err != nil {
			t.Fatal(err)
		}
		if !cache.WaitForCacheSync(t.Context().Done(), i.Informer().HasSynced) {
			t.Fatal("an informer does not begin")
		}
	}
	gone.Store(true)
	until(t, "the informers to end", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.of) == 0
	})
	until(t, "their goroutines to end", func() bool { return runtime.NumGoroutine() <= before+5 })
	gone.Store(false)
	i, err := e.ForResource(custom(0))
	if err != nil {
		t.Fatal(err)
	}
	e.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), i.Informer().HasSynced) {
		t.Fatal("an informer does not begin again")
	}
}

// TestInformersOutliveAGap: one attempt that fails now and then ends no informer.
func TestInformersOutliveAGap(t *testing.T) {
	r := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "as"}
	ended := false
	i := &endingInformer{end: func() { ended = true }}
	e := &endingInformers{goneAfter: time.Hour, of: map[schema.GroupVersionResource]*endingInformer{r: i}}
	e.notFound(r, i)
	i.missing, i.last = time.Now().Add(-3*time.Hour), time.Now().Add(-2*time.Hour)
	e.notFound(r, i) // the first of another row
	if ended || time.Since(i.missing) > time.Minute {
		t.Errorf("ended %t, missing since %s", ended, i.missing)
	}
	i.missing = time.Now().Add(-2 * time.Hour)
	e.notFound(r, i)
	if !ended || len(e.of) > 0 {
		t.Error("it goes on")
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !done(); runtime.Gosched() {
		if time.Now().After(late) {
			t.Fatal("waiting for ", what)
		}
	}
}
