package mux

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/internal/workload"
)

// both runs the mux over a container and a VM runtime, both known to be ready.
func both(t *testing.T, o Options) (*kubelet, *peer, *peer) {
	t.Helper()
	c, v := newPeer(t, "containerd"), newPeer(t, "qemu")
	c.handlers = []*runtimeapi.RuntimeHandler{
		{Name: "", Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}},
		{Name: "runc"},
	}
	v.handlers = []*runtimeapi.RuntimeHandler{{Name: ""}, {Name: "vm"}}
	o.Runtimes = append(o.Runtimes, registered(c, v)...)
	k := serve(t, o)
	k.awaitState(t, "containerd", corev1.ConditionTrue, ReasonReady)
	k.awaitState(t, "qemu", corev1.ConditionTrue, ReasonReady)
	return k, c, v
}

func request(handler, annotation string) *runtimeapi.RunPodSandboxRequest {
	r := &runtimeapi.RunPodSandboxRequest{Config: sandboxConfig("default", "web"), RuntimeHandler: handler}
	if annotation != "" {
		r.Config.Annotations = map[string]string{workload.Annotation: annotation}
	}
	return r
}

func TestASandboxGoesToTheRuntimeOfItsType(t *testing.T) {
	k, c, v := both(t, Options{})
	for _, tc := range []struct {
		handler, annotation string
		want                *peer
		got                 string // the handler that arrives
		code                codes.Code
	}{
		{"", "", c, "", codes.OK},
		{"", "container", c, "", codes.OK},
		{"", "vm", v, "", codes.OK},
		{"container", "", c, "", codes.OK}, // means nothing to the runtime
		{"vm", "vm", v, "vm", codes.OK},    // which has it itself
		{"qemu", "", v, "", codes.OK},      // by name
		{"containerd", "container", c, "", codes.OK},
		{"runc", "", c, "runc", codes.OK},     // listed
		{"gvisor", "", c, "gvisor", codes.OK}, // for the runtime to refuse
		{"gvisor", "vm", v, "gvisor", codes.OK},
		{"", "wasm", nil, "", codes.InvalidArgument},
		{"vm", "container", nil, "", codes.InvalidArgument},
		{"qemu", "container", nil, "", codes.InvalidArgument},
	} {
		t.Run(tc.handler+" "+tc.annotation, func(t *testing.T) {
			r, err := k.RunPodSandbox(t.Context(), request(tc.handler, tc.annotation))
			if status.Code(err) != tc.code {
				t.Fatalf("%v, want %s", err, tc.code)
			}
			if tc.want == nil {
				return
			}
			if !strings.HasPrefix(r.PodSandboxId, tc.want.name) || tc.want.handler != tc.got {
				t.Errorf("%s with handler %q, want one of %s with %q", r.PodSandboxId, tc.want.handler,
					tc.want.name, tc.got)
			}
		})
	}
}

func TestATypeWithoutARuntimeIsRefused(t *testing.T) {
	k := serve(t, Options{Runtimes: registered(newPeer(t, "containerd"))})
	for _, r := range []*runtimeapi.RunPodSandboxRequest{request("vm", ""), request("", "vm")} {
		_, err := k.RunPodSandbox(t.Context(), r)
		if status.Code(err) != codes.FailedPrecondition ||
			!strings.Contains(err.Error(), "no runtime for workloads of the type vm, only containerd (container)") {
			t.Errorf("%v: %v", r, err)
		}
	}
}

func TestCallsGoToTheOwner(t *testing.T) {
	k, c, v := both(t, Options{})
	create := func(annotation string) (sandbox, container string) {
		s, err := k.RunPodSandbox(t.Context(), request("", annotation))
		if err != nil {
			t.Fatal(err)
		}
		made, err := k.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: s.PodSandboxId,
			SandboxConfig: sandboxConfig("default", "")})
		if err != nil {
			t.Fatal(err)
		}
		return s.PodSandboxId, made.ContainerId
	}
	check := func(p *peer, sandbox, container string) {
		t.Helper()
		p.set(func() { p.asked = nil })
		_, err1 := k.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: container})
		exec, err2 := k.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: container})
		forward, err3 := k.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandbox})
		_, err4 := k.CheckpointContainer(t.Context(), &runtimeapi.CheckpointContainerRequest{ContainerId: container})
		_, err5 := k.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox})
		want := []string{"ContainerStatus " + container, "Exec " + container, "PortForward " + sandbox,
			"CheckpointContainer " + container, "RemovePodSandbox " + sandbox}
		if exec.GetUrl() != "http://"+p.name || forward.GetUrl() != "http://"+p.name ||
			!slices.Equal(p.calls(), want) {
			t.Errorf("%s got %v (%v %v %v %v %v), want %v", p.name, p.calls(), err1, err2, err3, err4, err5, want)
		}
	}
	cs, cc := create("")
	vs, vc := create("vm")
	k.mux.router.owners = owners{} // as after a restart
	check(v, vs, vc)
	check(c, cs, cc)
	if k.mux.router.owners.of([]byte(vs)) != nil {
		t.Error("a sandbox that was removed is remembered")
	}

	// What nobody has, the primary says as it would without the mux.
	_, err := k.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: "none"})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "no container none") ||
		!slices.Contains(c.calls(), "ContainerStatus none") {
		t.Errorf("a container that nobody has: %v", err)
	}
	// So it is for what a list named that was on its way when its runtime was removed.
	k.mux.router.owners.set([]byte("late"), &service{Runtime: Runtime{Name: "removed"}, down: make(chan struct{})})
	if _, err := k.ContainerStatus(t.Context(),
		&runtimeapi.ContainerStatusRequest{ContainerId: "late"}); status.Code(err) != codes.NotFound {
		t.Errorf("a container of a runtime that was removed: %v", err)
	}
	// While one cannot be asked, nothing is nobody's.
	v.server.Stop()
	k.awaitState(t, "qemu", corev1.ConditionUnknown, ReasonUnreachable)
	if _, err := k.ContainerStatus(t.Context(),
		&runtimeapi.ContainerStatusRequest{ContainerId: "none"}); status.Code(err) != codes.Unavailable {
		t.Errorf("a container that qemu might have: %v", err)
	}
}

func TestWhatConcernsNobodyIsPassedOn(t *testing.T) {
	for name, others := range map[string]int{"one runtime": 0, "two runtimes": 1} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, "containerd")
			peers := []*peer{p}
			if others > 0 {
				peers = append(peers, newPeer(t, "qemu"))
			}
			k := serve(t, Options{Runtimes: registered(peers...)})
			p.set(func() {
				p.containers["big"] = &runtimeapi.Container{Id: "big", ImageRef: strings.Repeat("x", 10<<20)}
			})
			ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-1")
			if _, err := k.ContainerStatus(ctx,
				&runtimeapi.ContainerStatusRequest{ContainerId: "c9"}); status.Code(err) != codes.NotFound ||
				!strings.Contains(err.Error(), "no container c9") {
				t.Errorf("an error of the runtime became %v", err)
			}
			if len(p.header) != 1 || p.header[0] != "00-1" {
				t.Errorf("metadata: %v", p.header)
			}
			if _, err := k.RuntimeConfig(ctx,
				&runtimeapi.RuntimeConfigRequest{}); status.Code(err) != codes.Unimplemented {
				t.Errorf("what the runtime does not have: %v", err)
			}
			if r, err := k.ListContainers(ctx, &runtimeapi.ListContainersRequest{}); err != nil ||
				len(r.Containers) != 1 || len(r.Containers[0].ImageRef) != 10<<20 {
				t.Errorf("a large answer: %v", err)
			}
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			if _, err := k.StopContainer(short,
				&runtimeapi.StopContainerRequest{ContainerId: "big"}); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("a deadline: %v", err)
			}
		})
	}
}

func TestImagesGoToTheRuntimeOfThePod(t *testing.T) {
	k, c, v := both(t, Options{})
	pull := func(name string, spec *runtimeapi.ImageSpec) {
		t.Helper()
		r, err := k.images.PullImage(t.Context(),
			&runtimeapi.PullImageRequest{Image: spec, SandboxConfig: sandboxConfig("default", "host")})
		if err != nil || r.ImageRef != name {
			t.Errorf("%v: %v, %v", spec, r, err)
		}
	}
	pull("containerd", &runtimeapi.ImageSpec{Image: "a"})
	pull("qemu", &runtimeapi.ImageSpec{Image: "a", Annotations: map[string]string{workload.Annotation: "vm"}})
	pull("qemu", &runtimeapi.ImageSpec{Image: "b", Annotations: map[string]string{workload.HandlerAnnotation: "qemu"}})
	pull("qemu", &runtimeapi.ImageSpec{Image: "b", RuntimeHandler: "qemu"})
	if v.handler != "" || v.hostname != "host" {
		t.Errorf("the runtime got the handler %q and the host name %q", v.handler, v.hostname)
	}
	c.set(func() {
		c.images["a"] = &runtimeapi.Image{Id: "a", Size: 1, RepoTags: []string{"x", "y"}}
		v.images["a"] = &runtimeapi.Image{Id: "a", Size: 2, RepoTags: []string{"y", "z"}, Pinned: true}
	})
	list, err := k.images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Images, func(a, b *runtimeapi.Image) int { return strings.Compare(a.Id, b.Id) })
	if got := fmt.Sprint(list.Images); len(list.Images) != 2 || !slices.Equal(list.Images[0].RepoTags,
		[]string{"x", "y", "z"}) || !list.Images[0].Pinned || list.Images[1].Id != "b" {
		t.Errorf("images %s", got)
	}
	if r, err := k.images.ImageStatus(t.Context(),
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: "b"}}); err != nil || r.Image != nil {
		t.Errorf("an image of machines is there for containers: %v, %v", r, err)
	}
	if _, err := k.images.RemoveImage(t.Context(),
		&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: "a"}}); err != nil ||
		c.images["a"] != nil || v.images["a"] != nil {
		t.Errorf("removal: %v, left %v, %v", err, c.images, v.images)
	}
	fs, err := k.images.ImageFsInfo(t.Context(), &runtimeapi.ImageFsInfoRequest{})
	if err != nil || len(fs.ImageFilesystems) != 2 || fs.ImageFilesystems[0].FsId.Mountpoint != "/containerd" ||
		len(fs.ContainerFilesystems) != 1 {
		t.Errorf("file systems %v, %v", fs, err)
	}
}

// TestEveryMethodOfTheCRIIsRouted: what the mux does not know goes to the primary runtime, also
// if it is about a pod that another has. So each method of the CRI is known, or is here.
func TestEveryMethodOfTheCRIIsRouted(t *testing.T) {
	primary := map[string]string{
		"RuntimeConfig": "the cgroup driver of the node, which is the primary runtime's",
		"CheckpointPod": "the kubelet does not call it",
		"RestorePod":    "the kubelet does not call it",
	}
	for _, service := range []grpc.ServiceDesc{
		runtimeapi.RuntimeService_ServiceDesc, runtimeapi.ImageService_ServiceDesc,
	} {
		var methods []string
		for _, m := range service.Methods {
			methods = append(methods, m.MethodName)
		}
		for _, s := range service.Streams {
			methods = append(methods, s.StreamName)
		}
		for _, m := range methods {
			if kindOf("/"+service.ServiceName+"/"+m) == toPrimary && primary[m] == "" {
				t.Errorf("%s of %s is not routed: decide which runtime answers", m, service.ServiceName)
			}
			delete(primary, m)
		}
	}
	for m := range primary {
		t.Errorf("%s is no method of the CRI any more", m)
	}
}
