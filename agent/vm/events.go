package vm

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// eventBuffer is how many events a slow listener may be behind before it loses
// some; the kubelet lists everything now and then for that reason.
const eventBuffer = 1000

// events hands what happens to containers to those who listen.
type events struct {
	*tasks
	log   *logrus.Entry
	store *store

	mu        sync.Mutex
	listeners map[chan *runtimeapi.ContainerEventResponse]struct{}
}

// send reports an event of a container, or of a sandbox itself (then id is
// the sandbox'), with the state that the pod is in now.
func (e *events) send(kind runtimeapi.ContainerEventType, p *sandbox, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.listeners) == 0 {
		return
	}
	record := p.get()
	event := &runtimeapi.ContainerEventResponse{
		ContainerId: id, ContainerEventType: kind, CreatedAt: time.Now().UnixNano(),
		PodSandboxStatus: sandboxStatus(&record),
	}
	for _, c := range e.store.allContainers(p) {
		of := c.get()
		event.ContainersStatuses = append(event.ContainersStatuses, containerStatus(&of))
	}
	for listener := range e.listeners {
		select {
		case listener <- event:
		default:
			e.log.Warn("a listener for container events is too slow and loses one")
		}
	}
}

func (e *events) listen() (chan *runtimeapi.ContainerEventResponse, func()) {
	listener := make(chan *runtimeapi.ContainerEventResponse, eventBuffer)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listeners == nil {
		e.listeners = map[chan *runtimeapi.ContainerEventResponse]struct{}{}
	}
	e.listeners[listener] = struct{}{}
	return listener, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.listeners, listener)
	}
}

// GetContainerEvents implements the CRI.
func (e *events) GetContainerEvents(
	_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse],
) error {
	listener, done := e.listen()
	defer done()
	for {
		select {
		case event := <-listener:
			if err := stream.Send(event); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		case <-e.ctx.Done():
			return nil
		}
	}
}
