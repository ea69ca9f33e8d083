package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/tests/hosts"
)

// A component that dies is reported with its reason and started again, while
// the others and the pods go on. It runs before the parallel tests, because
// nothing can start while containerd is away.
func TestKilledContainerdIsStartedAgain(t *testing.T) {
	c := sharedCluster(t)
	ns := c.namespace(t)
	pod := c.runPod(t, ns, testboxPod("stays"))
	before := c.components(t)

	pid := childNamed(t, c.proc.PID(), "containerd")
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, soon, "containerd is back", func(context.Context) error {
		if got := c.components(t)["containerd"]; !got.Ready || got.Restarts == before["containerd"].Restarts {
			return fmt.Errorf("its state is %+v", got)
		}
		return nil
	})
	after := c.components(t)
	if got := after["containerd"]; !strings.Contains(got.LastError, "killed") {
		t.Errorf("the reason of the restart is %q, want the signal", got.LastError)
	}
	for name, was := range before {
		if now := after[name]; name != "containerd" && (now.Restarts != was.Restarts || !now.Ready) {
			t.Errorf("component %s was %+v and is %+v", name, was, now)
		}
	}
	c.waitOwnNode(t)
	c.runPod(t, ns, testboxPod("comes"))
	if now := c.waitPodReady(t, ns, pod.Name); containerID(now) != containerID(pod) ||
		now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod was restarted: %+v", now.Status.ContainerStatuses[0])
	}
}

// components returns what the server says about its components.
func (c *cluster) components(t *testing.T) map[string]joinapi.ComponentStatus {
	t.Helper()
	out, err := c.client.Discovery().RESTClient().Get().AbsPath(joinapi.PathStatus).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var status joinapi.ServerStatus
	if err := json.Unmarshal(out, &status); err != nil {
		t.Fatal(err)
	}
	byName := map[string]joinapi.ComponentStatus{}
	for _, s := range status.Components {
		byName[s.Name] = s
	}
	return byName
}

// childNamed returns the process of this name below pid.
func childNamed(t *testing.T, pid int, name string) int {
	t.Helper()
	child := findChild(t, pid, name)
	if child == 0 {
		t.Fatalf("process %d has no child %s", pid, name)
	}
	return child
}

// findChild is childNamed, and returns 0 if there is none.
func findChild(t *testing.T, pid int, name string) int {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0 // it has ended
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range strings.Fields(string(children)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			if err == nil && strings.HasPrefix(string(cmdline), name+"\x00") {
				return child
			}
			if below := findChild(t, child, name); below != 0 {
				return below
			}
		}
	}
	return 0
}
