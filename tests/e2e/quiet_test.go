package e2e

import (
	"regexp"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/tests/hosts"
)

// loud is a line of the log above the level info.
var loud = regexp.MustCompile(`level=(warning|error|fatal|panic)`)

// ofTheMachine are lines that are right on the machines of these tests: they say what
// such a machine lacks, or that others use it.
var ofTheMachine = []string{
	"br_netfilter", // the kernel has no such module
	"bridge-nf-call",
	"took too long", // etcd, on a busy disk
	"A durable write to",
	"slow",
	"Pods wait long for the scheduler",
}

func loudLines(log string) []string {
	var out []string
line:
	for text := range strings.Lines(log) {
		if !loud.MatchString(text) {
			continue
		}
		for _, known := range ofTheMachine {
			if strings.Contains(text, known) {
				continue line
			}
		}
		out = append(out, strings.TrimSpace(text))
	}
	return out
}

// A healthy cluster logs nothing above info, neither at its first start nor while it
// runs pods.
func TestHealthyClusterIsQuiet(t *testing.T) {
	t.Parallel()
	// They are said last, behind the logs of the hosts, where one finds them.
	var loud []string
	t.Cleanup(func() {
		for _, line := range loud {
			t.Errorf("not quiet: %s", line)
		}
	})
	c := ownCluster(t, "quiet")
	c.waitOwnNode(t)
	agent := newAgent(t, "quiet-agent", c)
	c.waitNodeReady(t, agent.host.Name, agent.started)
	ns := c.namespace(t)
	for _, node := range []string{c.host.Name, agent.host.Name} {
		c.runPod(t, ns, on(node, testboxPod("on-"+node)))
	}
	tenant := c.makeTenant(t, "quiet-tenant")
	tenant.runPod(t, "default", testboxPod("own"))
	for _, n := range []*node{&c.node, agent} {
		for _, line := range loudLines(n.proc.Output()) {
			loud = append(loud, n.host.Name+": "+line)
			t.Fail()
		}
	}
	// The metrics of its containers have the labels that dashboards go by.
	hosts.Until(t, podTimeout, "the containers of a pod have their labels in /metrics/cadvisor",
		hasLabels(c, "on-"+c.host.Name, ns))
}
