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
	"k8s.io/kubernetes/pkg/scheduler"
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

// TestAnsweredToAnotherFirst: a pod that was refused because a resource partition did not
// answer is tried again when it does, if a write of the accountant was answered first, too.
func TestAnsweredToAnotherFirst(t *testing.T) {
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	client, err := allocations.NewClient(&rest.Config{Host: api.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	queue := moves{moved: make(chan struct{}, 1)}
	s := newShares()
	s.o.Local, s.sched = "rp", &scheduler.Scheduler{SchedulingQueue: queue}
	p := newPartition(t.Context(), s, ResourcePartition{Name: "rp", Client: client})
	defer p.queue.ShutDown()
	s.partitions["rp"] = p
	info := framework.NewNodeInfo()
	info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	pod := boundPod("new", "", 1, corev1.PodPending)
	if status := (&plugin{s}).Filter(t.Context(), nil, pod, info); status.IsSuccess() {
		t.Fatal("a node whose partition does not answer is taken")
	}
	p.answered.Store(time.Now().UnixNano()) // as an accountant does
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
}
