package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// traces are the marks of a stack trace.
var traces = regexp.MustCompile(`goroutine \d+ \[|panic: |SIGSEGV|\.go:\d+ \+0x`)

func noTrace(t *testing.T, output string) {
	t.Helper()
	if found := traces.FindString(output); found != "" {
		t.Errorf("the output has a stack trace (%q):\n%s", found, output)
	}
}

// reportOnFailure prints the state of the cluster when the test has failed.
func (c *cluster) reportOnFailure(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			c.report(t)
			c.printLogs(t)
		}
	})
}

func (n *node) printLogs(t *testing.T) {
	t.Helper()
	if n.proc != nil {
		t.Logf("the log of a4s on %s ends:\n%s", n.host.Name, hosts.LastLines(n.proc.Log, 100))
	}
}

func (c *cluster) report(t *testing.T) {
	t.Helper()
	if c.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var b strings.Builder
	fmt.Fprintf(&b, "state of the cluster of %s:\n", c.host.Name)
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Logf("no report: %v", err)
		return
	}
	for _, n := range nodes.Items {
		fmt.Fprintf(&b, "node %s, taints %v\n", n.Name, n.Spec.Taints)
		for _, condition := range n.Status.Conditions {
			fmt.Fprintf(&b, "  %s=%s %s\n", condition.Type, condition.Status, condition.Message)
		}
	}
	pods, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Logf("no pods: %v", err)
		return
	}
	for _, p := range pods.Items {
		fmt.Fprintf(&b, "pod %s/%s on %q: %s %s %s\n", p.Namespace, p.Name, p.Spec.NodeName, p.Status.Phase,
			p.Status.PodIP, p.Status.Message)
		for _, s := range p.Status.ContainerStatuses {
			fmt.Fprintf(&b, "  %s ready=%t restarts=%d %+v\n", s.Name, s.Ready, s.RestartCount, s.State)
		}
	}
	events, err := c.client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Logf("no events: %v", err)
		return
	}
	for _, e := range events.Items[max(0, len(events.Items)-60):] {
		if e.Type != "Normal" {
			fmt.Fprintf(&b, "event %s/%s %s: %s\n", e.InvolvedObject.Namespace, e.InvolvedObject.Name,
				e.Reason, e.Message)
		}
	}
	t.Log(b.String())
}
