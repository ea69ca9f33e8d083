package containerd_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/runtime/containerd"
	"github.com/a4s-io/a4s/agent/runtime/mux"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/workload"
)

// behindMux is what the kubelet has of the node.
type behindMux struct {
	*mux.Mux
	runtimeapi.RuntimeServiceClient
	images runtimeapi.ImageServiceClient
}

// startMux puts a mux in front of the node's containerd.
func (n *node) startMux(dir string) *behindMux {
	n.t.Helper()
	log := logrus.WithField("test", n.t.Name())
	m, err := mux.New(mux.Options{
		Socket: filepath.Join(dir, "cri.sock"), File: filepath.Join(dir, "runtimes.json"),
		MemoryDir: filepath.Join(dir, "memory"),
		Runtimes: []noderuntime.Runtime{{Name: "one", Type: workload.Container,
			Endpoint: "unix://" + n.socket(), Primary: true}},
		Log: log,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	group := component.NewGroup(log)
	n.t.Cleanup(func() {
		if err := group.Stop(); err != nil {
			n.t.Error(err)
		}
	})
	if err := group.StartAndWait(n.ctx, m.Component()); err != nil {
		n.t.Fatal(err)
	}
	conn, err := grpc.NewClient(m.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	return &behindMux{Mux: m, RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn),
		images: runtimeapi.NewImageServiceClient(conn)}
}

// await waits for the state of a runtime and returns how long that took.
func (m *behindMux) await(t *testing.T, name string, ready corev1.ConditionStatus) time.Duration {
	t.Helper()
	began := time.Now()
	changed, end := m.Subscribe()
	defer end()
	for {
		if slices.ContainsFunc(m.States(), func(s mux.State) bool { return s.Name == name && s.Ready == ready }) {
			return time.Since(began)
		}
		select {
		case <-changed:
		case <-time.After(startLimit):
			t.Fatalf("%s did not become %s: %+v", name, ready, m.States())
		}
	}
}

// writeNetwork makes the node's network ready. Nobody uses it.
func (n *node) writeNetwork() {
	n.t.Helper()
	dir := containerd.CNIConfDir(n.Data)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	const conf = `{"cniVersion": "1.0.0", "name": "unused", "plugins": [{"type": "bridge", "bridge": "unused"}]}`
	if err := os.WriteFile(filepath.Join(dir, "10-test.conflist"), []byte(conf), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// pod is one that runs testbox on the network of the host.
type pod struct {
	sandbox, container string
	log                string
	config             *runtimeapi.PodSandboxConfig
}

func (m *behindMux) run(t *testing.T, dir, testbox, handler, name string) pod {
	t.Helper()
	p := pod{log: filepath.Join(dir, name, "c.log"), config: &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
		LogDirectory: filepath.Join(dir, name),
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
		}},
	}}
	ran, err := m.RunPodSandbox(t.Context(),
		&runtimeapi.RunPodSandboxRequest{Config: p.config, RuntimeHandler: handler})
	if err != nil {
		t.Fatal(err)
	}
	p.sandbox = ran.PodSandboxId
	made, err := m.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.sandbox, SandboxConfig: p.config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
			Image:    &runtimeapi.ImageSpec{Image: pauseImage},
			Command:  []string{"/testbox", "copy"},
			Mounts:   []*runtimeapi.Mount{{HostPath: testbox, ContainerPath: "/testbox", Readonly: true}},
			LogPath:  "c.log",
			Stdin:    true,
			Linux:    &runtimeapi.LinuxContainerConfig{},
		},
	})
	if err == nil {
		p.container = made.ContainerId
		_, err = m.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: p.container})
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (m *behindMux) remove(t *testing.T, p pod) {
	t.Helper()
	ctx := context.Background() // also in a cleanup
	if _, err := m.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
		t.Error(err)
	}
	if _, err := m.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
		t.Error(err)
	}
}

// use does with a pod what users do.
func (m *behindMux) use(t *testing.T, p pod) {
	t.Helper()
	ctx := t.Context()
	synced, err := m.ExecSync(ctx,
		&runtimeapi.ExecSyncRequest{ContainerId: p.container, Cmd: []string{"/testbox", "echo", "hello"}})
	if err != nil || strings.TrimSpace(string(synced.Stdout)) != "hello" {
		t.Errorf("exec of a probe: %v, %v", synced, err)
	}
	exec, err := m.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: p.container,
		Cmd: []string{"/testbox", "echo", p.config.Metadata.Name}, Stdout: true})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := stream(ctx, exec.Url, remotecommand.StreamOptions{Stdout: &out}); err != nil ||
		strings.TrimSpace(out.String()) != p.config.Metadata.Name {
		t.Errorf("exec: %q, %v", &out, err)
	}

	attach, err := m.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: p.container, Stdin: true, Stdout: true})
	if err != nil {
		t.Fatal(err)
	}
	attached, detach := context.WithCancel(ctx)
	in, typed := io.Pipe()
	shown, screen := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- stream(attached, attach.Url, remotecommand.StreamOptions{Stdin: in, Stdout: screen}) }()
	line := fmt.Sprintf("typed at %s\n", time.Now())
	if _, err := io.WriteString(typed, line); err != nil {
		t.Fatal(err)
	}
	if got, err := bufio.NewReader(shown).ReadString('\n'); err != nil || got != line {
		t.Errorf("attach: %q, %v, want %q", got, err, line)
	}
	detach()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("attach ended with %v", err)
	}
	if err := errors.Join(typed.Close(), shown.Close()); err != nil {
		t.Error(err)
	}
	// It may be shown before it is in the log.
	var log []byte
	for deadline := time.Now().Add(startLimit); ; time.Sleep(50 * time.Millisecond) {
		log, err = os.ReadFile(p.log)
		if err == nil && strings.Contains(string(log), strings.TrimSpace(line)) || time.Now().After(deadline) {
			break
		}
	}
	if !strings.Contains(string(log), strings.TrimSpace(line)) {
		t.Errorf("the log is without what was typed: %v\n%s", err, log)
	}

	forward, err := m.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: p.sandbox})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := throughPort(forward.Url); err != nil || got != "from the host" {
		t.Errorf("port-forward: %q, %v", got, err)
	}

	stats, err := m.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: p.container})
	if err != nil || stats.GetStats().GetMemory().GetWorkingSetBytes().GetValue() == 0 {
		t.Errorf("statistics: %v, %v", stats, err)
	}
	if err := os.Rename(p.log, p.log+".1"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ReopenContainerLog(ctx,
		&runtimeapi.ReopenContainerLogRequest{ContainerId: p.container}); err != nil {
		t.Errorf("rotating the log: %v", err)
	}
	if _, err := os.Stat(p.log); err != nil {
		t.Errorf("the log after its rotation: %v", err)
	}
}

func stream(ctx context.Context, to string, o remotecommand.StreamOptions) error {
	u, err := url.Parse(to)
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{Host: u.Host}, http.MethodPost, u)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, o)
}

// throughPort gets a line of a server on the host's loopback through a pod.
func throughPort(to string) (string, error) {
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer server.Close()
	go func() {
		if conn, err := server.Accept(); err == nil {
			_, _ = io.WriteString(conn, "from the host") // the reader says what is missing
			_ = conn.Close()
		}
	}()
	u, err := url.Parse(to)
	if err != nil {
		return "", err
	}
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{Host: u.Host})
	if err != nil {
		return "", err
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	port := server.Addr().(*net.TCPAddr).Port
	forwarder, err := portforward.NewOnAddresses(spdy.NewDialer(upgrader, &http.Client{Transport: transport},
		http.MethodPost, u),
		[]string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return "", err
	case <-ready:
	}
	defer func() {
		close(stop)
		<-ended
	}()
	ports, err := forwarder.GetPorts()
	if err != nil {
		return "", err
	}
	conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	data, err := io.ReadAll(conn)
	return string(data), err
}

func (m *behindMux) listed(t *testing.T) (sandboxes, containers []string) {
	t.Helper()
	s, err := m.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range s.Items {
		sandboxes = append(sandboxes, one.Id)
	}
	for _, one := range c.Containers {
		containers = append(containers, one.Id)
	}
	return sandboxes, containers
}

func TestTwoRuntimesBehindOneEndpoint(t *testing.T) {
	one, two := newNode(t), newNode(t)
	testbox := filepath.Join(filepath.Dir(one.Data), "testbox")
	build := exec.Command("go", "build", "-o", testbox, "../../images/testbox")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, n := range []*node{one, two} {
		n.writeNetwork()
		n.start()
		defer n.stop()
		if err := n.importImages(n.ctx, logrus.WithField("test", t.Name())); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Dir(one.Data)
	m := one.startMux(dir)
	m.await(t, "one", corev1.ConditionTrue)

	first := m.run(t, dir, testbox, "", "first")
	defer m.remove(t, first)
	if _, err := m.Add(noderuntime.Runtime{Name: "two", Type: workload.Container,
		Endpoint: "unix://" + two.socket()}); err != nil {
		t.Fatal(err)
	}
	m.await(t, "two", corev1.ConditionTrue)
	second := m.run(t, dir, testbox, "two", "second")
	removed := false
	defer func() {
		if !removed {
			m.remove(t, second)
		}
	}()
	// Each is where it belongs, and both are there for the kubelet.
	for n, p := range map[*node]pod{one: first, two: second} {
		if r, err := n.runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{}); err != nil ||
			len(r.Items) != 1 || r.Items[0].Id != p.sandbox {
			t.Errorf("a runtime has %v, %v, want %s", r, err, p.sandbox)
		}
	}
	everything := func(when string, m *behindMux) {
		t.Helper()
		sandboxes, containers := m.listed(t)
		slices.Sort(sandboxes)
		slices.Sort(containers)
		s, c := []string{first.sandbox, second.sandbox}, []string{first.container, second.container}
		slices.Sort(s)
		slices.Sort(c)
		if !slices.Equal(sandboxes, s) || !slices.Equal(containers, c) {
			t.Errorf("%s: sandboxes %v, want %v; containers %v, want %v", when, sandboxes, s, containers, c)
		}
	}
	everything("with both runtimes", m)
	m.use(t, first)
	m.use(t, second)
	stats, err := m.ListContainerStats(t.Context(), &runtimeapi.ListContainerStatsRequest{})
	if err != nil || len(stats.Stats) != 2 {
		t.Errorf("statistics of %d containers, %v", len(stats.GetStats()), err)
	}
	list, err := m.images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
	if err != nil || len(list.Images) != 1 {
		t.Errorf("one image that both have is listed %d times, %v", len(list.GetImages()), err)
	}

	t.Run("a runtime that hangs", func(t *testing.T) {
		pid := two.containerdPid()
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		t.Logf("seen after %s", m.await(t, "two", corev1.ConditionUnknown).Round(time.Millisecond))
		everything("while one hangs", m)
		m.use(t, first)
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		t.Logf("seen after %s", m.await(t, "two", corev1.ConditionTrue).Round(time.Millisecond))
		m.use(t, second)
	})

	t.Run("a runtime that is killed", func(t *testing.T) {
		if err := syscall.Kill(two.containerdPid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		t.Logf("seen after %s", m.await(t, "two", corev1.ConditionUnknown).Round(time.Millisecond))
		everything("while one is gone", m)
		m.await(t, "two", corev1.ConditionTrue) // supervised, it starts again
		everything("after its return", m)
		m.use(t, second)
		m.use(t, first)
	})

	t.Run("a new mux", func(t *testing.T) {
		again := t.TempDir()
		if err := os.CopyFS(again, os.DirFS(filepath.Join(dir, "memory"))); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(filepath.Join(dir, "runtimes.json"))
		if err == nil {
			err = os.WriteFile(filepath.Join(again, "runtimes.json"), file, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		next := one.startMux(again)
		next.use(t, second) // it has to find out whose that is
		next.use(t, first)
		everything("after a restart of a4s", next)
	})

	if err := m.Remove(t.Context(), "two", false); !errors.Is(err, mux.ErrInUse) {
		t.Errorf("removing a runtime with a pod: %v", err)
	}
	m.remove(t, second)
	removed = true
	if err := m.Remove(t.Context(), "two", false); err != nil {
		t.Errorf("removing an empty runtime: %v", err)
	}
	if _, err := m.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: second.config,
		RuntimeHandler: "two"}); err == nil || !strings.Contains(err.Error(), `"two"`) {
		t.Errorf("a pod for a runtime that was removed: %v", err)
	}
	m.use(t, first)
}
