package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// gapLimit is far above the ten seconds in which the API is to be back: what
// else runs on the machine of a test must not decide.
const gapLimit = 3 * time.Minute

// joinServer starts a server that joins another one, from the same program, on a
// host of its own.
func joinServer(t *testing.T, name string, first *cluster, args ...string) *cluster {
	t.Helper()
	return joinFrom(t, newHost(t, name), first, args...)
}

func joinFrom(t *testing.T, h *hosts.Host, first *cluster, args ...string) *cluster {
	t.Helper()
	c, err := newServerOf(h, first.binary,
		append([]string{"--server", first.url(), "--token", first.serverToken(t)}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	return c
}

func (c *cluster) serverToken(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(c.host.Path(dataDir + "/server/token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// waitServers waits until the clients of the cluster learn of these servers
// and of no other.
func (c *cluster) waitServers(t *testing.T, servers ...*cluster) {
	t.Helper()
	var want []string
	for _, s := range servers {
		want = append(want, s.host.IP.String())
	}
	slices.Sort(want)
	hosts.Until(t, startTimeout, fmt.Sprintf("the service of the API has the servers %v", want),
		func(ctx context.Context) error {
			list, err := c.client.DiscoveryV1().EndpointSlices("default").List(ctx,
				metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes"})
			if err != nil {
				return err
			}
			var got []string
			for _, slice := range list.Items {
				for _, e := range slice.Endpoints {
					got = append(got, e.Addresses...)
				}
			}
			slices.Sort(got)
			got = slices.Compact(got) // those of a service group are in a slice of it, too
			if !slices.Equal(got, want) {
				return fmt.Errorf("it has %v", got)
			}
			return nil
		})
}

// scribe writes objects through whatever server answers, and notes what was
// acknowledged and how long nothing was.
type scribe struct {
	servers []*cluster
	ns      string

	mu    sync.Mutex
	acked []string
	last  time.Time
	gap   time.Duration

	stop context.CancelFunc
	done sync.WaitGroup
}

func startScribe(t *testing.T, ns string, servers ...*cluster) *scribe {
	ctx, cancel := context.WithCancel(context.Background())
	s := &scribe{servers: servers, ns: ns, last: time.Now(), stop: cancel}
	s.done.Go(func() { s.run(ctx) })
	t.Cleanup(s.end)
	return s
}

func (s *scribe) end() {
	s.stop()
	s.done.Wait()
}

func (s *scribe) run(ctx context.Context) {
	at := 0
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("write-%d", i)
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := s.servers[at].client.CoreV1().ConfigMaps(s.ns).Create(try, configMap(name, "x"),
			metav1.CreateOptions{})
		cancel()
		if err != nil {
			at = (at + 1) % len(s.servers)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		s.mu.Lock()
		s.acked = append(s.acked, name)
		now := time.Now()
		s.gap = max(s.gap, now.Sub(s.last))
		s.last = now
		s.mu.Unlock()
	}
}

func (s *scribe) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acked)
}

// during does something to the servers and waits until writes are acknowledged
// again. It reports for how long none was.
func (s *scribe) during(t *testing.T, what string, do func()) {
	t.Helper()
	s.mu.Lock()
	s.gap, s.last = 0, time.Now()
	s.mu.Unlock()
	do()
	before := s.count()
	hosts.Until(t, gapLimit, "writes are acknowledged after: "+what, func(context.Context) error {
		if n := s.count() - before; n < 20 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%s: no write was acknowledged for %s at most", what, s.gap.Round(10*time.Millisecond))
}

// check looks on every server for what was acknowledged.
func (s *scribe) check(t *testing.T, servers ...*cluster) {
	t.Helper()
	s.mu.Lock()
	acked := slices.Clone(s.acked)
	s.mu.Unlock()
	for _, c := range servers {
		list, err := c.client.CoreV1().ConfigMaps(s.ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for _, object := range list.Items {
			there[object.Name] = true
		}
		for _, name := range acked {
			if !there[name] {
				t.Fatalf("%s was acknowledged, and server %s does not have it", name, c.host.Name)
			}
		}
	}
	t.Logf("%d acknowledged writes are on %d servers", len(acked), len(servers))
}

func TestThreeServers(t *testing.T) {
	t.Parallel()
	one := ownCluster(t, "one", "--cluster-init", "--disable-agent")
	two := joinServer(t, "two", one, "--disable-agent")
	three := joinServer(t, "three", one)
	all := []*cluster{one, two, three}
	one.waitServers(t, all...)
	three.waitOwnNode(t)

	t.Run("tenants", func(t *testing.T) { tenantsOnAllServers(t, one, two, three) })
	keys := &keyHolder{ns: one.namespace(t), acked: map[string]bool{}}
	t.Run("keys of Secrets", func(t *testing.T) { keysOnAllServers(t, keys, one, two, three) })

	s := startScribe(t, one.namespace(t), all...)
	s.during(t, "kill -9 of the server that leads", func() { one.proc.Kill() })
	s.check(t, two, three)
	two.waitServers(t, two, three)
	one.restart(t)
	one.waitServers(t, all...)

	s.during(t, "a server is cut off", func() {
		if err := two.host.Unplug(); err != nil {
			t.Fatal(err)
		}
	})
	one.waitServers(t, one, three)
	if err := two.host.Plug(); err != nil {
		t.Fatal(err)
	}
	two.waitReady(t)
	one.waitServers(t, all...)
	s.check(t, all...)

	s.during(t, "a server loses its disk", func() {
		three.proc.Kill()
		wipe(t, three)
	})
	three = joinFrom(t, three.host, two)
	all[2] = three
	one.waitServers(t, all...)
	three.waitOwnNode(t)
	s.during(t, "kill -9 of another server, after one came back with an empty disk", func() { two.proc.Kill() })
	two.restart(t)
	s.check(t, all...)

	s.during(t, "the node of a server is deleted", func() {
		one.must(t, "kubectl", "delete", "node", "three", "--timeout=60s")
	})
	var code int
	hosts.Until(t, startTimeout, "the removed server ends", func(context.Context) (err error) {
		code, err = three.proc.ExitCode(time.Second)
		return err
	})
	if out := three.proc.Output(); code != 2 || !strings.Contains(out, "was removed from its cluster") {
		t.Fatalf("the removed server: exit code %d\n%s", code, hosts.LastLines(three.proc.Log, 20))
	}
	r := three.a4s(t, three.args...)
	if r.ExitCode != 2 || !strings.Contains(r.Stderr, "was removed from its cluster") ||
		!strings.Contains(r.Stderr, "move "+dataDir+"/server/db away") {
		t.Fatalf("starting the removed server: exit code %d\n%s", r.ExitCode, r.Stderr)
	}
	one.waitServers(t, one, two)
	if err := os.RemoveAll(three.host.Path(dataDir + "/server/db")); err != nil {
		t.Fatal(err)
	}
	three.restart(t)
	one.waitServers(t, all...)

	// A machine that moves.
	s.end()
	if err := three.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	if err := three.host.Readdress(); err != nil {
		t.Fatal(err)
	}
	three.client = nil
	three.restart(t)
	one.waitServers(t, all...)
	s.check(t, all...)

	// Most servers are lost for good.
	saved := strings.TrimSpace(three.must(t, "etcd-snapshot", "save"))
	one.proc.Kill()
	two.proc.Kill()
	three.proc.Kill()
	args := []string{"server", "--cluster-reset"}
	if r := three.a4s(t, args...); r.ExitCode != 0 || !strings.Contains(r.Stderr, "without --cluster-reset") {
		t.Fatalf("reset: exit code %d\n%s", r.ExitCode, r.Stderr)
	}
	if r := three.a4s(t, args...); r.ExitCode != 2 || !strings.Contains(r.Stderr, "was a reset already") {
		t.Errorf("a second reset: exit code %d\n%s", r.ExitCode, r.Stderr)
	}
	three.restart(t)
	three.waitServers(t, three)
	s.check(t, three)
	r = one.a4s(t, one.args...)
	if r.ExitCode != 2 || !strings.Contains(r.Stderr, "was removed from its cluster") {
		t.Errorf("starting a server of before the reset: exit code %d\n%s", r.ExitCode, r.Stderr)
	}

	// What one server saved is a cluster that none of the others is part of.
	if err := three.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	three.must(t, "etcd-snapshot", "restore", saved)
	three.restart(t)
	s.check(t, three)
	r = two.a4s(t, two.args...)
	if r.ExitCode != 2 || !strings.Contains(r.Stderr, "a cluster that the other servers have left") {
		t.Errorf("starting a server of before the restore: exit code %d\n%s", r.ExitCode, r.Stderr)
	}
	if err := os.RemoveAll(two.host.Path(dataDir + "/server/db")); err != nil {
		t.Fatal(err)
	}
	two = joinFrom(t, two.host, three, "--disable-agent")
	three.waitServers(t, two, three)
	s.check(t, two)
	keys.readable(t, two, three)
}

// wipe takes the disk of a host from a server that has ended.
func wipe(t *testing.T, c *cluster) {
	t.Helper()
	hosts.Until(t, soon, "what the server had mounted is free", func(ctx context.Context) error {
		if r, err := c.host.Run(ctx, env.binary, "killall"); err != nil || r.ExitCode != 0 {
			return fmt.Errorf("%v %s", err, r.Stderr)
		}
		for _, dir := range []string{dataDir, "/etc/a4s"} {
			entries, err := os.ReadDir(c.host.Path(dir))
			if err != nil {
				return err
			}
			for _, e := range entries {
				if err := os.RemoveAll(filepath.Join(c.host.Path(dir), e.Name())); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// What one server makes of a tenant, the others serve at once.
func tenantsOnAllServers(t *testing.T, servers ...*cluster) {
	first := servers[0]
	first.must(t, "tenant", "create", "shared")
	const crd = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	if err := first.host.WriteFile(dataDir+"/crd.json", crd); err != nil {
		t.Fatal(err)
	}
	first.must(t, "kubectl", "--tenant", "shared", "apply", "-f", dataDir+"/crd.json")
	for i, c := range servers {
		widget := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w%d"}}`, i)
		if err := c.host.WriteFile(dataDir+"/widget.json", widget); err != nil {
			t.Fatal(err)
		}
		hosts.Until(t, soon, "server "+c.host.Name+" serves the tenant's own kind", func(context.Context) error {
			if r := c.a4s(t, "kubectl", "--tenant", "shared", "apply", "-f", dataDir+"/widget.json"); r.ExitCode != 0 {
				return errors.New(r.Stderr)
			}
			return nil
		})
	}
	for _, c := range servers {
		if out := c.must(t, "kubectl", "--tenant", "shared", "get", "widgets", "-o", "name"); strings.Count(out,
			"/w") != len(servers) {
			t.Errorf("server %s lists %q", c.host.Name, out)
		}
		if r := c.a4s(t, "kubectl", "get", "widgets"); r.ExitCode == 0 {
			t.Errorf("server %s serves the tenant's kind to the system: %s", c.host.Name, r.Stdout)
		}
	}
	last := servers[len(servers)-1]
	last.must(t, "tenant", "delete", "shared")
	hosts.Until(t, soon, "the tenant is gone everywhere", func(context.Context) error {
		if out := first.must(t, "tenant", "list"); strings.Contains(out, "shared") {
			return errors.New(out)
		}
		return nil
	})
}

// Who may not join learns why, and what a single server has is kept when it
// becomes one of several.
func TestServersThatMayNotJoin(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "alone", "--disable-agent", "--agent-token", "only-for-agents")
	if _, err := c.client.CoreV1().ConfigMaps("default").
		Create(t.Context(), configMap("early", "x"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.DialTimeout("tcp", net.JoinHostPort(c.host.IP.String(), "2380"), soon); err == nil {
		conn.Close()
		t.Error("the datastore of a single server can be reached from elsewhere")
	}
	h := newHost(t, "refused")
	token := c.serverToken(t)
	hash, password, _ := strings.Cut(token, "::server:")
	agent, err := os.ReadFile(c.host.Path(dataDir + "/server/agent-token"))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what, says string, args ...string) {
		t.Helper()
		r := command(t, h, append([]string{"server", "--disable-agent", "--server", c.url()}, args...)...)
		if r.ExitCode != 1 || !strings.Contains(r.Stderr, says) {
			t.Errorf("%s: exit code %d, want one that says %q\n%s", what, r.ExitCode, says, r.Stderr)
		}
	}
	refused("no token", "needs their token")
	refused("a password alone", "which CA to trust", "--token", password)
	refused("the token of agents", "agents join, but no servers", "--token", strings.TrimSpace(string(agent)))
	refused("the password of agents", "refuses it", "--token", hash+"::server:only-for-agents")
	refused("a bootstrap token", "agents join, but no servers", "--token", hash+"::abcdef.0123456789abcdef")
	refused("another CA", "is not a server of the cluster",
		"--token", "K10"+strings.Repeat("0", 64)+"::server:"+password)
	refused("other settings", "--cluster-cidr: invalid value \"10.52.0.0/16\"", "--token", token,
		"--cluster-cidr", "10.52.0.0/16")
	refused("a single server", "--cluster-init", "--token", token)
	refused("a single server, without a member", "--cluster-init", "--token", token, "--disable-etcd")
	if entries, err := os.ReadDir(h.Path(dataDir + "/server")); err == nil &&
		slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "tls" }) {
		t.Error("a refused server has made certificates")
	}

	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	c.args = append(c.args, "--cluster-init")
	c.restart(t)
	second := joinFrom(t, h, c, "--disable-agent")
	if m, err := second.client.CoreV1().ConfigMaps("default").
		Get(t.Context(), "early", metav1.GetOptions{}); err != nil || m.Data["value"] != "x" {
		t.Errorf("what the single server had: %v, %v", m, err)
	}
	third := newHost(t, "third")
	if out := c.must(t, "etcd-member", "list"); strings.Count(out, " votes\n") != 2 {
		t.Errorf("members:\n%s", out)
	}
	r := command(t, third, "server", "--disable-agent", "--server", c.url(), "--token", token,
		"--node-name", "refused")
	if r.ExitCode != 1 || !strings.Contains(r.Stderr, "another server of this name is running") {
		t.Errorf("a name that is taken: exit code %d\n%s", r.ExitCode, r.Stderr)
	}
	worker := newHost(t, "greedy")
	n := &node{host: worker, args: []string{"agent", "--server", c.url(), "--token", c.nodeToken(t),
		"--node-ip", worker.IP.String(), "--node-name", "refused"}}
	if r := n.a4s(t, n.args...); r.ExitCode != 1 || !strings.Contains(r.Stderr, "reserved for the API server") {
		t.Errorf("an agent with the name of another server: exit code %d\n%s", r.ExitCode, r.Stderr)
	}
	c.must(t, "etcd-member", "remove", "refused")
	if code, err := second.proc.ExitCode(stopTimeout); err != nil || code != 2 {
		t.Errorf("the removed server: exit code %d, %v", code, err)
	}
	hosts.Until(t, soon, "the last member is known", func(context.Context) error {
		if out := c.must(t, "etcd-member", "list"); strings.Count(out, " votes\n") != 1 {
			return errors.New(out)
		}
		return nil
	})
	if r := c.a4s(t, "etcd-member", "remove", "alone"); r.ExitCode != 1 ||
		!strings.Contains(r.Stderr, "the only member of the datastore that votes") {
		t.Errorf("removing the last member: exit code %d\n%s", r.ExitCode, r.Stderr)
	}
}
