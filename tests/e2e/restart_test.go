package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Pods live on when a4s stops, whichever way, and the next a4s takes them
// over. Both tests run before the parallel ones: they stop the shared server.

func TestPodsSurviveRestartOfTheServer(t *testing.T) {
	survive(t, func(t *testing.T, c *cluster) {
		if err := c.proc.Stop(stopTimeout); err != nil {
			t.Fatal(err)
		}
		if code, err := c.proc.ExitCode(stopTimeout); err != nil || code != 0 {
			t.Errorf("SIGTERM ended the server with exit code %d, %v", code, err)
		}
		noTrace(t, c.proc.Output())
	})
}

func TestPodsSurviveKillOfTheServer(t *testing.T) {
	survive(t, func(_ *testing.T, c *cluster) { c.proc.Kill() })
}

func survive(t *testing.T, end func(*testing.T, *cluster)) {
	t.Helper()
	c := sharedCluster(t)
	ns := c.namespace(t)
	before := c.runDeployment(t, ns, deployment("lasting", 1))[0]
	instance, err := c.ask(t.Context(), ns, before.Name, "/instance")
	if err != nil {
		t.Fatal(err)
	}
	svc := c.createService(t, ns, service("lasting", "lasting"))
	c.waitAnswer(t, ns, before.Name, instance, "/get", "url", "http://"+svc.Spec.ClusterIP+"/instance")

	end(t, c)
	if got := run(t, c.host, env.testbox, "get", "http://"+before.Status.PodIP+":8080/instance"); got != instance {
		t.Errorf("while the server is down the pod answers %q, want %q", got, instance)
	}
	if got := run(t, c.host, env.testbox, "get", "http://"+svc.Spec.ClusterIP+"/instance"); got != instance {
		t.Errorf("while the server is down the Service answers %q, want %q", got, instance)
	}

	c.restart(t)
	c.waitOwnNode(t)
	// The node must manage the old pod and start new ones.
	fresh := c.runPod(t, ns, testboxPod("fresh"))
	c.waitAnswer(t, ns, fresh.Name, instance, "/get", "url", "http://lasting/instance")
	after := c.waitPod(t, ns, before.Name, "is ready", podIsReady)
	if a, b := containerID(&before), containerID(after); a != b {
		t.Errorf("the restart replaced container %s by %s", a, b)
	}
	if n := after.Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("the restart of the server restarted the container %d times", n)
	}
	if got, err := c.ask(t.Context(), ns, after.Name, "/instance"); err != nil || got != instance {
		t.Errorf("the pod is now instance %q (%v), want %q", got, err, instance)
	}
	if out := c.logs(t, ns, after.Name); !strings.Contains(out, instance) {
		t.Errorf("the logs of the old pod are %q", out)
	}
	pods := c.waitDeployment(t, ns, "lasting", 1)
	if len(pods) != 1 || pods[0].Name != before.Name || pods[0].Status.Phase != corev1.PodRunning {
		t.Errorf("the deployment has other pods than before: %v", pods)
	}
}
