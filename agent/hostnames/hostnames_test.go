package hostnames

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeRuntime remembers what it is asked for.
type fakeRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	hostname string
	labels   map[string]string
	header   []string
}

func (f *fakeRuntime) RunPodSandbox(_ context.Context, r *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	f.hostname, f.labels = r.Config.Hostname, r.Config.Labels
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: "s1"}, nil
}

func (f *fakeRuntime) CreateContainer(context.Context, *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	return &runtimeapi.CreateContainerResponse{ContainerId: "c1"}, nil
}

func (f *fakeRuntime) StopContainer(ctx context.Context, _ *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

func (f *fakeRuntime) ContainerStatus(ctx context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	f.header = md.Get("traceparent")
	return nil, status.Errorf(codes.NotFound, "no container %s", r.ContainerId)
}

func (f *fakeRuntime) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream runtimeapi.RuntimeService_GetContainerEventsServer) error {
	for _, id := range []string{"c1", "c2"} {
		if err := stream.Send(&runtimeapi.ContainerEventResponse{ContainerId: id}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeRuntime) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: strings.Repeat("x", 10<<20)}}}, nil
}

// serve runs f behind the endpoint and returns a client of the latter.
func serve(t *testing.T, f *fakeRuntime, kubeletDir string) runtimeapi.RuntimeServiceClient {
	t.Helper()
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "runtime"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxSendMsgSize(16 << 20))
	runtimeapi.RegisterRuntimeServiceServer(server, f)
	go func() { _ = server.Serve(listener) }() // Stop ends it
	t.Cleanup(server.Stop)

	o := Options{Socket: filepath.Join(dir, "sub", "cri"), Runtime: "unix://" + filepath.Join(dir, "runtime"), KubeletDir: kubeletDir, ClusterDomain: "cluster.local"}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- o.run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-ready
	conn, err := grpc.NewClient(o.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return runtimeapi.NewRuntimeServiceClient(conn)
}

func sandbox(namespace, hostname string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: namespace, Uid: "u1"}, Hostname: hostname, Labels: map[string]string{"a": "b"},
	}
}

func TestHostNames(t *testing.T) {
	f := &fakeRuntime{}
	client := serve(t, f, t.TempDir())
	for _, c := range []struct{ namespace, hostname, want string }{
		{"default.t1", "web", "web"},
		{"default.t1", "web.sub.default.t1.svc.cluster.local", "web.sub.default.svc.cluster.local"},
		{"default.t1", "web.sub.default.t2.svc.cluster.local", "web.sub.default.t2.svc.cluster.local"},
		{"default", "web.sub.default.svc.cluster.local", "web.sub.default.svc.cluster.local"},
	} {
		r, err := client.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: sandbox(c.namespace, c.hostname)})
		if err != nil || r.PodSandboxId != "s1" || f.hostname != c.want || f.labels["a"] != "b" {
			t.Errorf("%s in %s: %v, %v, hostname %q, want %q", c.hostname, c.namespace, r, err, f.hostname, c.want)
		}
	}
}

func TestHostsFile(t *testing.T) {
	const line = "10.42.0.5\tweb.sub.default.t1.svc.cluster.local\tweb\n"
	for name, c := range map[string]struct {
		namespace, file string // below the kubelet's directory
		want            string
	}{
		"tenant":            {"default.t1", "pods/u1/etc-hosts", "10.42.0.5\tweb.sub.default.svc.cluster.local\tweb\n"},
		"system":            {"default", "pods/u1/etc-hosts", line},
		"another pod's":     {"default.t1", "pods/u2/etc-hosts", line},
		"a file of the pod": {"default.t1", "pods/u1/volumes/hosts", line},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, c.file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(line), 0o644); err != nil {
				t.Fatal(err)
			}
			client := serve(t, &fakeRuntime{}, dir)
			r, err := client.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
				SandboxConfig: sandbox(c.namespace, "web"),
				Config:        &runtimeapi.ContainerConfig{Mounts: []*runtimeapi.Mount{{ContainerPath: "/x", HostPath: "/y"}, {ContainerPath: "/etc/hosts", HostPath: file}}},
			})
			if err != nil || r.ContainerId != "c1" {
				t.Fatalf("%v, %v", r, err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != c.want {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestEverythingElseIsPassedOn(t *testing.T) {
	f := &fakeRuntime{}
	client := serve(t, f, t.TempDir())
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-1")
	if _, err := client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: "c9"}); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "no container c9") {
		t.Errorf("an error of the runtime became %v", err)
	}
	if len(f.header) != 1 || f.header[0] != "00-1" {
		t.Errorf("metadata: %v", f.header)
	}
	if _, err := client.Version(ctx, &runtimeapi.VersionRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("what the runtime does not have: %v", err)
	}
	if r, err := client.ListContainers(ctx, &runtimeapi.ListContainersRequest{}); err != nil || len(r.Containers[0].Id) != 10<<20 {
		t.Errorf("a large answer: %v", err)
	}
	events, err := client.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"c1", "c2"} {
		if e, err := events.Recv(); err != nil || e.ContainerId != want {
			t.Errorf("event %v, %v, want %s", e, err, want)
		}
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := client.StopContainer(short, &runtimeapi.StopContainerRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a deadline: %v", err)
	}
}
