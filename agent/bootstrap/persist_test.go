package bootstrap

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/internal/bootstrapapi"
)

// offering runs the loop against a server of which a test decides what it
// answers to the n-th offer.
type offering struct {
	store  *store.Store
	client *fake.Clientset

	mu     sync.Mutex
	offers []*corev1.Pod
}

func offer(t *testing.T, answer func(n int, pod *corev1.Pod) (*corev1.Pod, error), there ...runtime.Object) *offering {
	t.Helper()
	o := &offering{client: fake.NewClientset(there...)}
	var err error
	if o.store, _, err = store.Open(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	o.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok {
			return false, nil, nil
		}
		pod, ok := create.GetObject().(*corev1.Pod)
		if !ok {
			return false, nil, nil
		}
		o.mu.Lock()
		o.offers = append(o.offers, pod.DeepCopy())
		n := len(o.offers)
		o.mu.Unlock()
		out, err := answer(n, pod.DeepCopy())
		return true, out, err
	})
	p := &Persister{Store: o.store, Pods: o.client.CoreV1(), backoff: time.Millisecond}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Component().Run(ctx, func() {}) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the loop ended: %v", err)
		}
	})
	return o
}

func (o *offering) create(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-node1", UID: "ours",
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "b"}},
		Spec:   corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if _, err := o.store.Create(pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// await waits until the entry is as it should be.
func (o *offering) await(t *testing.T, what string, ok func(e *store.Entry) bool) *store.Entry {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		e, found := o.store.Get("ours")
		if found && ok(e) {
			return e
		}
		if time.Now().After(deadline) {
			t.Fatalf("not %s: %+v", what, e)
		}
		time.Sleep(time.Millisecond)
	}
}

func isPersisted(e *store.Entry) bool { return e.State == store.Persisted }

func TestSeedPersistingToAPIServer(t *testing.T) {
	unreachable := errors.New("no route to host")
	o := offer(t, func(n int, pod *corev1.Pod) (*corev1.Pod, error) {
		switch n {
		case 1:
			return nil, origin.ErrNotConnected
		case 2:
			return nil, unreachable
		case 3:
			return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, pod.Name,
				errors.New("no service account yet"))
		case 4:
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "default")
		}
		pod.ResourceVersion = "9"
		return pod, nil
	})
	o.create(t)
	e := o.await(t, "persisted", isPersisted)
	if e.ServerUID != "ours" || e.ResourceVersion != "9" || e.Message != "" || len(o.offers) != 5 {
		t.Errorf("entry %+v after %d offers", e, len(o.offers))
	}
	pod := o.offers[0]
	if pod.UID != "ours" || pod.Annotations[bootstrapapi.UIDAnnotation] != "ours" ||
		pod.Annotations[bootstrapapi.SourceAnnotation] != bootstrapapi.Source ||
		pod.Annotations["a"] != "b" || pod.Labels["app"] != "web" || pod.Spec.NodeName != "node1" ||
		pod.Status.Phase != "" {
		t.Errorf("offered %+v", pod)
	}
}

func TestFailureOfAnOfferIsShownAndDoubtIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		doubt bool
	}{
		"refused": {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-node1",
			errors.New("because")), false},
		"not joined":   {origin.ErrNotConnected, false},
		"timeout":      {context.DeadlineExceeded, true},
		"server error": {apierrors.NewInternalError(errors.New("etcd")), true},
	} {
		t.Run(name, func(t *testing.T) {
			o := offer(t, func(int, *corev1.Pod) (*corev1.Pod, error) { return nil, tc.err })
			o.create(t)
			e := o.await(t, "refused", func(e *store.Entry) bool { return e.Message != "" })
			if e.State != store.Local || e.Doubt != tc.doubt || !strings.Contains(e.Message, tc.err.Error()) {
				t.Errorf("entry %+v", e)
			}
		})
	}
}

func TestSeedUIDOfAnEarlierOfferIsFound(t *testing.T) {
	there := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-node1", UID: "ours",
		ResourceVersion: "4"}}
	o := offer(t, func(_ int, pod *corev1.Pod) (*corev1.Pod, error) { return nil, exists(pod) }, there)
	o.create(t)
	if e := o.await(t, "persisted", isPersisted); e.ServerUID != "ours" {
		t.Errorf("entry %+v", e)
	}
}

func TestSeedUIDOfTheServerMeansRestart(t *testing.T) {
	o := offer(t, func(_ int, pod *corev1.Pod) (*corev1.Pod, error) {
		pod.UID = "theirs"
		return pod, nil
	})
	o.create(t)
	if e := o.await(t, "persisted", isPersisted); e.ServerUID != "theirs" || e.Pod.UID != "ours" {
		t.Errorf("entry %+v", e)
	}
}

func TestSeedNamingCollisionIsWaitedFor(t *testing.T) {
	there := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-node1", UID: "foreign"}}
	free := make(chan struct{})
	o := offer(t, func(_ int, pod *corev1.Pod) (*corev1.Pod, error) {
		select {
		case <-free:
			return pod, nil
		default:
			return nil, exists(pod)
		}
	}, there)
	o.create(t)
	e := o.await(t, "told of the other pod", func(e *store.Entry) bool {
		return strings.Contains(e.Message, "foreign")
	})
	if e.State != store.Local {
		t.Errorf("entry %+v", e)
	}
	close(free)
	o.await(t, "persisted", isPersisted)
}

func TestPodThatEndsIsNotOffered(t *testing.T) {
	tried := make(chan struct{}, 100)
	o := offer(t, func(int, *corev1.Pod) (*corev1.Pod, error) {
		tried <- struct{}{}
		return nil, errors.New("no")
	})
	pod := o.create(t)
	<-tried
	o.await(t, "ending", func(*store.Entry) bool {
		_, err := o.store.MarkDeleted(pod.UID, time.Now())
		return err == nil // it is not while an offer is on its way
	})
	o.mu.Lock()
	before := len(o.offers)
	o.mu.Unlock()
	// The next pod is offered, the one that ends is not.
	other := pod.DeepCopy()
	other.UID, other.Name = "second", "second-node1"
	if _, err := o.store.Create(other); err != nil {
		t.Fatal(err)
	}
	<-tried
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.offers[before:] {
		if p.UID == "ours" {
			t.Error("a pod that ends was offered")
		}
	}
}
