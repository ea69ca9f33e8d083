package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/tests/hosts"
)

// podWitness follows pods that nothing may happen to, and remembers what did. A server that is
// away is asked again.
type podWitness struct {
	c    *cluster
	pods map[types.UID]*corev1.Pod

	mu    sync.Mutex
	wrong []string
}

// witnessPods begins with pods that are ready, until the test ends.
func (c *cluster) witnessPods(t *testing.T, pods ...*corev1.Pod) *podWitness {
	t.Helper()
	w := &podWitness{c: c, pods: map[types.UID]*corev1.Pod{}}
	for _, p := range pods {
		w.pods[p.UID] = p
	}
	factory := informers.NewSharedInformerFactory(c.client, 0)
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.look,
		UpdateFunc: func(_, now any) { w.look(now) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if p, ok := obj.(*corev1.Pod); ok && w.pods[p.UID] != nil {
				w.say(p, "is gone")
			}
		}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the pods are not known")
	}
	return w
}

func (w *podWitness) say(p *corev1.Pod, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf("%s pod %s/%s of %s ", time.Now().Format(time.TimeOnly), p.Namespace, p.Name,
		w.c.host.Name)+fmt.Sprintf(format, args...))
}

func (w *podWitness) look(obj any) {
	p, ok := obj.(*corev1.Pod)
	if !ok || w.pods[p.UID] == nil {
		return
	}
	if why := changed(w.pods[p.UID], p); why != "" {
		w.say(p, "%s", why)
	}
}

// changed says what has happened to a pod that was ready.
func changed(was, now *corev1.Pod) string {
	switch {
	case now.UID != was.UID:
		return "is another one"
	case now.DeletionTimestamp != nil:
		return fmt.Sprintf("is deleted: %+v", now.Status.Conditions)
	case !podIsReady(now):
		return fmt.Sprintf("is not ready: %+v", now.Status.Conditions)
	case containerID(now) != containerID(was) ||
		now.Status.ContainerStatuses[0].RestartCount != was.Status.ContainerStatuses[0].RestartCount:
		return fmt.Sprintf("has another container: %+v", now.Status.ContainerStatuses)
	}
	return ""
}

// untouched checks that nothing has happened to the pods, and that they are there.
func (w *podWitness) untouched(t *testing.T) {
	t.Helper()
	for _, was := range w.pods {
		w.c.unchanged(t, was)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 {
		t.Errorf("pods were touched:\n%s", strings.Join(w.wrong, "\n"))
	}
}

// unchanged waits until a pod is what it was. It must not become another one.
func (c *cluster) unchanged(t *testing.T, was *corev1.Pod) {
	t.Helper()
	hosts.Until(t, podTimeout, "pod "+was.Name+" of "+c.host.Name+" is as it was", func(ctx context.Context) error {
		now, err := c.client.CoreV1().Pods(was.Namespace).Get(ctx, was.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if now.UID != was.UID || now.DeletionTimestamp != nil {
			t.Fatalf("it is another one: %+v", now)
		}
		if why := changed(was, now); why != "" {
			return fmt.Errorf("it %s", why)
		}
		return nil
	})
}
