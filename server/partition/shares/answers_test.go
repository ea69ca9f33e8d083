package shares

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/a4s-io/a4s/server/partition/allocations"
)

// moves is a queue that says when pods that wait are moved.
type moves struct {
	internalqueue.SchedulingQueue
	moved chan struct{}
}

func (m moves) MoveAllToActiveOrBackoffQueue(
	klog.Logger, fwk.ClusterEvent, any, any, internalqueue.PreEnqueueCheck,
) {
	m.moved <- struct{}{}
}

// TestRefusedPodsAreWoken: a pod that was refused because a resource partition did not answer,
// or was not known yet, is tried again when it answers, whoever was answered first.
func TestRefusedPodsAreWoken(t *testing.T) {
	for name, c := range map[string]struct {
		known    bool // to the plugin, when the pod is filtered
		answered bool // the accountant, before the first probe
	}{
		"silent, then a probe is answered":        {known: true},
		"silent, then the accountant is answered": {known: true, answered: true},
		"not known, then a probe is answered":     {},
	} {
		t.Run(name, func(t *testing.T) {
			api := httptest.NewServer(http.NotFoundHandler())
			defer api.Close()
			client, err := allocations.NewClient(&rest.Config{Host: api.URL}, nil)
			if err != nil {
				t.Fatal(err)
			}
			queue := moves{moved: make(chan struct{}, 1)}
			s := newShares()
			s.o.Local, s.waker.queue = "rp", queue
			add := func() *partition {
				p := newPartition(t.Context(), s, ResourcePartition{Name: "rp", Client: client})
				s.partitions["rp"] = p
				return p
			}
			var p *partition
			if c.known {
				p = add()
				p.refused.Store(false) // it answered once, and woke what waited
			}
			info := framework.NewNodeInfo()
			info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
			pod := boundPod("new", "", 1, corev1.PodPending)
			if status := (&plugin{s}).Filter(t.Context(), nil, pod, info); status.IsSuccess() {
				t.Fatal("the node is taken")
			}
			if !c.known {
				p = add()
			}
			defer p.queue.ShutDown()
			if c.answered {
				p.answersNow()
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				p.watchOver()
			}()
			select {
			case <-queue.moved:
			case <-time.After(time.Minute):
				t.Error("the pod still waits")
			}
			p.stop()
			<-done
		})
	}
}
