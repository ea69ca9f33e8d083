package vmpods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestPod(t *testing.T) {
	n := startNode(t)
	p := n.runPod("web", nil)
	if st := p.status(); st.State != runtimeapi.PodSandboxState_SANDBOX_READY || !strings.HasPrefix(st.GetNetwork().GetIp(), "10.199.") {
		t.Errorf("sandbox %v", st)
	}
	volume := t.TempDir()
	if err := os.WriteFile(filepath.Join(volume, "key"), []byte("from the config map"), 0o644); err != nil {
		t.Fatal(err)
	}
	id := p.run("main", `echo "hello from $(hostname), FOO=$FOO"; echo oops >&2; trap 'echo bye; exit 7' TERM; while :; do sleep 0.2; done`, func(c *runtimeapi.ContainerConfig) {
		c.Envs = []*runtimeapi.KeyValue{{Key: "FOO", Value: []byte("bar")}}
		c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/config", HostPath: volume, Readonly: true}}
	})
	n.waitFor("the container's output is in its log", func() bool { return strings.Count(p.log("main"), "\n") >= 2 })
	if got := p.log("main"); !strings.Contains(got, "stdout hello from web, FOO=bar\n") || !strings.Contains(got, "stderr oops\n") {
		t.Errorf("log:\n%s", got)
	}
	if got := p.out(id, "cat", "/config/key"); got != "from the config map" {
		t.Errorf("the volume holds %q", got)
	}
	if _, _, code := p.exec(id, "sh", "-c", "exit 42"); code != 42 {
		t.Errorf("exit code of a command: %d", code)
	}
	if _, err := p.runtime.StopContainer(p.ctx(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 30}); err != nil {
		t.Fatal(err)
	}
	if st := p.container(id); st.ExitCode != 7 || st.Reason != "Error" || !strings.HasSuffix(p.log("main"), "stdout bye\n") {
		t.Errorf("after the end: %v, log:\n%s", st, p.log("main"))
	}
}
