package mux

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/workload"
)

// peer is a small runtime: it keeps sandboxes, containers and images.
type peer struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer
	name   string
	dir    string
	server *grpc.Server

	mu         sync.Mutex
	notReady   string // why
	handlers   []*runtimeapi.RuntimeHandler
	sandboxes  map[string]*runtimeapi.PodSandbox
	containers map[string]*runtimeapi.Container
	images     map[string]*runtimeapi.Image
	asked      []string // method and id, of calls by id
	handler    string   // of the last sandbox or image
	hostname   string   // of the last sandbox
	header     []string
	agents     map[string]string // who made the last call, by method
	gaveUp     int               // calls that hung and were given up
	hang       chan struct{}     // calls wait until it is closed
	events     chan *runtimeapi.ContainerEventResponse
	next       int
}

func newPeer(t *testing.T, name string) *peer {
	t.Helper()
	dir, err := os.MkdirTemp("", "peer") // socket paths are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &peer{name: name, dir: dir, agents: map[string]string{},
		sandboxes: map[string]*runtimeapi.PodSandbox{}, containers: map[string]*runtimeapi.Container{},
		images: map[string]*runtimeapi.Image{},
		events: make(chan *runtimeapi.ContainerEventResponse, 10),
	}
	p.start(t)
	t.Cleanup(func() { p.server.Stop() })
	return p
}

func (p *peer) endpoint() string { return "unix://" + filepath.Join(p.dir, "s") }

// services are what a runtime serves.
type services interface {
	runtimeapi.RuntimeServiceServer
	runtimeapi.ImageServiceServer
}

func (p *peer) start(t *testing.T) {
	t.Helper()
	p.restartAs(t, p)
}

func (p *peer) restartAs(t *testing.T, as services) {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(p.dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	p.server = grpc.NewServer(grpc.MaxSendMsgSize(16<<20), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			p.mu.Lock()
			hang := p.hang
			p.agents[filepath.Base(info.FullMethod)] = strings.Join(md.Get("user-agent"), " ")
			p.mu.Unlock()
			if hang != nil {
				select {
				case <-hang:
				case <-ctx.Done():
					p.set(func() { p.gaveUp++ })
					return nil, status.FromContextError(ctx.Err()).Err()
				}
			}
			return next(ctx, req)
		}))
	runtimeapi.RegisterRuntimeServiceServer(p.server, as)
	runtimeapi.RegisterImageServiceServer(p.server, as)
	go func(s *grpc.Server) { _ = s.Serve(listener) }(p.server) // Stop ends it
}

// set changes the runtime.
func (p *peer) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *peer) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "v1", RuntimeName: p.name, RuntimeVersion: "1.0",
		RuntimeApiVersion: "v1"}, nil
}

func (p *peer) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			{Type: runtimeapi.RuntimeReady, Status: true},
			{Type: runtimeapi.NetworkReady, Status: p.notReady == "", Reason: p.notReady},
		}},
		RuntimeHandlers: p.handlers,
	}, nil
}

func (p *peer) RunPodSandbox(
	_ context.Context, r *runtimeapi.RunPodSandboxRequest,
) (*runtimeapi.RunPodSandboxResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	id := p.name + "-s" + string(rune('0'+p.next))
	p.sandboxes[id] = &runtimeapi.PodSandbox{Id: id, Metadata: r.Config.Metadata, Labels: r.Config.Labels}
	p.handler, p.hostname = r.RuntimeHandler, r.Config.Hostname
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: id}, nil
}

func (p *peer) CreateContainer(
	_ context.Context, r *runtimeapi.CreateContainerRequest,
) (*runtimeapi.CreateContainerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	id := p.name + "-c" + string(rune('0'+p.next))
	p.containers[id] = &runtimeapi.Container{Id: id, PodSandboxId: r.PodSandboxId,
		State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	return &runtimeapi.CreateContainerResponse{ContainerId: id}, nil
}

func (p *peer) ListPodSandbox(
	_ context.Context, r *runtimeapi.ListPodSandboxRequest,
) (*runtimeapi.ListPodSandboxResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &runtimeapi.ListPodSandboxResponse{}
	for _, s := range p.sandboxes {
		if id := r.GetFilter().GetId(); id == "" || id == s.Id {
			out.Items = append(out.Items, s)
		}
	}
	return out, nil
}

func (p *peer) ListContainers(
	_ context.Context, r *runtimeapi.ListContainersRequest,
) (*runtimeapi.ListContainersResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &runtimeapi.ListContainersResponse{}
	for _, c := range p.containers {
		if id := r.GetFilter().GetId(); id == "" || id == c.Id {
			out.Containers = append(out.Containers, c)
		}
	}
	return out, nil
}

// by notes a call by id.
func (p *peer) by(method, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, method+" "+id)
}

func (p *peer) calls() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

func (p *peer) ContainerStatus(
	ctx context.Context, r *runtimeapi.ContainerStatusRequest,
) (*runtimeapi.ContainerStatusResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	p.by("ContainerStatus", r.ContainerId)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.header = md.Get("traceparent")
	if p.containers[r.ContainerId] == nil {
		return nil, status.Errorf(codes.NotFound, "no container %s", r.ContainerId)
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{Id: r.ContainerId}}, nil
}

func (p *peer) StopContainer(
	ctx context.Context, r *runtimeapi.StopContainerRequest,
) (*runtimeapi.StopContainerResponse, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

func (p *peer) Exec(_ context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	p.by("Exec", r.ContainerId)
	return &runtimeapi.ExecResponse{Url: "http://" + p.name}, nil
}

func (p *peer) PortForward(
	_ context.Context, r *runtimeapi.PortForwardRequest,
) (*runtimeapi.PortForwardResponse, error) {
	p.by("PortForward", r.PodSandboxId)
	return &runtimeapi.PortForwardResponse{Url: "http://" + p.name}, nil
}

func (p *peer) CheckpointContainer(
	_ context.Context, r *runtimeapi.CheckpointContainerRequest,
) (*runtimeapi.CheckpointContainerResponse, error) {
	p.by("CheckpointContainer", r.ContainerId)
	return &runtimeapi.CheckpointContainerResponse{}, nil
}

func (p *peer) RemovePodSandbox(
	_ context.Context, r *runtimeapi.RemovePodSandboxRequest,
) (*runtimeapi.RemovePodSandboxResponse, error) {
	p.by("RemovePodSandbox", r.PodSandboxId)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sandboxes, r.PodSandboxId)
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

func (p *peer) UpdateRuntimeConfig(
	_ context.Context, r *runtimeapi.UpdateRuntimeConfigRequest,
) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	p.by("UpdateRuntimeConfig", r.RuntimeConfig.NetworkConfig.PodCidr)
	return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
}

func (p *peer) ListMetricDescriptors(
	context.Context, *runtimeapi.ListMetricDescriptorsRequest,
) (*runtimeapi.ListMetricDescriptorsResponse, error) {
	return &runtimeapi.ListMetricDescriptorsResponse{
		Descriptors: []*runtimeapi.MetricDescriptor{{Name: "cpu", Help: p.name}, {Name: p.name}},
	}, nil
}

func (p *peer) GetContainerEvents(
	_ *runtimeapi.GetEventsRequest, stream runtimeapi.RuntimeService_GetContainerEventsServer,
) error {
	for {
		select {
		case e := <-p.events:
			if err := stream.Send(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *peer) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &runtimeapi.ListImagesResponse{}
	for _, i := range p.images {
		out.Images = append(out.Images, i)
	}
	return out, nil
}

func (p *peer) ImageStatus(
	_ context.Context, r *runtimeapi.ImageStatusRequest,
) (*runtimeapi.ImageStatusResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handler = r.Image.RuntimeHandler
	return &runtimeapi.ImageStatusResponse{Image: p.images[r.Image.Image]}, nil
}

func (p *peer) PullImage(_ context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handler = r.Image.RuntimeHandler
	p.hostname = r.SandboxConfig.GetHostname()
	p.images[r.Image.Image] = &runtimeapi.Image{Id: r.Image.Image, Size: 1}
	return &runtimeapi.PullImageResponse{ImageRef: p.name}, nil
}

func (p *peer) RemoveImage(
	_ context.Context, r *runtimeapi.RemoveImageRequest,
) (*runtimeapi.RemoveImageResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.images, r.Image.Image)
	return &runtimeapi.RemoveImageResponse{}, nil
}

func (p *peer) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	fs := []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/" + p.name}}}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: fs, ContainerFilesystems: fs}, nil
}

// kubelet is what the tests ask the mux with.
type kubelet struct {
	runtimeapi.RuntimeServiceClient
	images runtimeapi.ImageServiceClient
	mux    *Mux
	admin  noderuntime.Client
}

// registered makes runtimes of peers: the first is the primary one for
// containers, others run machines.
func registered(peers ...*peer) []Runtime {
	var out []Runtime
	for i, p := range peers {
		r := Runtime{Name: p.name, Type: workload.VM, Endpoint: p.endpoint()}
		if i == 0 {
			r.Type, r.Primary = workload.Container, true
		}
		out = append(out, r)
	}
	return out
}

// serve runs a mux over the peers.
func serve(t *testing.T, o Options) *kubelet {
	t.Helper()
	dir, err := os.MkdirTemp("", "mux")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	o.Socket, o.AdminSocket = filepath.Join(dir, "sub", "cri"), filepath.Join(dir, "admin")
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- m.Component().Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := closeAll(m.all()); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(m.Endpoint(), grpc.WithUserAgent("kubelet"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	k := &kubelet{RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn),
		images: runtimeapi.NewImageServiceClient(conn), mux: m, admin: noderuntime.Client{Socket: o.AdminSocket}}
	return k
}

// awaitState waits until a runtime is in a state.
func (k *kubelet) awaitState(t *testing.T, name string, ready corev1.ConditionStatus, reason string) State {
	t.Helper()
	changed, end := k.mux.Subscribe()
	defer end()
	deadline := time.After(2 * time.Minute)
	for {
		var last State
		for _, s := range k.mux.States() {
			if s.Name == name {
				if last = s; s.Ready == ready && s.Reason == reason {
					return s
				}
			}
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s is %+v, want %s for %s", name, last, ready, reason)
		}
	}
}

// await waits until a condition holds, which nothing announces.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
