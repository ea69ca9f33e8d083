package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// startAll starts servers that need each other.
func startAll(t *testing.T, servers ...*cluster) {
	t.Helper()
	for _, c := range servers {
		if err := c.start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range servers {
		c.waitReady(t)
	}
}

func TestRunbookServerDown(t *testing.T) {
	b := openRunbook(t, "A server is down")
	const status, doctor = "a4s status", "a4s doctor"
	const oneAway = "WARNING One of several servers does not answer this node (...): ..."
	const allAway = "ERROR The API server does not answer this node: ..."
	one := ownCluster(t, "rb-one", "--cluster-init", "--disable-agent")
	two := joinServer(t, "rb-two", one, "--disable-agent")
	three := joinServer(t, "rb-three", one)
	one.waitServers(t, one, two, three)
	three.waitOwnNode(t)
	worker := newAgent(t, "rb-worker", one)
	one.waitNodeReady(t, worker.host.Name, worker.started)
	ns := three.namespace(t)
	three.runPod(t, ns, on(three.host.Name, testboxPod("stays")))
	instance, err := three.ask(t.Context(), ns, "stays", "/instance")
	if err != nil {
		t.Fatal(err)
	}
	b.names = []string{"Ready", three.host.Name + " Ready"}

	three.proc.Kill()
	b.until(three.host, status, `a4s: server https://127.0.0.1:6443: not running: connection refused: `+
		`start it with "a4s server"; ...`)
	b.until(three.host, doctor, "No a4s runs on this machine.", "Pods run although a4s does not")
	b.instead("journalctl -u a4s -n 50")
	if line := lastWord(three.proc, 50); line != "" {
		t.Errorf("it was killed, and says why it has ended: %s", line)
	}
	b.instead("systemctl start a4s")
	three.restart(t)
	b.until(three.host, status, "API: ready", "Ready")
	three.waitAnswer(t, ns, "stays", instance, "/instance")
	b.gone(worker.host, doctor, oneAway)

	for _, c := range []*cluster{one, two, three} {
		c.proc.Kill()
	}
	b.until(worker.host, doctor, allAway)
	startAll(t, one, two, three)
	b.until(three.host, status, "API: ready", "Ready")
	b.gone(worker.host, doctor, allAway, oneAway)
}

func TestRunbookMajorityLost(t *testing.T) {
	b := openRunbook(t, "The majority of servers is lost")
	const doctor, members = "a4s doctor", "a4s etcd-member list"
	const away = "ERROR The datastore does not answer: ... cause: its disk hangs or is full, or its process or its " +
		"majority is gone"
	one := ownCluster(t, "rb-left", "--cluster-init", "--disable-agent")
	two := joinServer(t, "rb-lost-2", one, "--disable-agent")
	three := joinServer(t, "rb-lost-3", one, "--disable-agent")
	one.waitServers(t, one, two, three)
	if _, err := one.client.CoreV1().ConfigMaps("default").
		Create(t.Context(), configMap("kept", "x"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	// They are only off.
	two.proc.Kill()
	three.proc.Kill()
	b.until(one.host, doctor, away)
	one.proc.Kill()
	if err := one.start(); err != nil {
		t.Fatal(err)
	}
	b.logs(one.proc, "The datastore still waits: most of its servers have to run. If they are lost for good, "+
		"start one with --cluster-reset")
	startAll(t, two, three)
	one.waitReady(t)
	b.gone(one.host, doctor, away)

	// They are lost for good.
	for _, c := range []*cluster{one, two, three} {
		c.proc.Kill()
	}
	out := b.must(one.host, "a4s server --cluster-reset", "--cluster-reset",
		strings.Join(append([]string{"--cluster-reset"}, one.args[1:]...), " "))
	b.sees("This server is the only one of its cluster now", out)
	b.instead("systemctl start a4s")
	one.restart(t)
	one.waitServers(t, one)
	if m, err := one.client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil ||
		m.Data["value"] != "x" {
		t.Errorf("what was written is %v, %v", m.Data, err)
	}
	wait := func(want int) {
		t.Helper()
		hosts.Until(t, soon, fmt.Sprintf("there are %d members", want), func(context.Context) error {
			if out := b.must(one.host, members); strings.Count(out, " votes\n") != want {
				return errors.New(out)
			}
			return nil
		})
	}
	wait(1)
	if r := two.a4s(t, two.args...); r.ExitCode != 2 || !strings.Contains(r.Stderr, "was removed from its cluster") {
		t.Errorf("on its old data: exit code %d\n%s", r.ExitCode, r.Stderr)
	}
	run(t, two.host, "mv", dataDir+"/server/db", dataDir+"/server/db-before")
	joinFrom(t, two.host, one, "--disable-agent")
	wait(2)
}

func TestRunbookPartitionAway(t *testing.T) {
	b := openRunbook(t, "A partition is away")
	const doctor, list = "a4s doctor", "a4s partition list"
	const away, resources = "WARNING A partition of the cluster does not answer (tp2): ...",
		"A resource partition does not answer"
	b.names = []string{"rp4", "rp2", "away", "tp2 tenant away", "ready", "tp2 tenant ready"}
	home := ownCluster(t, "rb-home", "--disable-agent")
	rp2 := beginRoles(t, "rb-rp2", home, "--resource-partition", "rp2", "--cluster-cidr", "10.142.0.0/16")
	tp2 := beginRoles(t, "rb-tp2", home, "--tenant-partition", "tp2", "--service-cidr", "10.44.0.0/16",
		"--disable-agent")
	rp2.waitOwnNode(t)
	hosts.Until(t, podTimeout, "home knows the node of rp2", func(ctx context.Context) error {
		_, err := home.client.CoreV1().Nodes().Get(ctx, rp2.host.Name, metav1.GetOptions{})
		return err
	})
	home.must(t, "tenant", "create", "of-tp2", "--partition", "tp2", "--output", "/run/of-tp2")
	// There is no other node yet.
	ns := home.namespace(t)
	home.runDeployment(t, ns, deployment("web", 2))
	worker := newAgent(t, "rb-home-worker", home)
	home.waitNodeReady(t, worker.host.Name, worker.started)

	tp2.proc.Kill()
	for _, h := range []*hosts.Host{home.host, worker.host} {
		b.until(h, doctor, away)
	}
	if out := b.until(home.host, list, "away"); !regexp.MustCompile(`tp2\s+tenant\s+away.*\s20\d\d-\d\d-`).
		MatchString(out) {
		t.Errorf("the list does not say when it was seen last:\n%s", out)
	}
	if _, err := home.inSpace(t, "of-tp2").CoreV1().ConfigMaps("default").
		List(t.Context(), metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("its tenant gets: %v", err)
	}
	tp2.restart(t)
	b.until(home.host, list, "ready")
	b.gone(home.host, doctor, away)
	b.gone(worker.host, doctor, away)

	// The machine of its node is off.
	rp2.proc.Kill()
	rp2.must(t, "killall")
	b.until(home.host, doctor, resources)
	b.sees("partition main: 12 pods on 3 nodes deleted, 2 left that belong to their nodes",
		b.must(home.host, "a4s partition evict rp4"))
	hosts.Until(t, podTimeout, "the pods are made anew on the other node", func(ctx context.Context) error {
		list, err := home.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if !podIsReady(&p) || p.Spec.NodeName != worker.host.Name {
				return fmt.Errorf("%s is %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName)
			}
		}
		if len(list.Items) != 2 {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return nil
	})
	rp2.restart(t)
	b.gone(home.host, doctor, resources)

	// Its data are lost.
	tp2.proc.Kill()
	out := b.must(home.host, "a4s partition remove NAME --lost", "NAME", "tp2")
	if !strings.Contains(out, "tenant of-tp2 is given up") {
		t.Errorf("it does not print what it gives up: %s", out)
	}
	if out := b.must(home.host, list); strings.Contains(out, "tp2") {
		t.Errorf("it is still there: %s", out)
	}
	home.must(t, "tenant", "create", "of-tp2", "--output", "/run/again")
}

func TestRunbookGroupAway(t *testing.T) {
	b := openRunbook(t, "A service group is away")
	const doctor, list, drain = "a4s doctor", "a4s groups list", "a4s groups drain 1"
	const away = "WARNING A service group has no server that runs (1): its configuration is group-1"
	b.names = []string{"group-1", "partition-1"} // as setRange calls it
	zero := ownCluster(t, "rb-group-a", "--cluster-init", "--disable-agent", "--service-group-id", "0")
	one := joinServer(t, "rb-group-b", zero, "--disable-agent", "--service-group-id", "1")
	also := joinServer(t, "rb-group-c", zero, "--disable-agent", "--service-group-id", "0")
	zero.waitServers(t, zero, one, also)
	zero.setRange(t, "0", "", "m")
	zero.setRange(t, "1", "m", "")
	zero.must(t, "tenant", "create", "zulu", "--output", "/run/zulu")
	uses := func(name string) {
		t.Helper()
		if _, err := zero.inSpace(t, "zulu").CoreV1().ConfigMaps("default").
			Create(t.Context(), configMap(name, "x"), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	// owner waits until the group that has the tenant has servers that run and have met it.
	owner := func(group string) {
		t.Helper()
		row := regexp.MustCompile(`(?m)^` + group + ` +\[.* [1-9]/\d `)
		hosts.Until(t, runbookTimeout, "group "+group+" has the tenants", func(context.Context) error {
			out := b.must(zero.host, list)
			if !row.MatchString(out) || strings.Contains(out, "some servers have not applied it yet") {
				return errors.New(out)
			}
			return nil
		})
	}

	one.proc.Kill()
	b.until(zero.host, doctor, away)
	b.until(zero.host, list, "0/1")
	uses("while-away")

	b.must(zero.host, drain)
	owner("0")
	uses("drained")
	one.restart(t)
	b.must(zero.host, "a4s groups drain 1 --undo")
	owner("1")
	b.gone(zero.host, doctor, away)
	uses("given-back")

	one.proc.Kill()
	b.until(zero.host, doctor, away)
	b.must(zero.host, drain)
	b.must(zero.host, "a4s kubectl delete dpc NAME", "NAME", "partition-1")
	b.must(zero.host, "a4s kubectl -n kube-system delete lease a4s-server-NAME", "NAME", one.host.Name)
	b.gone(zero.host, doctor, away)
	b.gone(zero.host, list, "0/1")
	owner("0")
	if out := b.must(zero.host, list); strings.Contains(out, "(behind)") {
		t.Errorf("a server is behind:\n%s", out)
	}
	uses("for-good")
}
