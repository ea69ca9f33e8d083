package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/sizes"
)

// A failure is injected into a running cluster.
type failure struct {
	name   string
	inject func(*testing.T, *fixture)
	// ends says that the containers of the server's node end.
	ends bool
}

// What a4s starts is killed, and a4s itself.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "killed")
	c.waitOwnNode(t)
	newFixture(t, c).survive(t, []failure{
		{"containerd is killed", killContainerd(1), false},
		{"every shim is killed", killShims, true},
		{"a4s is killed under load", killUnderLoad(1), false},
	})
}

// More kinds of failures, and more often.
func TestInjectedFailures(t *testing.T) {
	onDemand(t)
	t.Parallel()
	f, worker := twoNodes(t, "injected")
	f.survive(t, []failure{
		{"a4s is killed under load", killUnderLoad(3), false},
		{"containerd is killed", killContainerd(3), false},
		{"every shim is killed", killShims, true},
		{"links are deleted", deleteLinks, false},
		{"the agent is killed", func(t *testing.T, f *fixture) { killAgent(t, f, worker) }, false},
	}, worker)
}

// A4S_RESTARTS is how often the server is restarted.
func TestRestartedAgainAndAgain(t *testing.T) {
	onDemand(t)
	t.Parallel()
	restarts := sizes.Of(t, "A4S_RESTARTS", 10)
	f, worker := twoNodes(t, "restarted")
	f.survive(t, []failure{{"restarts", func(t *testing.T, f *fixture) { restartAgain(t, f, restarts) }, false}},
		worker)
}

// A4S_OUTAGE is how long the network is away, by default only until the server
// has noticed.
func TestNodeWithoutANetwork(t *testing.T) {
	onDemand(t)
	t.Parallel()
	outage := time.Duration(0)
	if text := os.Getenv("A4S_OUTAGE"); text != "" {
		var err error
		if outage, err = time.ParseDuration(text); err != nil {
			t.Fatalf("A4S_OUTAGE: %v", err)
		}
	}
	// A node that is away is noticed after 20 seconds instead of 50.
	f, worker := twoNodes(t, "left", "--kube-controller-manager-arg", "node-monitor-grace-period=20s")
	f.survive(t, []failure{{"outage", func(t *testing.T, f *fixture) { cutOff(t, f, worker, outage) }, false}}, worker)
}

// twoNodes starts a cluster with a fixture, of which one pod is on an agent.
func twoNodes(t *testing.T, name string, args ...string) (*fixture, *node) {
	t.Helper()
	return withWorker(t, ownCluster(t, name, args...))
}

// withWorker adds an agent and a fixture to a cluster.
func withWorker(t *testing.T, c *cluster) (*fixture, *node) {
	t.Helper()
	worker := newAgent(t, c.host.Name+"-worker", c)
	c.waitOwnNode(t)
	c.waitNodeReady(t, worker.host.Name, worker.started)
	return newFixture(t, c, on(worker.host.Name, testboxPod("far"))), worker
}

// survive injects one failure after the other. After each the cluster is the
// same one, and after all the machines have what they had: what is left goes
// within a minute, so each is waited for only in the long variant.
func (f *fixture) survive(t *testing.T, failures []failure, agents ...*node) {
	t.Helper()
	nodes := append([]*node{&f.c.node}, agents...)
	prints := make([]footprint, len(nodes))
	for i, n := range nodes {
		prints[i] = steadyFootprint(t, n.host)
	}
	for _, failure := range failures {
		t.Run(failure.name, func(t *testing.T) {
			before := f.identify(t)
			failure.inject(t, f)
			f.c.waitOwnNode(t)
			f.waitServing(t)
			after := f.identify(t)
			if failure.ends {
				before, after = before.withoutContainers(), after.withoutContainers()
			}
			if diff := before.changes(after); len(diff) > 0 {
				t.Errorf("it is another cluster:\n%s", strings.Join(diff, "\n"))
			}
			if long() {
				f.runsPods(t)
				for i, n := range nodes {
					wantSameFootprint(t, n.host, prints[i], endedContainers)
				}
			}
		})
	}
	// A kill that meets containerd between the record of a snapshot and its directory leaves
	// the directory. containerd finds it when it removes the next snapshot.
	f.runsPods(t)
	for i, n := range nodes {
		wantSameFootprint(t, n.host, prints[i], endedContainers)
	}
}

// onDemand skips what takes too long for every run of the tests.
func onDemand(t *testing.T) {
	t.Helper()
	if os.Getenv("A4S_INJECT") == "" {
		t.Skip("A4S_INJECT is not set: make test-injection runs this")
	}
}

// inTime skips what begins after A4S_TESTS_END, in seconds since 1970: a run that is ended from outside tells less
// than one that leaves out what a slow machine had no time for.
func inTime(t *testing.T) {
	t.Helper()
	text := os.Getenv("A4S_TESTS_END")
	if text == "" {
		return
	}
	end, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("A4S_TESTS_END: %v", err)
	}
	if time.Now().Unix() > end {
		t.Skip("A4S_TESTS_END is over: the machine is too slow for all tests in this time")
	}
}

// long says whether somebody asked for the long variant.
func long() bool { return os.Getenv("A4S_OUTAGE") != "" }

func killUnderLoad(kills int) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) { killServers(t, f.c, kills) }
}

func killContainerd(kills int) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) {
		for range kills {
			was := f.c.components(t)["containerd"].Restarts
			if err := unix.Kill(childNamed(t, f.c.proc.PID(), "containerd"), unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			hosts.Until(t, soon, "containerd is back", func(context.Context) error {
				if got := f.c.components(t)["containerd"]; !got.Ready || got.Restarts == was {
					return fmt.Errorf("its state is %+v", got)
				}
				return nil
			})
		}
		f.runsPods(t)
	}
}

// endedContainers: the kubelet keeps the last ended container of each, its
// sandbox and its logs. So each of the four on the server's node leaves one or
// two of a kind.
var endedContainers = tolerance{regexp.MustCompile(`^(file|mount) ` +
	`/(var/log|run/a4s/containerd/io\.containerd\.grpc\.v#\.cri|var/lib/a4s/agent/(containerd|kubelet/` +
	`pods/#/containers))/`),
	8, "ended containers are kept"}

// killShims ends the shims of all pods of the server's node. As upstream, the
// pods stay and get new containers.
func killShims(t *testing.T, f *fixture) {
	before := f.restartCounts(t)
	killed := 0
	for pid, cmdline := range f.c.processes(t) {
		if strings.Contains(cmdline, "containerd-shim-runc-v2") && strings.Contains(cmdline, "-address") {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed++
		}
	}
	if killed < 4 {
		t.Fatalf("%d shims ran, want one of each pod", killed)
	}
	f.waitRestarted(t, before)
}

// restartAgain stops the server, by turns as an operator and as a crash does,
// sometimes before it has got far.
func restartAgain(t *testing.T, f *fixture, restarts int) {
	c := f.c
	for i := range restarts {
		if i%2 == 0 {
			c.proc.Kill()
		} else if err := c.proc.Stop(stopTimeout); err != nil {
			t.Fatal(err)
		}
		c.restart(t)
		if i%3 == 0 {
			c.waitOwnNode(t)
		}
	}
	t.Logf("%d restarts", restarts)
	c.waitOwnNode(t)
	f.runsPods(t)
}

// deleteLinks takes from two components of the process what they cannot work
// without: the network ends and is started again, DNS makes its link anew.
func deleteLinks(t *testing.T, f *fixture) {
	c := f.c
	before := c.components(t)
	for _, link := range []string{"flannel.1", "a4s-dns"} {
		run(t, c.host, "ip", "link", "delete", link)
	}
	hosts.Until(t, soon, "the network was started again", func(context.Context) error {
		if got := c.components(t)["network"]; !got.Ready || got.Restarts == before["network"].Restarts ||
			got.LastError == "" {
			return fmt.Errorf("its state is %+v", got)
		}
		return nil
	})
	far := c.podIP(t, f.ns, "far")
	hosts.Until(t, soon, "pods on both nodes reach each other, and names are found",
		func(ctx context.Context) error {
			if _, err := c.ask(ctx, f.ns, "stays", "/get", "url", "http://"+far+":8080/hostname"); err != nil {
				return err
			}
			_, err := c.ask(ctx, f.ns, "stays", "/get", "url", "http://web/hostname")
			return err
		})
	after := c.components(t)
	for name, was := range before {
		if now := after[name]; name != "network" && (now.Restarts != was.Restarts || !now.Ready) {
			t.Errorf("component %s was %+v and is %+v", name, was, now)
		}
	}
}

func killAgent(t *testing.T, f *fixture, worker *node) {
	for range 3 {
		worker.proc.Kill()
		if err := worker.start(); err != nil {
			t.Fatal(err)
		}
		f.c.waitNodeReady(t, worker.host.Name, worker.started)
	}
}

// cutOff takes the network from a node for some time, at least until the
// server has noticed.
func cutOff(t *testing.T, f *fixture, worker *node, outage time.Duration) {
	far, err := f.c.client.CoreV1().Pods(f.ns).Get(t.Context(), "far", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + far.Status.PodIP + ":8080/instance"
	instance := run(t, worker.host, env.testbox, "get", url)
	proc, began := worker.proc, time.Now()
	if err := worker.host.Unplug(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.host.Plug() })
	hosts.Until(t, soon, "the server has noticed", func(ctx context.Context) error {
		n, err := f.c.client.CoreV1().Nodes().Get(ctx, worker.host.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ready := condition(n, corev1.NodeReady); ready.Status != corev1.ConditionUnknown {
			return fmt.Errorf("the node is %+v", ready)
		}
		return nil
	})
	end := time.After(outage - time.Since(began))
	for over := false; !over; {
		if got := run(t, worker.host, env.testbox, "get", url); got != instance {
			t.Fatalf("without a network the pod answers %q, want %q", got, instance)
		}
		select {
		case <-end:
			over = true
		case <-time.After(5 * time.Second):
		}
	}
	plugged := time.Now()
	if err := worker.host.Plug(); err != nil {
		t.Fatal(err)
	}
	f.c.waitNodeReady(t, worker.host.Name, plugged)
	t.Logf("%s without a network; the node was ready %s after", plugged.Sub(began).Round(time.Second),
		time.Since(plugged).Round(time.Second))
	if worker.proc != proc || !proc.Running() {
		t.Error("the agent has ended")
	}
	f.c.waitAnswer(t, f.ns, "far", instance, "/instance")
	f.c.waitAnswer(t, f.ns, "stays", instance, "/get", "url", url)
}

// mountDisk returns what mounts a disk of its own, of 2 GiB, in a host.
func mountDisk(t *testing.T, h *hosts.Host, dir string) (image string, attach func()) {
	t.Helper()
	image = filepath.Join(t.TempDir(), "disk.img")
	run(t, h, "truncate", "-s", "2G", image)
	run(t, h, "mkfs.ext4", "-q", "-m", "0", image)
	return image, func() {
		run(t, h, "mkdir", "-p", dir)
		run(t, h, "mount", "-o", "loop,errors=remount-ro", image, dir)
	}
}

// ownDisk are settings for a disk that fills up: a kubelet evicts pods from
// such a one, and these are to stay.
var ownDisk = []string{"--kubelet-arg", "eviction-hard=memory.available<1Mi",
	"--kubelet-arg", "image-gc-high-threshold=100"}

// fillUp leaves no room on a disk, until the returned function is called.
func fillUp(t *testing.T, h *hosts.Host, dir string) (free func()) {
	t.Helper()
	// What is left by large blocks is filled with small ones.
	for _, size := range []string{"1M", "4k", "1k"} {
		if r, err := h.Run(t.Context(), "dd", "if=/dev/zero", "of="+dir+"/ballast-"+size, "bs="+size); err != nil ||
			r.ExitCode == 0 {
			t.Fatalf("the disk does not fill up: %v %s", err, r.Stderr)
		}
	}
	return func() { run(t, h, "sh", "-c", "rm "+dir+"/ballast-*") }
}

// While the disk of a node is full, no pod starts there and all others run on.
// Afterwards those that waited start, and nothing is left of the attempts.
func TestFullDiskOfANode(t *testing.T) {
	onDemand(t)
	t.Parallel()
	h := newHost(t, "nodedisk")
	const dir = dataDir + "/agent"
	_, attach := mountDisk(t, h, dir)
	attach()
	c, err := newServer(h, ownDisk...)
	if err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	c.waitOwnNode(t)
	f := newFixture(t, c)
	before, print, proc := f.identify(t), takeFootprint(t, h), c.proc

	free := fillUp(t, h, dir)
	full := time.Now()
	late := []string{"late-1", "late-2", "late-3", "late-4"}
	for _, name := range late {
		c.createPod(t, f.ns, on(h.Name, testboxPod(name)))
	}
	hosts.Until(t, 5*time.Minute, "each pod says for long why it does not start", func(ctx context.Context) error {
		for _, name := range late {
			events, err := c.client.CoreV1().Events(f.ns).List(ctx,
				metav1.ListOptions{FieldSelector: "type=Warning,involvedObject.name=" + name})
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(events.Items,
				func(e corev1.Event) bool { return strings.Contains(e.Message, "no space left on device") }) {
				return fmt.Errorf("%s does not", name)
			}
		}
		if lasts := time.Since(full); lasts < 90*time.Second {
			return fmt.Errorf("the disk is full for %s", lasts)
		}
		return nil
	})
	if diff := before.changes(f.identify(t).without(late...)); len(diff) > 0 {
		t.Errorf("while the disk is full it is another cluster:\n%s", strings.Join(diff, "\n"))
	}
	free()
	for _, name := range late {
		c.waitPodReady(t, f.ns, name)
	}
	for _, name := range late {
		c.removed(t, f.ns, name)
	}
	if c.proc != proc || !proc.Running() {
		t.Error("the server ended with the disk of its node")
	}
	f.waitServing(t)
	if diff := before.changes(f.identify(t)); len(diff) > 0 {
		t.Errorf("after the disk was full it is another cluster:\n%s", strings.Join(diff, "\n"))
	}
	wantSameFootprint(t, h, print)
}

// newServerOnItsDisk is a server, with its node, whose data directory is on a disk of its own:
// the file that the disk is, and what mounts it again.
func newServerOnItsDisk(t *testing.T, h *hosts.Host) (c *cluster, image string, attach func()) {
	t.Helper()
	image, attach = mountDisk(t, h, dataDir)
	attach()
	c, err := newServer(h, ownDisk...)
	if err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	c.waitOwnNode(t)
	return c, image, attach
}

// A disk that fills up, and one that the kernel makes read-only after an
// error, stop the server and not the pods. Nothing is lost.
func TestDiskFailures(t *testing.T) {
	onDemand(t)
	t.Parallel()
	h := newHost(t, "disk")
	c, image, attach := newServerOnItsDisk(t, h)
	f := newFixture(t, c)
	before := f.identify(t)
	print := takeFootprint(t, h)

	free := fillUp(t, h, dataDir)
	f.writeUntilEnd(t, "no space left on device: free some disk space")
	f.podsAnswer(t)
	r := c.a4s(t, c.args...)
	wantProblem(t, r, 2, dataDir, "free")
	free()
	c.restart(t)
	c.waitOwnNode(t)
	f.waitServing(t)
	f.runsPods(t)
	if diff := before.changes(f.identify(t)); len(diff) > 0 {
		t.Errorf("after the disk was full it is another cluster:\n%s", strings.Join(diff, "\n"))
	}
	if long() {
		wantSameFootprint(t, h, print)
	}

	counts := f.restartCounts(t)
	// As an error of the disk does it. Unlike after `mount -o remount,ro`,
	// what has a file open for writing does not keep it from happening.
	device := run(t, h, "findmnt", "-n", "-o", "SOURCE", "--mountpoint", dataDir)
	if err := os.WriteFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "trigger_fs_error"),
		[]byte("injected"), 0); err != nil {
		t.Fatal(err)
	}
	f.writeUntilEnd(t, "read-only file system: look into dmesg")
	f.podsAnswer(t)
	wantProblem(t, c.a4s(t, c.args...), 2, dataDir, "read-only")
	// Such a file system has to be checked and mounted anew.
	// What is in memory killall undoes all the same.
	if r := c.a4s(t, "killall"); r.ExitCode != 1 || !strings.Contains(r.Stderr, "read-only") {
		t.Errorf("killall: exit code %d, %s", r.ExitCode, r.Stderr)
	}
	run(t, h, "umount", dataDir)
	if r, err := h.Run(t.Context(), "e2fsck", "-p", image); err != nil || r.ExitCode > 1 {
		t.Fatalf("e2fsck: %v, exit code %d %s", err, r.ExitCode, r.Stdout)
	}
	attach()
	c.must(t, "killall")
	c.restart(t)
	c.waitOwnNode(t)
	f.waitRestarted(t, counts)
	f.waitServing(t)
	if diff := before.withoutContainers().changes(f.identify(t).withoutContainers()); len(diff) > 0 {
		t.Errorf("after the disk was read-only it is another cluster:\n%s", strings.Join(diff, "\n"))
	}
	// The removal of a snapshot's directory may be lost with the disk; containerd
	// finds such a directory when it removes another one.
	f.runsPods(t)
	wantSameFootprint(t, h, print, endedContainers)
}
