package vmpods

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// callTimeout bounds one call of the CRI. Emulated machines are slow.
const callTimeout = 2 * time.Minute

func (n *node) ctx() context.Context {
	ctx, cancel := context.WithTimeout(n.t.Context(), callTimeout)
	n.t.Cleanup(cancel)
	return ctx
}

// pod is a sandbox of the test.
type pod struct {
	*node
	id     string
	config *runtimeapi.PodSandboxConfig
}

func (n *node) runPod(name string, change func(*runtimeapi.PodSandboxConfig)) *pod {
	n.t.Helper()
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		Hostname: name, LogDirectory: filepath.Join(n.logs, name),
		DnsConfig: &runtimeapi.DNSConfig{Servers: []string{"10.43.0.10"},
			Searches: []string{"default.svc.cluster.local"}, Options: []string{"ndots:5"}},
		Labels: map[string]string{"pod": name},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		}},
	}
	if change != nil {
		change(config)
	}
	answer, err := n.runtime.RunPodSandbox(n.ctx(),
		&runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: "vm"})
	if err != nil {
		n.t.Fatalf("running pod %s: %v", name, err)
	}
	p := &pod{node: n, id: answer.GetPodSandboxId(), config: config}
	n.t.Cleanup(p.remove)
	return p
}

func (p *pod) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if _, err := p.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id}); err != nil {
		p.t.Errorf("stopping pod %s: %v", p.config.Metadata.Name, err)
	}
	if _, err := p.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id}); err != nil {
		p.t.Errorf("removing pod %s: %v", p.config.Metadata.Name, err)
	}
}

func (p *pod) status() *runtimeapi.PodSandboxStatus {
	p.t.Helper()
	answer, err := p.runtime.PodSandboxStatus(p.ctx(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id})
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.GetStatus()
}

// create makes a container that runs a script, unless change says otherwise.
func (p *pod) create(name, script string, change func(*runtimeapi.ContainerConfig)) string {
	p.t.Helper()
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: busyboxImage},
		Command: []string{"sh", "-c", script}, LogPath: name + ".log", Linux: &runtimeapi.LinuxContainerConfig{},
	}
	if change != nil {
		change(config)
	}
	answer, err := p.runtime.CreateContainer(p.ctx(),
		&runtimeapi.CreateContainerRequest{PodSandboxId: p.id, Config: config, SandboxConfig: p.config})
	if err != nil {
		p.t.Fatalf("creating container %s: %v", name, err)
	}
	return answer.GetContainerId()
}

func (p *pod) start(id string) {
	p.t.Helper()
	if _, err := p.runtime.StartContainer(p.ctx(), &runtimeapi.StartContainerRequest{ContainerId: id}); err != nil {
		p.t.Fatalf("starting a container: %v", err)
	}
}

func (p *pod) run(name, script string, change func(*runtimeapi.ContainerConfig)) string {
	p.t.Helper()
	id := p.create(name, script, change)
	p.start(id)
	return id
}

func (p *pod) container(id string) *runtimeapi.ContainerStatus {
	p.t.Helper()
	answer, err := p.runtime.ContainerStatus(p.ctx(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.GetStatus()
}

// exited waits for the end of a container.
func (p *pod) exited(id string) *runtimeapi.ContainerStatus {
	p.t.Helper()
	var st *runtimeapi.ContainerStatus
	p.waitFor("the container has ended", func() bool {
		st = p.container(id)
		return st.State == runtimeapi.ContainerState_CONTAINER_EXITED
	})
	return st
}

func (p *pod) exec(id string, command ...string) (stdout, stderr string, code int32) {
	p.t.Helper()
	answer, err := p.runtime.ExecSync(p.ctx(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: 60})
	if err != nil {
		p.t.Fatalf("running %q: %v", command, err)
	}
	return string(answer.Stdout), string(answer.Stderr), answer.ExitCode
}

func (p *pod) out(id string, command ...string) string {
	p.t.Helper()
	stdout, stderr, code := p.exec(id, command...)
	if code != 0 {
		p.t.Errorf("%q ended with %d: %s%s", command, code, stdout, stderr)
	}
	return strings.TrimSpace(stdout)
}

// log returns the text of the container's log, "stream text" a line.
func (p *pod) log(name string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.logs, p.config.Metadata.Name, name+".log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(data)) {
		if f := strings.SplitN(line, " ", 4); len(f) == 4 {
			b.WriteString(f[1] + " " + f[3])
		}
	}
	return b.String()
}

func (n *node) waitFor(what string, done func() bool) {
	n.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(callTimeout)
	for !done() {
		select {
		case <-tick.C:
		case <-timeout:
			n.t.Fatalf("waited %s in vain: %s", callTimeout, what)
		}
	}
}
