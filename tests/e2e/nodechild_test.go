package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// nodeProcess is the name of the process that is the node of a server.
const nodeProcess = "a4s-node"

// requests asks the API all the time, until stop, which returns how often it was
// asked and the first failure.
func (c *cluster) requests(t *testing.T) (stop func() (int64, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int64
	failed := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			_, err := c.client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			if err == nil {
				_, err = c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
			}
			if err != nil && ctx.Err() == nil {
				failed <- err
				return
			}
			asked.Add(2)
		}
		failed <- nil
	}()
	return func() (int64, error) {
		cancel()
		return asked.Load(), <-failed
	}
}

// waitNodeProcess waits until the node of the server was started again after the
// process old, and is ready. It returns its process.
func (c *cluster) waitNodeProcess(t *testing.T, old int, since time.Time) int {
	t.Helper()
	pid := 0
	hosts.Until(t, soon, "the node was started again", func(context.Context) error {
		if pid = findChild(t, c.proc.PID(), nodeProcess); pid == 0 || pid == old {
			return errors.New("there is no other process")
		}
		if s := c.components(t)["node"]; !s.Ready {
			return fmt.Errorf("its state is %+v", s)
		}
		return nil
	})
	c.waitNodeReady(t, c.host.Name, since)
	return pid
}

// A node that ends as a panic ends it takes neither the API nor pods with it, and
// is started again.
func TestNodeOfAServerDies(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "apart")
	c.waitOwnNode(t)
	ns := c.namespace(t)
	pod := c.runPod(t, ns, testboxPod("stays"))
	server := c.proc.PID()
	node := childNamed(t, server, nodeProcess)

	stop := c.requests(t)
	since := time.Now()
	// Go prints all goroutines and exits, as after a panic.
	if err := unix.Kill(node, unix.SIGSEGV); err != nil {
		t.Fatal(err)
	}
	node = c.waitNodeProcess(t, node, since)
	if s := c.components(t)["node"]; s.Restarts != 1 || !strings.Contains(s.LastError, "SIGSEGV") {
		t.Errorf("the node is %+v, want one restart because of the signal", s)
	}
	if s := c.components(t)["kubelet"]; !s.Ready {
		t.Errorf("the kubelet is %+v", s)
	}
	c.runPod(t, ns, testboxPod("comes"))
	if now := c.waitPodReady(t, ns, pod.Name); containerID(now) != containerID(pod) ||
		now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod was restarted: %+v", now.Status.ContainerStatuses[0])
	}

	for range 3 {
		old := node
		if err := unix.Kill(old, unix.SIGABRT); err != nil {
			t.Fatal(err)
		}
		hosts.Until(t, soon, "the node is started again", func(context.Context) error {
			if node = findChild(t, server, nodeProcess); node == 0 || node == old {
				return errors.New("there is no other process")
			}
			return nil
		})
	}
	since = time.Now()
	node = c.waitNodeProcess(t, 0, since)
	if n, err := stop(); err != nil || n == 0 {
		t.Errorf("of %d requests while the node died one failed: %v", n, err)
	}
	if !c.proc.Running() || c.proc.PID() != server {
		t.Error("the server is another process")
	}
	var waits []time.Duration
	for line := range strings.Lines(c.proc.Output()) {
		if !strings.Contains(line, "component=node") || !strings.Contains(line, "component exited") {
			continue
		}
		_, text, _ := strings.Cut(line, "restartIn=")
		if wait, err := time.ParseDuration(strings.TrimSpace(text)); err == nil {
			waits = append(waits, wait)
		}
	}
	if len(waits) != 4 || waits[3] < 4*waits[0]/2 {
		t.Errorf("the node was started again after %v, want longer and longer", waits)
	}
	hosts.Until(t, soon, "a4s doctor tells that the node ended", func(context.Context) error {
		d, _ := c.doctor(t)
		for _, p := range d.Problems {
			if p.Code == "component-restarting" && p.Subject == "node" && strings.Contains(p.Detail, "4 times") {
				return nil
			}
		}
		return fmt.Errorf("it found %+v", d.Problems)
	})
	if out := c.must(t, "status"); !strings.Contains(out, "A component ended and was started again") {
		t.Errorf("a4s status lacks it:\n%s", out)
	}
	if now := c.waitPodReady(t, ns, pod.Name); containerID(now) != containerID(pod) {
		t.Error("the pod was restarted")
	}
}

// The node ends with its server, however that ends, and the next one starts.
func TestNodeEndsWithItsServer(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "ends")
	c.waitOwnNode(t)
	gone := func() {
		t.Helper()
		hosts.Until(t, soon, "no process of a4s is left", func(context.Context) error {
			commands, err := filepath.Glob(c.host.Path("/proc/[0-9]*/cmdline"))
			if err != nil {
				return err
			}
			for _, path := range commands {
				b, _ := os.ReadFile(path) // it may have ended
				if name, _, _ := strings.Cut(string(b), "\x00"); filepath.Base(name) == nodeProcess ||
					filepath.Base(name) == "containerd" || filepath.Base(name) == "a4s" {
					return fmt.Errorf("%s is %q", path, b)
				}
			}
			return nil
		})
	}
	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	if code, err := c.proc.ExitCode(stopTimeout); err != nil || code != 0 {
		t.Errorf("SIGTERM ended the server with exit code %d, %v", code, err)
	}
	noTrace(t, c.proc.Output())
	gone()

	c.restart(t)
	c.waitOwnNode(t)
	if vars, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ",
		childNamed(t, c.proc.PID(), nodeProcess))); err != nil || strings.Contains(string(vars), "A4S_") {
		t.Errorf("the environment of the node is %q, %v", vars, err)
	}
	c.proc.Kill()
	// At once: what the killed one leaves behind must not be in the way.
	c.restart(t)
	c.waitOwnNode(t)
	c.proc.Kill()
	gone()
}
