package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/runtime/containerd"
	"github.com/a4s-io/a4s/agent/runtime/images"
	"github.com/a4s-io/a4s/agent/runtime/mux"
	"github.com/a4s-io/a4s/embedded/payload"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/workload"
)

const pauseImage = "docker.io/a4s/pause:1"

// side is one way to the same containerd.
type side struct {
	client runtimeapi.RuntimeServiceClient
	took   []time.Duration
}

func (s *side) time(b *testing.B, f func()) {
	b.Helper()
	began := time.Now()
	f()
	s.took = append(s.took, time.Since(began))
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// bounds returns the median, and between what it lies with 95 % confidence.
func bounds(all []float64) (low, middle, high float64) {
	slices.Sort(all)
	n := len(all)
	off := int(math.Ceil(0.98 * math.Sqrt(float64(n))))
	return all[max(0, n/2-off)], all[n/2], all[min(n-1, n/2+off)]
}

// report says how much longer the way through the mux takes.
func report(b *testing.B, direct, through *side) {
	b.Helper()
	d, m := median(direct.took), median(through.took)
	b.ReportMetric(0, "ns/op") // of both together: it means nothing
	b.ReportMetric(float64(d.Microseconds()), "direct-µs")
	b.ReportMetric(float64(m.Microseconds()), "mux-µs")
	b.ReportMetric(100*(float64(m)/float64(d)-1), "%overhead")
}

// runtimeSides starts a containerd and a mux in front of it. Each side has a
// connection of its own, and again is as direct as direct is.
func runtimeSides(b *testing.B) (direct, through, again *side) {
	b.Helper()
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	binary := os.Getenv("A4S_BINARY")
	if binary == "" {
		b.Skip("needs the built binary: run it with `make bench`")
	}
	root, err := os.MkdirTemp("", "a4s") // socket paths are short
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			b.Errorf("something is still in use: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	b.Cleanup(cancel)
	data, state := filepath.Join(root, "data"), filepath.Join(root, "run")
	carried, err := payload.Extract(ctx, data)
	if err != nil {
		b.Fatal(err)
	}
	info, err := host.Probe()
	if err != nil {
		b.Fatal(err)
	}
	logger := logrus.New()
	logger.SetLevel(logrus.WarnLevel)
	log := logrus.NewEntry(logger)
	group := component.NewGroup(log)
	b.Cleanup(func() {
		if err := group.Stop(); err != nil {
			b.Error(err)
		}
	})
	if err := group.StartAndWait(ctx, containerd.New(containerd.Options{
		DataDir: data, StateDir: state, Executable: binary, ShimPath: carried.ShimPath, RuncPath: carried.RuncPath,
		CNIBinDir: carried.CNIBinDir, PauseImage: pauseImage, Host: info, Log: log,
	})); err != nil {
		b.Fatal(err)
	}
	socket := containerd.Socket(state)
	if _, err := images.Import(ctx, images.Options{
		Socket: socket, Snapshotter: "overlayfs", Required: []string{carried.PauseImageTar},
		Dir: images.Dir(data), StateFile: images.StateFile(data), Log: log,
	}); err != nil {
		b.Fatal(err)
	}
	m, err := mux.New(mux.Options{
		Socket: filepath.Join(root, "cri.sock"),
		Runtimes: []noderuntime.Runtime{{Name: "containerd", Type: workload.Container,
			Endpoint: "unix://" + socket, Primary: true}},
		Log: log,
	})
	if err != nil {
		b.Fatal(err)
	}
	m.SetClusterDomain("cluster.local")
	if err := group.StartAndWait(ctx, m.Component()); err != nil {
		b.Fatal(err)
	}
	dial := func(endpoint string) *side {
		conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		return &side{client: runtimeapi.NewRuntimeServiceClient(conn)}
	}
	return dial("unix://" + socket), dial(m.Endpoint()), dial("unix://" + socket)
}

func sandboxConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
		Labels: map[string]string{"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "default",
			"io.kubernetes.pod.uid": name},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
		}},
	}
}

// containerConfig is of the size that the kubelet's are.
func containerConfig(sandbox *runtimeapi.PodSandboxConfig, name string) *runtimeapi.ContainerConfig {
	c := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: pauseImage, UserSpecifiedImage: pauseImage},
		Labels:   map[string]string{"io.kubernetes.container.name": name},
		Annotations: map[string]string{
			"io.kubernetes.container.hash":                   "12345678",
			"io.kubernetes.container.restartCount":           "0",
			"io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
		},
		Linux: &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{OomScoreAdj: 1000,
			MemoryLimitInBytes: 64 << 20}},
	}
	for k, v := range sandbox.Labels {
		c.Labels[k] = v
	}
	for i := range 20 {
		c.Envs = append(c.Envs,
			&runtimeapi.KeyValue{Key: fmt.Sprintf("SERVICE_%d_PORT_80_TCP_ADDR", i), Value: []byte("10.43.0.1")})
	}
	return c
}

// BenchmarkPodStart measures what the mux adds to the start of a pod.
func BenchmarkPodStart(b *testing.B) {
	direct, through, _ := runtimeSides(b)
	ctx := context.Background()
	n := 0
	for b.Loop() {
		for _, s := range alternate(n, direct, through) {
			n++
			config := sandboxConfig(fmt.Sprintf("pod-%d", n))
			var sandbox string
			s.time(b, func() {
				ran, err := s.client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
				if err != nil {
					b.Fatal(err)
				}
				sandbox = ran.PodSandboxId
				made, err := s.client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox,
					SandboxConfig: config, Config: containerConfig(config, "c")})
				if err == nil {
					_, err = s.client.StartContainer(ctx,
						&runtimeapi.StartContainerRequest{ContainerId: made.ContainerId})
				}
				if err != nil {
					b.Fatal(err)
				}
			})
			remove(b, direct, sandbox)
		}
	}
	report(b, direct, through)
}

// BenchmarkListContainers measures what the mux adds to a list of 100
// containers, and what it costs the process of the node.
func BenchmarkListContainers(b *testing.B) {
	direct, through, again := runtimeSides(b)
	ctx := context.Background()
	config := sandboxConfig("pod")
	ran, err := direct.client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		b.Fatal(err)
	}
	defer remove(b, direct, ran.PodSandboxId)
	for i := range 100 {
		if _, err := direct.client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
			PodSandboxId: ran.PodSandboxId, SandboxConfig: config,
			Config: containerConfig(config, fmt.Sprintf("c%d", i)),
		}); err != nil {
			b.Fatal(err)
		}
	}
	list := func(s *side) {
		r, err := s.client.ListContainers(ctx,
			&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{}})
		if err != nil || len(r.Containers) != 100 {
			b.Fatal(err, len(r.GetContainers()))
		}
	}
	all := []*side{direct, through, again}
	for range 500 { // connections learn how much they may send at once
		for _, s := range all {
			list(s)
		}
	}
	for b.Loop() {
		for range 100 {
			// In any order, as a list finds what the one before it left.
			rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for _, s := range all {
				s.time(b, func() { list(s) })
			}
		}
	}
	for name, s := range map[string]*side{"ratio": through, "control": again} {
		ratios := make([]float64, len(s.took))
		for i := range ratios {
			ratios[i] = float64(s.took[i]) / float64(direct.took[i])
		}
		low, middle, high := bounds(ratios)
		b.ReportMetric(low, name+"-low")
		b.ReportMetric(middle, name)
		b.ReportMetric(high, name+"-high")
	}
	report(b, direct, through)

	// What the process spends is counted for many lists, as clocks of
	// processes are coarse.
	const each = 50
	var used [2]spent
	for n := range 10 {
		for _, s := range alternate(2*n, direct, through) {
			i := 0
			if s == through {
				i = 1
			}
			before := spend(b)
			for range each {
				list(s)
			}
			used[i] = used[i].plus(spend(b), before)
		}
	}
	const times = 10 * each
	b.ReportMetric(float64(used[1].allocs-used[0].allocs)/times, "mux-allocs")
	b.ReportMetric(float64(used[1].bytes-used[0].bytes)/times, "mux-B")
	b.ReportMetric(float64((used[1].cpu-used[0].cpu).Microseconds())/times, "mux-cpu-µs")
}

// spent is what this process has used.
type spent struct {
	allocs, bytes int64
	cpu           time.Duration
}

func (s spent) plus(after, before spent) spent {
	return spent{s.allocs + after.allocs - before.allocs, s.bytes + after.bytes - before.bytes,
		s.cpu + after.cpu - before.cpu}
}

func spend(b *testing.B) spent {
	b.Helper()
	var memory runtime.MemStats
	var usage syscall.Rusage
	runtime.ReadMemStats(&memory)
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return spent{int64(memory.Mallocs), int64(memory.TotalAlloc),
		time.Duration(usage.Utime.Nano() + usage.Stime.Nano())}
}

// alternate lets each side go first as often as the other: what runs second
// finds warm caches.
func alternate(n int, a, b *side) []*side {
	if n/2%2 == 0 {
		return []*side{a, b}
	}
	return []*side{b, a}
}

func remove(b *testing.B, s *side, sandbox string) {
	b.Helper()
	ctx := context.Background()
	if _, err := s.client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		b.Error(err)
	}
	if _, err := s.client.RemovePodSandbox(ctx,
		&runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		b.Error(err)
	}
}
