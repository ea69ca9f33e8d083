package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

func TestPodsReachEachOtherAcrossNodesOverVXLAN(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	worker, ns := across(t, c, "worker", "--node-taint", passingTaint+"=true:NoSchedule")
	t.Run("drain", func(t *testing.T) { testDrain(t, c, worker.host.Name, ns) })
}

// testDrain: a4s node drain evicts the pods of the system and of tenants, or none.
func testDrain(t *testing.T, c *cluster, name, ns string) {
	pods := func() (names []string) {
		list, err := c.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{
			FieldSelector: "spec.nodeName=" + name})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if pod := &list.Items[i]; metav1.GetControllerOf(pod) == nil && pod.DeletionTimestamp == nil {
				names = append(names, pod.Namespace+"/"+pod.Name)
			}
		}
		return names
	}
	before := pods()
	if len(before) < 3 || !slices.Contains(before, ns+"/far") ||
		!slices.Contains(before, "default.other-"+name+"/foreign") {
		t.Fatalf("the pods of the node are %v", before)
	}
	r := c.a4s(t, "node", "drain", name, "--ignore-daemonsets")
	if r.ExitCode == 0 || !strings.Contains(r.Stderr, "--force") {
		t.Errorf("pods without a controller are evicted: %d %s%s", r.ExitCode, r.Stdout, r.Stderr)
	}
	if left := pods(); len(left) != len(before) {
		t.Errorf("of %v there are %v", before, left)
	}
	out := c.must(t, "node", "drain", name, "--ignore-daemonsets", "--force", "--timeout", "2m")
	if !strings.Contains(out, "node/"+name+" drained") {
		t.Errorf("it says %s", out)
	}
	if left := pods(); len(left) > 0 {
		t.Errorf("after it there are %v", left)
	}
	node, err := c.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || !node.Spec.Unschedulable {
		t.Errorf("the node takes pods: %v", err)
	}
	if r := c.a4s(t, "node", "drain", "nobody"); r.ExitCode == 0 || !strings.Contains(r.Stderr, "kubectl get nodes") {
		t.Errorf("a node that is not there: %d %s%s", r.ExitCode, r.Stdout, r.Stderr)
	}
}

// The other backend of the pod network and the other mode of kube-proxy, which
// leave other things behind.
func TestPodsReachEachOtherAcrossNodesOverHostGatewayAndIptables(t *testing.T) {
	h := newHost(t, "gw-server")
	before := look(t, h)
	c, err := newServer(h, "--flannel-backend", "host-gw", "--proxy-mode", "iptables")
	if err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	c.waitOwnNode(t)
	worker, ns := across(t, c, "gw-worker", "--proxy-mode", "iptables")
	if links := run(t, h, "ip", "-o", "link"); strings.Contains(links, "flannel.") {
		t.Errorf("host-gw made a tunnel:\n%s", links)
	}
	if rules := run(t, h, "nft", "list", "ruleset"); strings.Contains(rules, "table ip kube-proxy") ||
		!strings.Contains(rules, "KUBE-SERVICES") {
		t.Error("kube-proxy does not use iptables")
	}

	// A worker outlives its server and then itself.
	instance, err := c.ask(t.Context(), ns, "far", "/instance")
	if err != nil {
		t.Fatal(err)
	}
	c.proc.Kill()
	c.restart(t)
	c.waitLease(t, worker.host.Name, c.started)
	c.waitAnswer(t, ns, "far", instance, "/instance")
	worker.proc.Kill()
	if err := worker.start(); err != nil {
		t.Fatal(err)
	}
	c.waitNodeReady(t, worker.host.Name, worker.started)
	c.waitAnswer(t, ns, "far", instance, "/instance")
	c.runPod(t, ns, on(worker.host.Name, testboxPod("later")))
	c.waitAnswer(t, ns, "later", "near", "/get", "url", "http://near/hostname")

	c.must(t, "killall")
	<-c.proc.Done()
	if left := differences(before, look(t, h)); len(left) > 0 {
		t.Errorf("after killall:\n%s", strings.Join(left, "\n"))
	}
}

// waitLease waits until a node has given a sign of life to the server since then.
func (c *cluster) waitLease(t *testing.T, name string, since time.Time) {
	t.Helper()
	hosts.Until(t, podTimeout, "node "+name+" has found the server", func(ctx context.Context) error {
		lease, err := c.client.CoordinationV1().Leases("kube-node-lease").Get(ctx, name, metav1.GetOptions{})
		if err == nil && lease.Spec.RenewTime.Time.Before(since) {
			err = fmt.Errorf("its last sign of life is of %s", lease.Spec.RenewTime)
		}
		return err
	})
}

// run runs a program on a host; it has to succeed.
func run(t *testing.T, h *hosts.Host, path string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	r, err := h.Run(ctx, path, args...)
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("%s %v on %s: %v, exit code %d\n%s%s", path, args, h.Name, err, r.ExitCode, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

// across joins a second node and checks all traffic between pods on both, in
// the space of the system and in that of a tenant, and none between tenants.
// It returns the node and the namespace of the pods of the system, near on the
// server and far on the other node.
func across(t *testing.T, c *cluster, workerName string, args ...string) (*node, string) {
	t.Helper()
	worker := newAgent(t, workerName, c, args...)
	t.Cleanup(func() {
		_ = c.client.CoreV1().Nodes().Delete(context.Background(), workerName, metav1.DeleteOptions{})
	})
	c.waitNodeReady(t, workerName, worker.started)
	ns := c.traffic(t, workerName)
	own := c.makeTenant(t, "own-"+workerName)
	ownNS := own.traffic(t, workerName)
	other := c.makeTenant(t, "other-"+workerName)
	foreign := other.runPod(t, "default", on(workerName, testboxPod("foreign")))
	for _, to := range []string{foreign.Status.PodIP, c.podIP(t, ns, "far")} {
		hosts.Until(t, soon, "a tenant cannot reach "+to+" on the other node", func(ctx context.Context) error {
			if got, err := own.ask(ctx, ownNS, "near", "/get", "url", "http://"+to+":8080/hostname"); err == nil {
				return fmt.Errorf("it answers %q", got)
			}
			return nil
		})
	}
	return worker, ns
}

// traffic checks what goes between a pod on the server and one on another
// node, and returns their namespace.
func (c *cluster) traffic(t *testing.T, workerName string) string {
	t.Helper()
	server := c.host.Name
	ns := c.namespace(t)
	near := c.runPod(t, ns, on(server, testboxPod("near")))
	far := c.runPod(t, ns, on(workerName, testboxPod("far")))
	nearIP := c.createService(t, ns, service("near", "near")).Spec.ClusterIP
	farIP := c.createService(t, ns, service("far", "far")).Spec.ClusterIP

	for _, tc := range []struct{ from, want, url string }{
		{"near", "far", "http://" + far.Status.PodIP + ":8080/hostname"},
		{"far", "near", "http://" + near.Status.PodIP + ":8080/hostname"},
		{"near", "far", "http://" + farIP + "/hostname"},
		{"far", "near", "http://" + nearIP + "/hostname"},
		{"far", "far", "http://" + farIP + "/hostname"},
		{"near", "far", "http://far/hostname"},
		{"far", "near", "http://near." + ns + ".svc.cluster.local/hostname"},
		// Pods see each other's own addresses, not those of nodes.
		{"near", near.Status.PodIP, "http://" + far.Status.PodIP + ":8080/client"},
		{"far", far.Status.PodIP, "http://" + near.Status.PodIP + ":8080/client"},
	} {
		c.waitAnswer(t, ns, tc.from, tc.want, "/get", "url", tc.url)
	}
	c.waitAnswer(t, ns, "far", hosts.UpstreamAddress, "/resolve", "name", hosts.UpstreamName)

	// More than one packet of a tunnel: a wrong MTU passes small ones only.
	big := strings.Repeat("x", 64<<10)
	if _, err := c.client.CoreV1().ConfigMaps(ns).
		Create(t.Context(), configMap("big", big), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	out, err := c.exec(t.Context(), ns, "far", "", "/testbox", "echo", "from", "far")
	if err != nil || out != "from far" {
		t.Errorf("exec on the second node gives %q, %v", out, err)
	}
	if out := c.logs(t, ns, "far"); !strings.Contains(out, "testbox serves") {
		t.Errorf("logs from the second node are %q", out)
	}
	got, err := c.exec(t.Context(), ns, "far", big, "/testbox", "copy")
	if err != nil || got != big {
		t.Errorf("64 KiB through exec on the second node came back as %d bytes, %v", len(got), err)
	}
	payload := on(workerName, testboxPod("payload"))
	mount(payload, "big")
	c.runPod(t, ns, payload)
	url := "http://" + c.podIP(t, ns, "payload") + ":8080/file?path=/big/value"
	hosts.Until(t, soon, "64 KiB cross from node to node", func(ctx context.Context) error {
		got, err := c.ask(ctx, ns, "near", "/get", "url", url)
		if err == nil && got != big {
			err = fmt.Errorf("%d bytes arrive", len(got))
		}
		return err
	})
	return ns
}

func (c *cluster) podIP(t *testing.T, ns, name string) string {
	t.Helper()
	p, err := c.client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Status.PodIP
}

func TestJoiningIsRefused(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	token := c.nodeToken(t)
	before, password, ok := strings.Cut(token, "::")
	user, _, okUser := strings.Cut(password, ":")
	if !ok || !okUser || !strings.HasPrefix(before, "K10") {
		t.Fatalf("the node token %q is not of the form K10<hash>::<user>:<password>", token)
	}
	otherCA := "K10" + strings.Repeat("0", len(before)-3) + "::" + password
	h := newHost(t, "intruder")
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"wrong token", []string{"--server", c.url(), "--token", before + "::" + user + ":wrong"},
			[]string{"--token"}},
		{"wrong CA hash", []string{"--server", c.url(), "--token", otherCA}, []string{"--token", "CA"}},
		{"malformed token", []string{"--server", c.url(), "--token", "K10nonsense"}, []string{"--token", "K10"}},
		{"duplicate node name", []string{"--server", c.url(), "--token", token, "--node-name", c.host.Name},
			[]string{c.host.Name, "--node-name"}},
		{"no token", []string{"--server", c.url()}, []string{"--token"}},
		{"no server", []string{"--token", token}, []string{"--server"}},
		{"server is no URL", []string{"--server", "ftp://nowhere", "--token", token},
			[]string{"--server", "ftp://nowhere"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := command(t, h, append([]string{"agent"}, tc.args...)...)
			wantProblem(t, r, 1, tc.want...)
			if strings.Contains(r.Stdout+r.Stderr, password) && tc.name != "duplicate node name" {
				t.Errorf("the message shows the password of the token:\n%s", r.Stderr)
			}
		})
	}
	nodes, err := c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		if n.Name == "intruder" {
			t.Errorf("node %s has joined", n.Name)
		}
	}
}

// wantProblem checks the exit code of a refused command, and that the last
// line that it printed has each of the parts.
func wantProblem(t *testing.T, r hosts.Result, code int, parts ...string) {
	t.Helper()
	text := strings.TrimSpace(r.Stderr)
	last := text[strings.LastIndexByte(text, '\n')+1:]
	if r.ExitCode != code {
		t.Errorf("exit code %d, want %d:\n%s", r.ExitCode, code, text)
	}
	for _, part := range parts {
		if !strings.Contains(last, part) {
			t.Errorf("the message does not name %q: %s", part, last)
		}
	}
	t.Logf("exit code %d: %s", r.ExitCode, last)
}

func TestBootstrapTokens(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "tokens", "--disable-agent")
	token := strings.TrimSpace(c.must(t, "token", "create", "--ttl", "1h", "--description", "for the test"))
	if !strings.HasPrefix(token, "K10") {
		t.Fatalf("token create printed %q, want a join token", token)
	}
	_, bare, _ := strings.Cut(token, "::")
	id, secret, _ := strings.Cut(bare, ".")
	if out := c.must(t, "token", "list"); !strings.Contains(out, id) || !strings.Contains(out, "for the test") ||
		strings.Contains(out, secret) {
		t.Errorf("token list printed\n%s", out)
	}

	n := &node{host: newHost(t, "invited")}
	n.args = []string{"agent", "--server", c.url(), "--token", token}
	if err := n.importImages(); err != nil {
		t.Fatal(err)
	}
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	c.waitNodeReady(t, "invited", n.started)
	if err := n.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}

	c.must(t, "token", "delete", id)
	if out := c.must(t, "token", "list"); strings.Contains(out, id) {
		t.Errorf("token list after the deletion printed\n%s", out)
	}
	late := newHost(t, "late")
	hosts.Until(t, soon, "the deleted token is refused", func(context.Context) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout/4)
		defer cancel()
		r, err := late.Run(ctx, env.binary, "agent", "--server", c.url(), "--token", token)
		noTrace(t, r.Stdout+r.Stderr)
		if err == nil && r.ExitCode != 1 {
			err = fmt.Errorf("exit code %d: %s", r.ExitCode, r.Stderr)
		}
		return err
	})

	old := c.nodeToken(t)
	rotated := strings.TrimSpace(c.must(t, "token", "rotate"))
	if rotated == old || !strings.HasPrefix(rotated, "K10") {
		t.Errorf("token rotate printed %q after %q", rotated, old)
	}
	wantProblem(t, command(t, late, "agent", "--server", c.url(), "--token", old), 1, "--token")
}
