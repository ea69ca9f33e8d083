package mux

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxIDs are those that the mux lists.
func (k *kubelet) sandboxIDs(t *testing.T, filter *runtimeapi.PodSandboxFilter) []string {
	t.Helper()
	r, err := k.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: filter})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range r.Items {
		ids = append(ids, s.Id)
	}
	slices.Sort(ids)
	return ids
}

func (k *kubelet) containerIDs(t *testing.T, filter *runtimeapi.ContainerFilter) []string {
	t.Helper()
	r, err := k.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: filter})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range r.Containers {
		ids = append(ids, c.Id)
	}
	slices.Sort(ids)
	return ids
}

func TestListsAreOfAllRuntimes(t *testing.T) {
	k, c, v := both(t, Options{})
	c.set(func() { c.sandboxes["c1"] = &runtimeapi.PodSandbox{Id: "c1"} })
	v.set(func() {
		v.sandboxes["v1"] = &runtimeapi.PodSandbox{Id: "v1"}
		v.containers["v2"] = &runtimeapi.Container{Id: "v2"}
	})
	if got := k.sandboxIDs(t, nil); !slices.Equal(got, []string{"c1", "v1"}) {
		t.Errorf("sandboxes %v", got)
	}
	if got := k.containerIDs(t, &runtimeapi.ContainerFilter{}); !slices.Equal(got, []string{"v2"}) {
		t.Errorf("containers %v", got)
	}
	// The owners are known by that, so nobody is asked for them.
	if k.mux.router.owners.of([]byte("c1")).Name != "containerd" ||
		k.mux.router.owners.of([]byte("v2")).Name != "qemu" {
		t.Error("listed objects have no owner")
	}
	descriptors, err := k.ListMetricDescriptors(t.Context(), &runtimeapi.ListMetricDescriptorsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range descriptors.Descriptors {
		names = append(names, d.Name+"/"+d.Help)
	}
	if want := []string{"cpu/containerd", "containerd/", "qemu/"}; !slices.Equal(names, want) {
		t.Errorf("descriptors %v, want %v", names, want)
	}
	if _, err := k.UpdateRuntimeConfig(t.Context(), &runtimeapi.UpdateRuntimeConfigRequest{
		RuntimeConfig: &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: "net"}},
	}); err != nil ||
		!slices.Contains(c.calls(), "UpdateRuntimeConfig net") ||
		!slices.Contains(v.calls(), "UpdateRuntimeConfig net") {
		t.Errorf("a setting for all: %v, %v, %v", err, c.calls(), v.calls())
	}
}

// pieces is a peer that has lists in pieces.
type pieces struct{ *peer }

func (p pieces) StreamContainers(
	r *runtimeapi.StreamContainersRequest, stream runtimeapi.RuntimeService_StreamContainersServer,
) error {
	list, err := p.ListContainers(stream.Context(), &runtimeapi.ListContainersRequest{Filter: r.Filter})
	if err != nil {
		return err
	}
	for _, c := range list.Containers {
		if err := stream.Send(
			&runtimeapi.StreamContainersResponse{Containers: []*runtimeapi.Container{c}}); err != nil {
			return err
		}
	}
	return nil
}

func TestListsInPieces(t *testing.T) {
	k, c, v := both(t, Options{})
	collect := func() ([]string, error) {
		stream, err := k.StreamContainers(t.Context(), &runtimeapi.StreamContainersRequest{})
		var ids []string
		for err == nil {
			var r *runtimeapi.StreamContainersResponse
			if r, err = stream.Recv(); err == nil {
				for _, c := range r.Containers {
					ids = append(ids, c.Id)
				}
			}
		}
		slices.Sort(ids)
		return ids, err
	}
	// Without such a call in the primary the kubelet is to ask otherwise.
	if _, err := collect(); status.Code(err) != codes.Unimplemented {
		t.Errorf("lists in pieces of a runtime without: %v", err)
	}
	c.set(func() {
		c.containers["c1"], c.containers["c2"] = &runtimeapi.Container{Id: "c1"}, &runtimeapi.Container{Id: "c2"}
	})
	v.set(func() { v.containers["v1"] = &runtimeapi.Container{Id: "v1"} })
	c.server.Stop()
	c.restartAs(t, pieces{c})
	k.awaitState(t, "containerd", corev1.ConditionTrue, ReasonReady)
	await(t, "the primary is asked again", func() bool {
		_, err := collect()
		return status.Code(err) == codes.OK || err.Error() == "EOF"
	})
	if ids, _ := collect(); !slices.Equal(ids, []string{"c1", "c2", "v1"}) {
		t.Errorf("in pieces: %v", ids)
	}
}

func TestWhatALostRuntimeRanStaysListed(t *testing.T) {
	dir := t.TempDir()
	k, c, v := both(t, Options{MemoryDir: dir})
	labels := map[string]string{"pod": "b"}
	v.set(func() {
		v.sandboxes["v1"] = &runtimeapi.PodSandbox{Id: "v1"}
		v.sandboxes["v2"] = &runtimeapi.PodSandbox{Id: "v2", Labels: labels,
			State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY}
		v.containers["v3"] = &runtimeapi.Container{Id: "v3", PodSandboxId: "v1",
			State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	})
	c.set(func() { c.sandboxes["c1"] = &runtimeapi.PodSandbox{Id: "c1"} })
	k.sandboxIDs(t, nil)
	k.containerIDs(t, &runtimeapi.ContainerFilter{})

	check := func(k *kubelet) {
		t.Helper()
		if got := k.sandboxIDs(t, nil); !slices.Equal(got, []string{"c1", "v1", "v2"}) {
			t.Errorf("sandboxes %v", got)
		}
		ready := &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}
		if got := k.sandboxIDs(t, &runtimeapi.PodSandboxFilter{State: ready}); !slices.Equal(got,
			[]string{"c1", "v1"}) {
			t.Errorf("ready sandboxes %v", got)
		}
		if r, err := k.ListPodSandbox(t.Context(),
			&runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{Id: "v2",
				LabelSelector: labels}}); err != nil || len(r.Items) != 1 {
			t.Errorf("by labels: %v, %v", r, err)
		}
		if got := k.containerIDs(t,
			&runtimeapi.ContainerFilter{PodSandboxId: "v1"}); !slices.Equal(got, []string{"v3"}) {
			t.Errorf("containers %v", got)
		}
		// It is not gone: nobody may be told so.
		if _, err := k.PodSandboxStatus(t.Context(),
			&runtimeapi.PodSandboxStatusRequest{PodSandboxId: "v1"}); status.Code(err) != codes.Unavailable {
			t.Errorf("the status of a sandbox out of reach: %v", err)
		}
	}
	// It hangs while it is asked.
	hang := make(chan struct{})
	v.set(func() { v.hang = hang })
	check(k)
	k.awaitState(t, "qemu", corev1.ConditionUnknown, ReasonUnreachable)
	close(hang)
	v.set(func() { v.hang = nil })
	k.awaitState(t, "qemu", corev1.ConditionTrue, ReasonReady)
	// It ends.
	v.server.Stop()
	k.awaitState(t, "qemu", corev1.ConditionUnknown, ReasonUnreachable)
	check(k)
	// It is still gone when a4s starts anew.
	check(serve(t, Options{Runtimes: registered(c, v), MemoryDir: dir}))
	// What it says when it is back counts.
	v.set(func() { delete(v.sandboxes, "v1") })
	v.start(t)
	k.awaitState(t, "qemu", corev1.ConditionTrue, ReasonReady)
	if got := k.sandboxIDs(t, nil); !slices.Equal(got, []string{"c1", "v2"}) {
		t.Errorf("sandboxes of a runtime that is back: %v", got)
	}
}

func TestNobodyAnswersForThePrimary(t *testing.T) {
	k, c, _ := both(t, Options{})
	k.sandboxIDs(t, nil)
	c.server.Stop()
	if _, err := k.ListPodSandbox(t.Context(),
		&runtimeapi.ListPodSandboxRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("a list without the primary: %v", err)
	}
}

func TestEventsOfAllRuntimes(t *testing.T) {
	k, c, v := both(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := k.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(p *peer, id string) {
		t.Helper()
		p.events <- &runtimeapi.ContainerEventResponse{ContainerId: id}
		if e, err := stream.Recv(); err != nil || e.ContainerId != id {
			t.Fatalf("event %v, %v, want %s", e, err, id)
		}
	}
	expect(c, "c1")
	expect(v, "v1")
	v.server.Stop()
	v.start(t)
	expect(v, "v2") // over a new stream
	late := newPeer(t, "late")
	if _, err := k.mux.Add(registered(c, late)[1]); err != nil {
		t.Fatal(err)
	}
	expect(late, "l1")
	c.server.Stop()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream without the primary: %v", err)
	}
}

func TestMemorySaysWhatItCannotKeep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := memory{file: filepath.Join(file, "below")}
	one, two := appendItem(nil, appendItem(nil, []byte("a"))), appendItem(nil, appendItem(nil, []byte("b")))
	if m.keep(sandboxes, one) == nil || m.keep(sandboxes, two) != nil {
		t.Error("a write that fails is to be said once")
	}
	if !m.has(sandboxes, []byte("b")) || m.has(sandboxes, []byte("a")) {
		t.Error("what cannot be written is not remembered either")
	}
	m.forget(sandboxes, []byte("b"))
	if m.count(sandboxes) != 0 {
		t.Error("what was removed is remembered")
	}
}

func TestGrace(t *testing.T) {
	start := time.Now()
	answer := func(ready bool, name string) *runtimeapi.StatusResponse {
		return &runtimeapi.StatusResponse{
			Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
				{Type: runtimeapi.RuntimeReady, Status: true},
				{Type: runtimeapi.NetworkReady, Status: ready, Reason: name},
			}},
		}
	}
	lost := status.Error(codes.Unavailable, "gone")
	for _, c := range []struct {
		name    string
		grace   time.Duration
		good    bool                       // it was once
		answer  *runtimeapi.StatusResponse // nil if it does not answer
		after   time.Duration
		runtime bool
		network bool
	}{
		{"ready", 0, true, answer(true, ""), time.Hour, true, true},
		{"never answered", time.Minute, false, nil, time.Second, false, false},
		{"never ready", time.Minute, false, answer(false, "NoCNI"), time.Second, true, false},
		{"short glitch", 10 * time.Second, true, nil, 9 * time.Second, true, true},
		{"long glitch", 10 * time.Second, true, nil, 11 * time.Second, false, false},
		{"longer than the kubelet waits", 2 * time.Minute, true, nil, 119 * time.Second, true, true},
		{"longer than that", 2 * time.Minute, true, nil, 121 * time.Second, false, false},
		{"no grace", 0, true, nil, 0, false, false},
		{"network glitch", 10 * time.Second, true, answer(false, "NoCNI"), 9 * time.Second, true, true},
		{"no network", 10 * time.Second, true, answer(false, "NoCNI"), 11 * time.Second, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &Mux{}
			s, err := m.newService(Runtime{Name: "a", Endpoint: "unix:///nowhere"})
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			s.failed = start
			if c.good {
				s.learn(answer(true, ""), &runtimeapi.VersionResponse{}, nil, start.Add(-time.Hour))
			}
			if c.answer != nil {
				s.learn(c.answer, &runtimeapi.VersionResponse{}, nil, start)
			} else {
				s.learn(nil, nil, lost, start)
			}
			// the time counts from the first
			s.learn(c.answer, &runtimeapi.VersionResponse{},
				map[bool]error{true: lost}[c.answer == nil], start.Add(c.after))
			got := s.report(start.Add(c.after), c.grace).GetStatus().GetConditions()
			if len(got) != 2 || got[0].Status != c.runtime || got[1].Status != c.network {
				t.Errorf("conditions %v, want %v and %v", got, c.runtime, c.network)
			}
		})
	}
}
