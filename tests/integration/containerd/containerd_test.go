package containerd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/runtime/containerd"
	"github.com/a4s-io/a4s/agent/runtime/images"
	"github.com/a4s-io/a4s/agent/runtime/registries"
	"github.com/a4s-io/a4s/embedded/payload"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/problem"
)

const (
	pauseImage  = "docker.io/a4s/pause:1"
	dockerImage = "docker.io/library/a4s-docker-archive:1"
	startLimit  = 4 * time.Minute
	bridge      = "a4stest0"
)

type node struct {
	dirs
	// registries is the content of the registries file, empty for none.
	registries string

	t       *testing.T
	group   *component.Group
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
	ctx     context.Context
}

func newNode(t *testing.T) *node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	// Not t.TempDir: sockets below it need a short path.
	root, err := os.MkdirTemp("", "a4s")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{dirs: dirs{Data: filepath.Join(root, "data"), State: filepath.Join(root, "run")}, t: t}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	n.ctx = ctx
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			log, _ := os.ReadFile(containerd.LogFile(n.Data))
			t.Logf("containerd's log:\n%s", log)
		}
		if err := os.RemoveAll(root); err != nil {
			t.Errorf("something is still in use: %v", err)
		}
	})
	conn, err := grpc.NewClient("unix://"+n.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n.runtime, n.images = runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)
	if _, err := payload.Extract(ctx, n.Data); err != nil {
		t.Fatal(err)
	}
	return n
}

// start runs containerd in this process' group of components.
func (n *node) start() {
	n.t.Helper()
	o, err := n.options()
	if err != nil {
		n.t.Fatal(err)
	}
	if n.registries != "" {
		file := filepath.Join(n.Data, "registries.yaml")
		if err := os.WriteFile(file, []byte(n.registries), 0o600); err != nil {
			n.t.Fatal(err)
		}
		if o.Registries, err = registries.Follow(file); err != nil {
			n.t.Fatal(err)
		}
	}
	n.group = component.NewGroup(logrus.WithField("test", n.t.Name()))
	ctx, cancel := context.WithTimeout(n.ctx, startLimit)
	defer cancel()
	if o.Registries != nil {
		n.group.Start(ctx, o.Registries.Component())
	}
	if err := n.group.StartAndWait(ctx, containerd.New(o)); err != nil {
		log, _ := os.ReadFile(containerd.LogFile(n.Data))
		n.t.Fatalf("containerd is not ready: %v; %+v\n%s", err, n.group.States(), log)
	}
}

func (n *node) stop() {
	n.t.Helper()
	if err := n.group.Stop(); err != nil {
		n.t.Error(err)
	}
}

// waitFor polls until ok, because nothing here announces itself.
func (n *node) waitFor(what string, ok func() bool) {
	n.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); <-tick.C {
		if ok() {
			return
		}
	}
	n.t.Fatalf("timeout: %s", what)
}

func (n *node) containerdPid() int {
	return pidOfCommand("containerd\x00--config\x00"+n.Data+"/", "")
}

// pidOfCommand is a process whose command line begins with start and has part in it, 0 if none runs.
func pidOfCommand(start, part string) int {
	matches, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range matches {
		// A process may end meanwhile.
		cmdline, _ := os.ReadFile(path)
		if bytes.HasPrefix(cmdline, []byte(start)) && bytes.Contains(cmdline, []byte(part)) {
			var pid int
			if _, err := fmt.Sscanf(path, "/proc/%d/cmdline", &pid); err == nil {
				return pid
			}
		}
	}
	return 0
}

func TestPodsSurvive(t *testing.T) {
	n := newNode(t)
	n.writeCNI()
	n.start()
	defer func() { n.stop() }()
	if err := n.importImages(n.ctx, logrus.WithField("test", t.Name())); err != nil {
		t.Fatal(err)
	}
	sandbox, container := n.runPod()
	defer n.removePod(sandbox)
	t.Run("TestWallW12KernelLimits", func(t *testing.T) {
		pids := map[string]int{"the sandbox": n.sandboxPid(sandbox), "the container": n.taskPid(container)}
		for what, pid := range pids {
			mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid))
			if err != nil {
				t.Fatal(err)
			}
			devpts := regexp.MustCompile(`(?m)^\S+ /dev/pts devpts \S*\bmax=512\b`)
			if !devpts.Match(mounts) {
				t.Errorf("%s has terminals without a limit:\n%s", what, mounts)
			}
		}
	})

	t.Run("kill containerd", func(t *testing.T) {
		old := n.containerdPid()
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", old)); err != nil || string(comm) != "containerd\n" {
			t.Errorf("containerd is called %q, %v", comm, err)
		}
		if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		n.waitFor("containerd comes back", func() bool {
			states := n.group.States()
			return states[0].Ready && states[0].Restarts == 1 && n.containerdPid() != old
		})
		if reason := n.group.States()[0].LastError; !strings.Contains(reason, "signal: killed") ||
			!strings.Contains(reason, "msg=") {
			t.Errorf("the reason %q does not tell the signal and the last lines of the log", reason)
		}
		n.checkRunning(t, container)
	})

	t.Run("stop and start", func(t *testing.T) {
		n.stop()
		if pid := n.containerdPid(); pid != 0 {
			t.Errorf("containerd still runs as process %d", pid)
		}
		n.start()
		n.checkRunning(t, container)
	})

	t.Run("kill the agent", func(t *testing.T) {
		n.stop()
		agent := n.startAgent(t)
		// A second agent on the same directories must not disturb it.
		o, err := n.options()
		if err != nil {
			t.Fatal(err)
		}
		var precondition *problem.Precondition
		if err := containerd.New(o).Run(n.ctx, func() {}); !errors.As(err, &precondition) {
			t.Errorf("beside a running agent: error = %v, want a problem.Precondition", err)
		}
		if err := agent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = agent.Wait() // "signal: killed"
		n.start()
		n.checkRunning(t, container)
	})
}

// sandboxPid and taskPid are the first processes of a sandbox and of a container.
func (n *node) sandboxPid(id string) int {
	n.t.Helper()
	status, err := n.runtime.PodSandboxStatus(n.ctx,
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	return n.pidOf(status.GetInfo()["info"], err)
}

func (n *node) taskPid(id string) int {
	n.t.Helper()
	status, err := n.runtime.ContainerStatus(n.ctx,
		&runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
	return n.pidOf(status.GetInfo()["info"], err)
}

func (n *node) pidOf(info string, err error) int {
	n.t.Helper()
	var found struct{ Pid int }
	if err == nil {
		err = json.Unmarshal([]byte(info), &found)
	}
	if err != nil || found.Pid == 0 {
		n.t.Fatalf("no process in %s: %v", info, err)
	}
	return found.Pid
}

func TestImport(t *testing.T) {
	n := newNode(t)
	n.start()
	defer n.stop()
	dir := images.Dir(n.Data)
	n.writeArchives(dir)

	logger, hook := test.NewNullLogger()
	if err := n.importImages(n.ctx, logrus.NewEntry(logger)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pauseImage, dockerImage} {
		status, err := n.images.ImageStatus(n.ctx,
			&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		if err != nil {
			t.Fatal(err)
		}
		image := status.GetImage()
		if image == nil || !image.GetPinned() || len(image.GetRepoDigests()) == 0 {
			t.Errorf("%s: CRI says %v", name, image)
		}
	}
	if got, want := files(hook, logrus.ErrorLevel),
		[]string{"garbage.tar", "truncated.tar.gz"}; !slices.Equal(got, want) {
		t.Errorf("broken archives in the log: %v, want %v", got, want)
	}
	if got, want := files(hook, logrus.InfoLevel), []string{"docker.tgz", "pause.tar"}; !slices.Equal(got, want) {
		t.Errorf("imported archives in the log: %v, want %v", got, want)
	}

	hook.Reset()
	if err := n.importImages(n.ctx, logrus.NewEntry(logger)); err != nil {
		t.Fatal(err)
	}
	if got := files(hook, logrus.InfoLevel); len(got) != 0 {
		t.Errorf("unchanged archives were imported again: %v", got)
	}

	if _, err := n.images.RemoveImage(n.ctx,
		&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: dockerImage}}); err != nil {
		t.Fatal(err)
	}
	hook.Reset()
	if err := n.importImages(n.ctx, logrus.NewEntry(logger)); err != nil {
		t.Fatal(err)
	}
	if got, want := files(hook, logrus.InfoLevel), []string{"docker.tgz"}; !slices.Equal(got, want) {
		t.Errorf("after its image was removed: imported %v, want %v", got, want)
	}

	log, err := os.ReadFile(containerd.LogFile(n.Data))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "unknown key") || strings.Contains(line, "level=fatal") {
			t.Errorf("containerd complains: %s", line)
		}
	}
}

// files returns the sorted names of the files in log entries of a level.
func files(hook *test.Hook, level logrus.Level) []string {
	var names []string
	for _, entry := range hook.AllEntries() {
		if file, ok := entry.Data["file"].(string); ok && entry.Level == level {
			names = append(names, filepath.Base(file))
		}
	}
	slices.Sort(names)
	return names
}

func (n *node) startAgent(t *testing.T) *exec.Cmd {
	t.Helper()
	encoded, err := json.Marshal(n.dirs)
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{nameAgent, string(encoded)},
		Env: os.Environ(), Stderr: os.Stderr}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the agent said %q, %v", line, err)
	}
	return cmd
}
