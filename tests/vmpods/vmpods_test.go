package vmpods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/scripts/ociarchive"
)

func TestPod(t *testing.T) {
	n := startNode(t)
	p := n.runPod("web", nil)
	if st := p.status(); st.State != runtimeapi.PodSandboxState_SANDBOX_READY ||
		!strings.HasPrefix(st.GetNetwork().GetIp(), "10.199.") {
		t.Errorf("sandbox %v", st)
	}
	volume := t.TempDir()
	if err := os.WriteFile(filepath.Join(volume, "key"), []byte("from the config map"), 0o644); err != nil {
		t.Fatal(err)
	}
	id := p.run("main", `echo "hello from $(hostname), FOO=$FOO"; echo oops >&2; trap 'echo bye; exit 7' TERM; `+
		`while :; do sleep 0.2; done`, func(c *runtimeapi.ContainerConfig) {
		c.Envs = []*runtimeapi.KeyValue{{Key: "FOO", Value: []byte("bar")}}
		c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/config", HostPath: volume, Readonly: true}}
	})
	n.waitFor("the container's output is in its log", func() bool { return strings.Count(p.log("main"), "\n") >= 2 })
	if got := p.log("main"); !strings.Contains(got, "stdout hello from web, FOO=bar\n") ||
		!strings.Contains(got, "stderr oops\n") {
		t.Errorf("log:\n%s", got)
	}
	if got := p.out(id, "cat", "/config/key"); got != "from the config map" {
		t.Errorf("the volume holds %q", got)
	}
	if _, _, code := p.exec(id, "sh", "-c", "exit 42"); code != 42 {
		t.Errorf("exit code of a command: %d", code)
	}
	if _, err := p.runtime.StopContainer(p.ctx(),
		&runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 30}); err != nil {
		t.Fatal(err)
	}
	if st := p.container(id); st.ExitCode != 7 || st.Reason != "Error" ||
		!strings.HasSuffix(p.log("main"), "stdout bye\n") {
		t.Errorf("after the end: %v, log:\n%s", st, p.log("main"))
	}
}

// TestRestart kills the runtime service: pods go on, are found again, and their
// output and exit codes are not lost.
func TestRestart(t *testing.T) {
	n := startNode(t)
	p := n.runPod("stays", nil)
	steady := p.run("steady", `i=0; while :; do echo line $i; i=$((i+1)); sleep 0.1; done`, nil)
	ends := p.run("ends", `while [ ! -e /go/now ]; do sleep 0.1; done; echo ending; exit 3`,
		func(c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/go", HostPath: filepath.Join(n.logs, "go")}}
		})
	created := p.create("later", "echo started later", nil)
	n.waitFor("it writes", func() bool { return strings.Contains(p.log("steady"), "line 3\n") })

	restart := n.killService()
	// While nobody looks: one container ends, the other goes on.
	if err := os.WriteFile(filepath.Join(n.logs, "go", "now"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	restart()

	if st := p.exited(ends); st.ExitCode != 3 || !strings.HasSuffix(p.log("ends"), "stdout ending\n") {
		t.Errorf("the container that ended meanwhile: %v, log:\n%s", st, p.log("ends"))
	}
	p.start(created)
	if st := p.exited(created); st.ExitCode != 0 || p.log("later") != "stdout started later\n" {
		t.Errorf("the container that was only created: %v, log:\n%s", st, p.log("later"))
	}
	before := strings.Count(p.log("steady"), "\n")
	n.waitFor("it writes on", func() bool { return strings.Count(p.log("steady"), "\n") > before+5 })
	for i, line := range strings.Split(strings.TrimSpace(p.log("steady")), "\n") {
		if want := fmt.Sprintf("stdout line %d", i); line != want {
			t.Fatalf("line %d of the log is %q: output was lost or is there twice", i, line)
		}
	}
	if got := p.out(steady, "echo", "still here"); got != "still here" {
		t.Errorf("a command says %q", got)
	}
}

// TestNothingIsLeft ends pods in the ways in which they can end.
func TestNothingIsLeft(t *testing.T) {
	n := startNode(t)
	before := n.leftovers()
	t.Run("removed", func(t *testing.T) {
		p := n.runPod("removed", nil)
		p.run("main", "sleep 1000", func(c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/v", HostPath: t.TempDir()}}
		})
		p.remove()
		n.nothingBut(t, before)
	})
	t.Run("machine dies", func(t *testing.T) {
		p := n.runPod("dies", nil)
		id := p.run("main", "sleep 1000", nil)
		n.killMachine(p.id)
		if st := p.exited(id); st.ExitCode != 255 || st.Reason != "Unknown" || st.Message == "" {
			t.Errorf("a container whose machine died: %v", st)
		}
		n.waitFor("the sandbox is not ready", func() bool {
			return p.status().State == runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		})
		p.remove()
		n.nothingBut(t, before)
	})
	t.Run("while the service is down", func(t *testing.T) {
		p := n.runPod("unseen", nil)
		id := p.run("main", "sleep 1000", nil)
		restart := n.killService()
		n.killMachine(p.id)
		restart()
		if st := p.container(id); st.State != runtimeapi.ContainerState_CONTAINER_EXITED || st.ExitCode != 255 {
			t.Errorf("a container whose machine died: %v", st)
		}
		p.remove()
		n.nothingBut(t, before)
	})
	t.Run("half made", func(t *testing.T) {
		// The service dies in the middle of making a pod.
		config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "half", Uid: "half"},
			Hostname: "half"}
		failed := make(chan error, 1)
		go func() {
			_, err := n.runtime.RunPodSandbox(n.ctx(), &runtimeapi.RunPodSandboxRequest{Config: config})
			failed <- err
		}()
		n.waitFor("QEMU runs", func() bool { return len(n.machines("")) > 0 })
		n.killService()()
		if err := <-failed; err == nil {
			t.Error("the pod was made all the same")
		}
		n.nothingBut(t, before)
	})
}

// bootSector writes a line to the serial port and halts the processor.
func bootSector(line string) []byte {
	sector := make([]byte, 1<<20)
	copy(sector, append([]byte{
		0x31, 0xc0, // xor ax, ax
		0x8e, 0xd8, // mov ds, ax
		0xbe, 0x15, 0x7c, // mov si, 0x7c15: the line
		0xba, 0xf8, 0x03, // mov dx, 0x3f8
		0xac,       // next: lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x03, // jz halt
		0xee,       // out dx, al
		0xeb, 0xf8, // jmp next
		0xf4,       // halt: hlt
		0xeb, 0xfd, // jmp halt
	}, line...))
	sector[510], sector[511] = 0x55, 0xaa
	return sector
}

// TestDiskImage boots the disk that an image carries, with and without the
// annotation that spares the boot of the embedded guest.
func TestDiskImage(t *testing.T) {
	const image = registry + "/cloud:1"
	n := startNode(t, ociarchive.Image{Ref: image, Files: []ociarchive.File{
		{Path: "disk/disk.img", Mode: 0o644, Data: bootSector("hello from the disk\r\n")},
	}})
	before := n.leftovers()
	for name, annotations := range map[string]map[string]string{"told": {"a4s.io/vm-boot": "disk"}, "found-out": nil} {
		t.Run(name, func(t *testing.T) {
			n.diskPod(t, n.runPod(name, func(c *runtimeapi.PodSandboxConfig) { c.Annotations = annotations }), image)
			n.nothingBut(t, before)
		})
	}
}

func (n *node) diskPod(t *testing.T, p *pod, image string) {
	cloud := func(c *runtimeapi.ContainerConfig) { c.Image.Image, c.Command = image, nil }
	id := p.run("main", "", cloud)
	n.waitFor("its console is the log", func() bool { return strings.Contains(p.log("main"), "hello from the disk") })
	if st := p.container(id); st.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the container: %v", st)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := n.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"true"},
		Timeout: 2}); err == nil || !strings.Contains(err.Error(), "qemu-guest-agent") {
		t.Errorf("a command without a guest agent: %v", err)
	}
	if _, err := n.runtime.StopContainer(n.ctx(),
		&runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 1}); err != nil {
		t.Fatal(err)
	}
	if st := p.container(id); st.State != runtimeapi.ContainerState_CONTAINER_EXITED || st.ExitCode != 137 {
		t.Errorf("after it was killed: %v", st)
	}
	// The kubelet starts another container in the same sandbox.
	again := p.create("again", "", cloud)
	n.killService()()
	p.start(again)
	n.waitFor("it boots again", func() bool { return strings.Contains(p.log("again"), "hello from the disk") })
	n.killService()()
	if st := p.container(again); st.State != runtimeapi.ContainerState_CONTAINER_RUNNING ||
		p.status().State != runtimeapi.PodSandboxState_SANDBOX_READY {
		t.Errorf("after a restart of the service: %v", st)
	}
	p.remove()
}
