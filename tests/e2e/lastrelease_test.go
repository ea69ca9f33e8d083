package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/databases"
	"github.com/a4s-io/a4s/tests/hosts"
)

// lastRelease returns the program to upgrade from, which takes minutes to build.
func lastRelease(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("A4S_LAST_RELEASE")
	if binary == "" {
		t.Skip("A4S_LAST_RELEASE is not set: make test-upgrade runs this")
	}
	return binary
}

// exchange ends the program of a node and starts another one, "" for env.binary,
// as install.sh does.
func (n *node) exchange(t *testing.T, binary string) {
	t.Helper()
	if err := n.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	n.binary = binary
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
}

// kubernetesOf returns the version of Kubernetes that a program has.
func kubernetesOf(t *testing.T, h *hosts.Host, binary string) string {
	t.Helper()
	out := run(t, h, binary, "--version")
	for line := range strings.Lines(out) {
		if version, ok := strings.CutPrefix(line, "Kubernetes "); ok {
			return strings.TrimSpace(version)
		}
	}
	t.Fatalf("%s says no version of Kubernetes:\n%s", binary, out)
	return ""
}

// waitVersion waits until a server answers and says that it has a version.
func (c *cluster) waitVersion(t *testing.T, want string) {
	t.Helper()
	c.waitReady(t)
	if v, err := c.client.Discovery().ServerVersion(); err != nil || !strings.HasPrefix(v.GitVersion, want) {
		t.Fatalf("server %s is of %v, %v, want %s", c.host.Name, v, err, want)
	}
}

// A server and an agent of the last release go to this one while somebody writes:
// nothing that was acknowledged is lost, and no container is started again. The way
// back is the snapshot that the upgrade took, restored by the last release.
func TestUpgradeKeepsPodsAndWrites(t *testing.T) {
	old := lastRelease(t)
	c := ownClusterOf(t, old, "kept")
	f, worker := withWorker(t, c)
	before, now := kubernetesOf(t, c.host, old), kubernetesOf(t, c.host, env.binary)
	c.waitVersion(t, before)
	want := f.identify(t)
	s := startScribe(t, c.namespace(t), c)

	s.during(t, "the server is upgraded from "+before+" to "+now, func() {
		c.exchange(t, "")
		c.waitVersion(t, now)
	})
	c.waitOwnNode(t)
	f.waitServing(t)
	s.during(t, "the agent is upgraded", func() { worker.exchange(t, "") })
	c.waitNodeReady(t, worker.host.Name, worker.started)
	f.waitServing(t)
	if diff := want.changes(f.identify(t).of(want)); len(diff) > 0 {
		t.Errorf("it is another cluster:\n%s", strings.Join(diff, "\n"))
	}
	f.runsPods(t)
	s.end()
	s.check(t, c)

	// Back.
	if _, err := c.client.CoreV1().ConfigMaps(f.ns).
		Create(t.Context(), configMap("later", "x"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.exchange(t, old)
	if code, err := c.proc.ExitCode(startTimeout); err != nil || code == 0 {
		t.Fatalf("the last release on newer data: exit code %d, %v", code, err)
	}
	noTrace(t, c.proc.Output())
	saved, err := filepath.Glob(c.host.Path(dataDir + "/snapshots/before-upgrade-*.tar"))
	if err != nil || len(saved) != 1 {
		t.Fatalf("the upgrade saved %v, %v", saved, err)
	}
	run(t, c.host, old, "etcd-snapshot", "restore", filepath.Base(saved[0]))
	c.restart(t)
	c.waitVersion(t, before)
	if m, err := c.client.CoreV1().ConfigMaps(f.ns).Get(t.Context(), "kept", metav1.GetOptions{}); err != nil ||
		m.Data["value"] != "value" {
		t.Errorf("after going back: %v, %v", m.Data, err)
	}
	if _, err := c.client.CoreV1().ConfigMaps(f.ns).Get(t.Context(), "later", metav1.GetOptions{}); err == nil {
		t.Error("what was written after the upgrade is there")
	}
	worker.exchange(t, old)
	c.waitOwnNode(t)
	c.waitNodeReady(t, worker.host.Name, worker.started)
	f.waitServing(t)
}

// Three servers go to this release one after the other. In between they are of
// both, and serve the same tenants.
func TestUpgradeServerByServer(t *testing.T) {
	old := lastRelease(t)
	one := ownClusterOf(t, old, "one", "--cluster-init", "--disable-agent")
	two := joinServer(t, "two", one, "--disable-agent")
	three := joinServer(t, "three", one)
	all := []*cluster{one, two, three}
	one.waitServers(t, all...)
	three.waitOwnNode(t)
	f := newFixture(t, three)
	want := f.identify(t)
	now := kubernetesOf(t, one.host, env.binary)
	s := startScribe(t, one.namespace(t), all...)
	for i, c := range all {
		s.during(t, "server "+c.host.Name+" is upgraded", func() {
			c.exchange(t, "")
			c.waitVersion(t, now)
			one.waitServers(t, all...)
		})
		s.check(t, all...)
		t.Run(fmt.Sprintf("tenants with %d of 3 upgraded", i+1), func(t *testing.T) { tenantsOnAllServers(t, all...) })
	}
	three.waitOwnNode(t)
	f.waitServing(t)
	if diff := want.changes(f.identify(t).of(want)); len(diff) > 0 {
		t.Errorf("it is another cluster:\n%s", strings.Join(diff, "\n"))
	}

	// Between servers of one release, to compare.
	s.during(t, "server one is started again", func() {
		one.exchange(t, "")
		one.waitVersion(t, now)
		one.waitServers(t, all...)
	})
	s.end()
	s.check(t, all...)

	two.exchange(t, old)
	if code, err := two.proc.ExitCode(startTimeout); err != nil || code == 0 {
		t.Fatalf("a server of the last release: exit code %d, %v", code, err)
	}
	noTrace(t, two.proc.Output())
	two.exchange(t, "")
	two.waitVersion(t, now)
	s.check(t, all...)
}

// What kine stores goes to this release, too.
func TestUpgradeOfDatabases(t *testing.T) {
	old := lastRelease(t)
	for name, endpoint := range map[string]func(*testing.T) string{
		"sqlite":   func(*testing.T) string { return "sqlite" },
		"postgres": func(t *testing.T) string { return databases.StartPostgreSQL(t).Endpoint("cluster") },
		"mariadb":  func(t *testing.T) string { return databases.StartMariaDB(t) },
		"nats":     func(t *testing.T) string { return databases.StartNATS(t, env.lab.Gateway.String()) },
	} {
		t.Run(name, func(t *testing.T) {
			c := ownClusterOf(t, old, name, "--disable-agent", "--datastore-endpoint", endpoint(t))
			now := kubernetesOf(t, c.host, env.binary)
			s := startScribe(t, c.namespace(t), c)
			killRounds(t, c, 1, func() {
				s.during(t, "the server is upgraded", func() {
					c.exchange(t, "")
					c.waitVersion(t, now)
				})
			})
			s.end()
			s.check(t, c)
		})
	}
}
