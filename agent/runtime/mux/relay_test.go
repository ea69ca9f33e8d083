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

	"github.com/a4s-io/a4s/internal/workload"
)

// relayed tells whether the last call of a method came as frames: they say who
// asks, while a call of the mux' own says that it does.
func (p *peer) relayed(method string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.HasPrefix(p.agents[method], "kubelet ")
}

// alone runs the mux over one runtime, whose calls go as frames.
func alone(t *testing.T) (*kubelet, *peer) {
	t.Helper()
	p := newPeer(t, "containerd")
	k := serve(t, Options{Runtimes: registered(p)})
	k.awaitState(t, "containerd", corev1.ConditionTrue, ReasonReady)
	k.awaitRelay(t, p)
	return k, p
}

func (k *kubelet) awaitRelay(t *testing.T, p *peer) {
	t.Helper()
	await(t, "calls go as frames", func() bool {
		_, err := k.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
		return err == nil && p.relayed("ListContainers")
	})
}

func TestReadsOfASingleRuntimeGoAsFrames(t *testing.T) {
	k, p := alone(t)
	p.set(func() {
		p.sandboxes["s1"] = &runtimeapi.PodSandbox{Id: "s1"}
		p.images["i1"] = &runtimeapi.Image{Id: "i1"}
	})
	if got := k.sandboxIDs(t, nil); len(got) != 1 || got[0] != "s1" || !p.relayed("ListPodSandbox") {
		t.Errorf("sandboxes %v, as frames: %v", got, p.relayed("ListPodSandbox"))
	}
	if r, err := k.images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{}); err != nil || len(r.Images) != 1 || !p.relayed("ListImages") {
		t.Errorf("images %v, %v, as frames: %v", r, err, p.relayed("ListImages"))
	}
	// Errors come as the runtime said them.
	if _, err := k.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: "none"}); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "no container none") || !p.relayed("ContainerStatus") {
		t.Errorf("an error became %v", err)
	}
	// What changes something, and what is large, is the server's.
	if _, err := k.RunPodSandbox(t.Context(), request("", "")); err != nil || p.relayed("RunPodSandbox") {
		t.Errorf("a sandbox: %v, as frames: %v", err, p.relayed("RunPodSandbox"))
	}
	large := map[string]string{"a": strings.Repeat("x", 200<<10)}
	if _, err := k.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: large}}); err != nil || p.relayed("ListContainers") {
		t.Errorf("a large request: %v, as frames: %v", err, p.relayed("ListContainers"))
	}
	// So is everything once there is another runtime.
	v := newPeer(t, "qemu")
	v.set(func() { v.containers["v1"] = &runtimeapi.Container{Id: "v1"} })
	if _, err := k.mux.Add(Runtime{Name: "qemu", Type: workload.VM, Endpoint: v.endpoint()}); err != nil {
		t.Fatal(err)
	}
	k.awaitState(t, "qemu", corev1.ConditionTrue, ReasonReady)
	if got := k.containerIDs(t, nil); len(got) != 1 || got[0] != "v1" || p.relayed("ListContainers") {
		t.Errorf("containers %v, as frames: %v", got, p.relayed("ListContainers"))
	}
	if _, err := k.mux.Add(Runtime{Name: "qemu", Type: workload.VM, Endpoint: v.endpoint()}); err == nil {
		t.Error("added twice")
	}
	v.set(func() { delete(v.containers, "v1") })
	if err := k.mux.Remove(t.Context(), "qemu", false); err != nil {
		t.Fatal(err)
	}
	k.awaitRelay(t, p)
}

// Answers as frames and those of the server share one window of the kubelet's;
// far more than it holds has to come through, whole.
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
	if !p.relayed("ListContainers") {
		t.Error("the lists did not go as frames")
	}
}

func TestACallAsFramesIsGivenUp(t *testing.T) {
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
	await(t, "the call arrives as frames", func() bool { return p.relayed("ListContainers") })
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
	k.awaitRelay(t, p)
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
	await(t, "the calls arrive as frames", func() bool { return p.relayed("ListContainers") && p.relayed("PodSandboxStatus") })
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
	k.awaitRelay(t, p)
}

func TestARuntimeEndsDuringACallAsFrames(t *testing.T) {
	k, p := alone(t)
	p.set(func() { p.hang, p.agents = make(chan struct{}), map[string]string{} })
	done := make(chan error, 1)
	go func() {
		_, err := k.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
		done <- err
	}()
	await(t, "the call arrives as frames", func() bool { return p.relayed("ListContainers") })
	p.server.Stop()
	if err := <-done; status.Code(err) != codes.Unavailable {
		t.Errorf("a call during which the runtime ended: %v", err)
	}
	p.set(func() { p.hang = nil })
	p.start(t)
	k.awaitState(t, "containerd", corev1.ConditionTrue, ReasonReady)
	k.awaitRelay(t, p)
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
		return r.framed() > 0
	})
}

// Answers whose headers only one reader understands go through the server.
func TestARuntimeKeepsATableOfHeaders(t *testing.T) {
	k, p := alone(t)
	r := rawRuntime{lists: make(chan string, 100), table: 4 << 10}
	r.replace(t, p)
	tried := 0
	await(t, "the headers are seen", func() bool {
		_, err := k.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
		tried += r.framed()
		return err == nil && tried > 0
	})
	for range 3 {
		if _, err := k.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{}); err != nil {
			t.Errorf("through the server: %v", err)
		}
	}
	if tried += r.framed(); tried != 1 {
		t.Errorf("tried %d times", tried)
	}
}

// rawRuntime answers every call with an empty message.
type rawRuntime struct {
	table uint32      // of headers, whatever the other side says
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

// framed returns how many lists came as frames since it was asked last.
func (r rawRuntime) framed() (n int) {
	for {
		select {
		case agent := <-r.lists:
			if strings.HasPrefix(agent, "kubelet ") {
				n++
			}
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
	encoder.SetMaxDynamicTableSize(r.table)
	headers := func(id uint32, end bool, fields ...hpack.HeaderField) error {
		block.Reset()
		for _, f := range fields {
			if err := encoder.WriteField(f); err != nil {
				return err
			}
		}
		return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
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
		if err := headers(h.StreamID, false, hpack.HeaderField{Name: ":status", Value: "200"}, hpack.HeaderField{Name: "content-type", Value: "application/grpc"}); err != nil {
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
		if framer.WriteData(h.StreamID, false, make([]byte, 5)) != nil || headers(h.StreamID, true, hpack.HeaderField{Name: "grpc-status", Value: "0"}) != nil {
			return
		}
	}
}

func TestStateless(t *testing.T) {
	long := strings.Repeat("~", 300) // Huffman makes it longer
	encode := func(table uint32, fields ...hpack.HeaderField) []byte {
		var block bytes.Buffer
		e := hpack.NewEncoder(&block)
		e.SetMaxDynamicTableSizeLimit(table)
		for _, f := range fields {
			if err := e.WriteField(f); err != nil {
				t.Fatal(err)
			}
		}
		return block.Bytes()
	}
	usual := []hpack.HeaderField{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "application/grpc"}, {Name: "grpc-message", Value: long},
		{Name: "via", Value: "x", Sensitive: true}, {Name: long, Value: ""}}
	empty := encode(0, usual...)
	for name, c := range map[string]struct {
		block []byte
		want  bool
	}{
		"nothing":                        {nil, true},
		"no table":                       {empty[1:], true},
		"the size of the table":          {empty, false},
		"put into a table":               {encode(4<<10, usual...), false},
		"from a table":                   {[]byte{0x80 | 62}, false},
		"a name from a table":            {[]byte{0x0f, 62 - 15, 1, 'a'}, false},
		"a text that ends early":         {empty[1 : len(empty)-2], false},
		"a length that ends early":       {[]byte{0x00, 0x7f, 0x80}, false},
		"a length that is never reached": {[]byte{0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, false},
	} {
		if got := stateless(c.block); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if empty[0] != emptyTable {
		t.Errorf("an empty table is said as %x", empty[0])
	}
}
