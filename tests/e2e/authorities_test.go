package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/tests/hosts"
)

// TestAuthoritiesAreReplacedUnderPods replaces the CAs of a server with a
// second node, as documented: first both are trusted, then only the new ones.
// No container may end for it, and both nodes do their work at each step.
func TestAuthoritiesAreReplacedUnderPods(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "authorities")
	worker := newAgent(t, "authoritiesnode", c)
	c.waitOwnNode(t)
	c.waitNodeReady(t, worker.host.Name, worker.started)
	ns := c.namespace(t)
	containers := map[string]string{}
	for name, n := range map[string]*node{"near": &c.node, "far": worker} {
		containers[name] = containerID(c.runPod(t, ns, on(n.host.Name, testboxPod(name))))
	}
	stop := func(n *node) {
		t.Helper()
		if err := n.proc.Stop(stopTimeout); err != nil {
			t.Fatal(err)
		}
	}
	works := func(when string) {
		t.Helper()
		for name, container := range containers {
			if _, err := c.ask(t.Context(), ns, name, "/instance"); err != nil {
				t.Errorf("%s: the API server does not reach pod %s: %v", when, name, err)
			}
			if pod := c.waitPod(t, ns, name, "is ready", podIsReady); containerID(pod) != container ||
				pod.Status.ContainerStatuses[0].RestartCount != 0 {
				t.Errorf("%s: pod %s has another container", when, name)
			}
		}
		for name, n := range map[string]*node{"near-": &c.node, "far-": worker} {
			c.runPod(t, ns, on(n.host.Name, testboxPod(name+when)))
		}
	}
	old := c.nodeToken(t)
	if r := c.a4s(t, "certificate", "rotate-ca", "--finish"); r.ExitCode == 0 ||
		!strings.Contains(r.Stderr, "none was replaced") {
		t.Errorf("beside a running server: %+v", r)
	}

	out := strings.TrimSpace(c.must(t, "certificate", "rotate-ca"))
	token := out[strings.LastIndexByte(out, '\n')+1:]
	if !strings.HasPrefix(token, "K10") || token == old {
		t.Errorf("the command prints:\n%s", out)
	}
	hosts.Until(t, soon, "a4s doctor says that a restart is missing", func(context.Context) error {
		if d, _ := c.doctor(t); !d.has("authorities-waiting") {
			return fmt.Errorf("%+v", d.Problems)
		}
		return nil
	})
	stop(&c.node)
	c.restart(t) // this test and the agent still know the old CAs only
	if got := c.nodeToken(t); got != token {
		t.Errorf("the token is %s, the command printed %s", got, token)
	}
	c.waitOwnNode(t)
	works("both")

	stop(worker)
	if err := worker.start(); err != nil { // with the old token
		t.Fatal(err)
	}
	c.waitNodeReady(t, worker.host.Name, worker.started)
	stop(&c.node)
	c.must(t, "certificate", "rotate-ca", "--finish")
	was := c.client
	c.client = nil
	c.restart(t)
	c.waitOwnNode(t)
	if _, err := was.Discovery().ServerVersion(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a client with the old CA: %v", err)
	}
	stop(worker)
	if err := worker.start(); err != nil {
		t.Fatal(err)
	}
	c.waitNodeReady(t, worker.host.Name, worker.started)
	works("after")
	if got := c.nodeToken(t); got != token {
		t.Error("the token changed once more")
	}
}
