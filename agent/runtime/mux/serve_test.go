package mux

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// heard reports whether a call of the method has arrived.
func (p *peer) heard(method string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.agents[method] != ""
}

// alone runs the mux over one runtime.
func alone(t *testing.T) (*kubelet, *peer) {
	t.Helper()
	p := newPeer(t, "containerd")
	k := serve(t, Options{Runtimes: registered(p)})
	k.awaitState(t, "containerd", corev1.ConditionTrue, ReasonReady)
	k.awaitList(t)
	return k, p
}

func (k *kubelet) awaitList(t *testing.T) {
	t.Helper()
	await(t, "the runtime answers", func() bool {
		_, err := k.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
		return err == nil
	})
}

// All answers share one window of the kubelet's; far more than it holds has to
// come through, whole.
func TestLargeAnswersShareAConnection(t *testing.T) {
	k, p := alone(t)
	const size = 3 << 20
	p.set(func() {
		for i := range 3 {
			id := fmt.Sprint("c", i)
			p.containers[id] = &runtimeapi.Container{Id: id, ImageRef: strings.Repeat(id[1:], size/3)}
		}
	})
	events, err := k.GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				r, err := k.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
				if err != nil || len(r.Containers) != 3 {
					t.Errorf("%d containers, %v", len(r.GetContainers()), err)
					return
				}
				for _, c := range r.Containers {
					if c.ImageRef != strings.Repeat(c.Id[1:], size/3) {
						t.Errorf("%s has other bytes", c.Id)
					}
				}
			}
		})
	}
	text := strings.Repeat("e", 1<<20)
	wg.Go(func() {
		for range 20 {
			p.events <- &runtimeapi.ContainerEventResponse{ContainerId: text}
		}
	})
	wg.Go(func() {
		for range 20 {
			if e, err := events.Recv(); err != nil || e.ContainerId != text {
				t.Errorf("an event: %v", err)
				return
			}
		}
	})
	wg.Wait()
}

func TestACallIsGivenUp(t *testing.T) {
	k, p := alone(t)
	hang := make(chan struct{})
	p.set(func() { p.hang = hang })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	p.set(func() { p.agents = map[string]string{} })
	go func() {
		_, err := k.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
		done <- err
	}()
	await(t, "the call arrives", func() bool { return p.heard("ListContainers") })
	var before int
	p.set(func() { before = p.gaveUp })
	cancel()
	if err := <-done; status.Code(err) != codes.Canceled {
		t.Errorf("given up: %v", err)
	}
	await(t, "the runtime hears of it", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.gaveUp > before
	})
	close(hang)
	p.set(func() { p.hang = nil })
	k.awaitList(t)
}

// While a runtime hangs, what only reads is refused: the kubelet would wait two
// minutes for each answer.
func TestCallsOfAHangingRuntimeEnd(t *testing.T) {
	k, p := alone(t)
	hang := make(chan struct{})
	p.set(func() { p.hang, p.agents = hang, map[string]string{} })
	done := make(chan error, 2)
	list := func() {
		_, err := k.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
		done <- err
	}
	state := func() {
		_, err := k.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: "c1"})
		done <- err
	}
	go list()
	go state()
	await(t, "the calls arrive", func() bool { return p.heard("ListContainers") && p.heard("PodSandboxStatus") })
	k.awaitState(t, "containerd", corev1.ConditionUnknown, ReasonUnreachable)
	select {
	case err := <-done:
		t.Fatalf("a call of a runtime that hangs shortly ended: %v", err)
	default:
	}
	// As its prober finds later.
	primary(k.mux.all()).learn(nil, nil, status.Error(codes.DeadlineExceeded, "late"), time.Now().Add(hungAfter))
	for range 2 {
		if err := <-done; status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "did not answer") {
			t.Errorf("a call during which the runtime came to hang: %v", err)
		}
	}
	for _, call := range []func(){list, state} {
		call()
		if err := <-done; status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "did not answer") {
			t.Errorf("a call of a hanging runtime: %v", err)
		}
	}
	close(hang)
	p.set(func() { p.hang = nil })
	k.awaitState(t, "containerd", corev1.ConditionTrue, ReasonReady)
	k.awaitList(t)
}

func TestARuntimeEndsDuringACall(t *testing.T) {
	k, p := alone(t)
	p.set(func() { p.hang, p.agents = make(chan struct{}), map[string]string{} })
	done := make(chan error, 1)
	go func() {
		_, err := k.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
		done <- err
	}()
	await(t, "the call arrives", func() bool { return p.heard("ListContainers") })
	p.server.Stop()
	if err := <-done; status.Code(err) != codes.Unavailable {
		t.Errorf("a call during which the runtime ended: %v", err)
	}
	p.set(func() { p.hang = nil })
	p.start(t)
	k.awaitState(t, "containerd", corev1.ConditionTrue, ReasonReady)
	k.awaitList(t)
}

// A runtime that ends in the middle of an answer has not given it.
func TestARuntimeEndsDuringAnAnswer(t *testing.T) {
	k, p := alone(t)
	r := rawRuntime{lists: make(chan string, 100), half: true}
	r.replace(t, p)
	await(t, "an answer ends in the middle", func() bool {
		_, err := k.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
		if c := status.Code(err); c != codes.Unavailable && c != codes.Internal {
			t.Errorf("half an answer: %v", err)
		}
		return r.asked() > 0
	})
}

// rawRuntime answers every call with an empty message.
type rawRuntime struct {
	half  bool        // the kubelet's lists end in the middle of an answer
	lists chan string // who asks for one
}

// replace takes the place of a runtime.
func (r rawRuntime) replace(t *testing.T, p *peer) {
	t.Helper()
	p.server.Stop()
	listener, err := net.Listen("unix", filepath.Join(p.dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
}

// asked returns how many lists were asked for since it was called last.
func (r rawRuntime) asked() (n int) {
	for {
		select {
		case <-r.lists:
			n++
		default:
			return n
		}
	}
}

func (r rawRuntime) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	if framer.WriteSettings() != nil {
		return
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	headers := func(id uint32, end bool, fields ...hpack.HeaderField) error {
		block.Reset()
		for _, f := range fields {
			if err := encoder.WriteField(f); err != nil {
				return err
			}
		}
		return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(),
			EndHeaders: true, EndStream: end})
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		h, ok := frame.(*http2.MetaHeadersFrame)
		if !ok {
			continue
		}
		if err := headers(h.StreamID, false, hpack.HeaderField{Name: ":status", Value: "200"},
			hpack.HeaderField{Name: "content-type", Value: "application/grpc"}); err != nil {
			return
		}
		if strings.HasSuffix(h.PseudoValue("path"), "/ListContainers") {
			for _, f := range h.Fields {
				if f.Name == "user-agent" {
					r.lists <- f.Value
				}
			}
			if r.half {
				_ = framer.WriteData(h.StreamID, false, []byte{0, 0, 0, 0, 100, 1, 2, 3})
				return
			}
		}
		if framer.WriteData(h.StreamID, false, make([]byte, 5)) != nil ||
			headers(h.StreamID, true, hpack.HeaderField{Name: "grpc-status", Value: "0"}) != nil {
			return
		}
	}
}
