package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/internal/workload"
)

// Pods of the carried VM runtime: what pods of containers are tested for, and
// what becomes of them when a4s is killed.
func TestPodsInVirtualMachines(t *testing.T) {
	guest := os.Getenv("A4S_VM_GUEST")
	if guest == "" {
		t.Skip("boots guests: run it with `make test-vmpods`, or set A4S_VM_GUEST to what `make guest` makes")
	}
	if _, err := exec.LookPath(qemu.DefaultBinary); err != nil {
		t.Skip("needs QEMU: ", err)
	}
	c := ownCluster(t, "machines", "--runtime", "machines,vm,builtin", "--vm-accelerator", "tcg",
		"--vm-kernel", filepath.Join(guest, "vmlinuz"), "--vm-initrd", filepath.Join(guest, "initrd.img"))
	c.waitOwnNode(t)
	c.class = string(workload.VM)
	t.Run("logs, exec and port-forward", func(t *testing.T) { testLogsExecAndPortForward(t, c) })
	t.Run("volumes and downward API", func(t *testing.T) { testVolumesAndDownwardAPI(t, c) })
	t.Run("probes", func(t *testing.T) { testProbes(t, c) })
	t.Run("a4s is killed", func(t *testing.T) {
		ns := c.namespace(t)
		pod := c.runPod(t, ns, testboxPod("stays"))
		instance, err := c.ask(t.Context(), ns, pod.Name, "/instance")
		if err != nil {
			t.Fatal(err)
		}
		c.proc.Kill()
		c.restart(t)
		c.waitOwnNode(t)
		pod = c.waitPodReady(t, ns, pod.Name)
		if got, err := c.ask(t.Context(), ns, pod.Name, "/instance"); err != nil || got != instance ||
			pod.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("after the restart the container is %q (%v), was %q; %d restarts", got, err, instance,
				pod.Status.ContainerStatuses[0].RestartCount)
		}
		if err := c.client.CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	c.must(t, "killall")
	for _, process := range look(t, c.host).processes {
		if strings.Contains(process, "qemu-system") || strings.Contains(process, "virtiofsd") ||
			strings.Contains(process, "vm-runtime") {
			t.Errorf("killall left %.200s", process)
		}
	}
}
