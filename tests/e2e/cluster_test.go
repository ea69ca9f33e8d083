package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/a4s-io/a4s/tests/hosts"
)

// Deadlines are generous: CI runs on two slow cores.
const (
	startTimeout = 6 * time.Minute
	stopTimeout  = time.Minute
	podTimeout   = 5 * time.Minute
	// soon is for what should happen at once. No test waits for as long unless it fails.
	soon = 4 * time.Minute
	// timeout is for one command.
	timeout = 4 * time.Minute
)

const (
	dataDir    = "/var/lib/a4s"
	kubeconfig = "/etc/a4s/a4s.yaml"
)

// node is one a4s process and its host.
type node struct {
	host *hosts.Host
	// tenant is whose space kubectl works in, "" for the system's.
	tenant string
	// binary is what to run instead of env.binary, if not "".
	binary string
	args   []string
	proc   *hosts.Process
	// started is when proc was.
	started time.Time
}

// cluster is a node that is a server, and a client of its API.
type cluster struct {
	node
	config *rest.Config
	client kubernetes.Interface
	class  string // the RuntimeClass of pods that name none
}

var namespaces atomic.Int64

// newHost makes a host that goes with the test.
func newHost(t *testing.T, name string) *hosts.Host {
	t.Helper()
	inTime(t)
	h, err := env.lab.NewHost(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		// The report is long, and of a run elsewhere one sees its end.
		if reason := hosts.WaitedInVain(t); reason != "" {
			t.Logf("host %s is gone; the test failed %s", name, reason)
		}
	})
	return h
}

// sharedCluster returns the server that most tests use; the first to ask
// starts it.
func sharedCluster(t *testing.T) *cluster {
	t.Helper()
	inTime(t)
	env.sharedOnce.Do(func() {
		h, err := env.lab.NewHost(context.Background(), "server")
		if err == nil {
			env.shared, err = newServer(h)
		}
		env.sharedErr = err
	})
	if env.sharedErr != nil {
		t.Fatalf("the shared server: %v", env.sharedErr)
	}
	env.shared.reportOnFailure(t)
	env.shared.waitReady(t)
	env.shared.waitOwnNode(t)
	return env.shared
}

// ownCluster starts a server for one test.
func ownCluster(t *testing.T, name string, args ...string) *cluster {
	t.Helper()
	return ownClusterOf(t, "", name, args...)
}

// ownClusterOf is ownCluster for another program than env.binary.
func ownClusterOf(t *testing.T, binary, name string, args ...string) *cluster {
	t.Helper()
	c, err := newServerOf(newHost(t, name), binary, args...)
	if err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	return c
}

// newServer starts `a4s server` and does not wait for it.
func newServer(h *hosts.Host, args ...string) (*cluster, error) { return newServerOf(h, "", args...) }

func newServerOf(h *hosts.Host, binary string, args ...string) (*cluster, error) {
	c := &cluster{node: node{host: h, binary: binary, args: append([]string{"server"}, args...)}}
	if err := c.importImages(); err != nil {
		return nil, err
	}
	return c, c.start()
}

// newAgent starts `a4s agent`, from the program of the server, on a host of its
// own, for one test.
func newAgent(t *testing.T, name string, c *cluster, args ...string) *node {
	t.Helper()
	n := &node{host: newHost(t, name), binary: c.binary}
	n.args = append([]string{"agent", "--server", c.url(), "--token", c.nodeToken(t)}, args...)
	if err := errors.Join(n.importImages(), n.start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			n.printLogs(t)
		}
	})
	return n
}

// importImages puts the archives where a4s imports from at its start.
func (n *node) importImages() error {
	for _, image := range env.images {
		b, err := os.ReadFile(image)
		if err != nil {
			return err
		}
		if err := n.host.WriteFile(filepath.Join(dataDir, "agent/images", filepath.Base(image)),
			string(b)); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) start() (err error) {
	n.started = time.Now()
	n.proc, err = n.host.Start(cmp.Or(n.binary, env.binary), withAnyDisk(n.args)...)
	return err
}

// withAnyDisk adds to the arguments of a4s what lets its pods stay, however
// full the machine's disk is: a kubelet counts it in percent, and all hosts have
// the machine's. TestMain refuses a disk that is full.
func withAnyDisk(args []string) []string {
	if slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "eviction-hard=") }) {
		return args
	}
	return slices.Concat(args, []string{
		"--kubelet-arg", "eviction-hard=memory.available<100Mi,nodefs.available<512Mi,imagefs.available<512Mi",
		"--kubelet-arg", "image-gc-high-threshold=100"})
}

// restart starts the process again after its end and waits for the API.
func (c *cluster) restart(t *testing.T) {
	t.Helper()
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	c.waitReady(t)
}

func (c *cluster) url() string { return "https://" + net.JoinHostPort(c.host.IP.String(), "6443") }

func (c *cluster) nodeToken(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(c.host.Path(dataDir + "/server/node-token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// waitReady waits until the API server says that it is ready. A process that
// ends meanwhile fails the test at once.
func (c *cluster) waitReady(t *testing.T) {
	t.Helper()
	hosts.Until(t, startTimeout, "the API of "+c.host.Name+" is ready", func(ctx context.Context) error {
		if !c.proc.Running() {
			t.Fatalf("a4s on %s ended:\n%s", c.host.Name, hosts.LastLines(c.proc.Log, 100))
		}
		if c.client == nil {
			if err := c.connect(); err != nil {
				return err
			}
		}
		_, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

// connect makes the client from the admin kubeconfig, which names a loopback
// address of the host.
func (c *cluster) connect() error {
	content, err := os.ReadFile(c.host.Path(kubeconfig))
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return err
	}
	config.Host = c.url()
	config.QPS, config.Burst = 500, 1000
	config.Timeout = soon
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	c.config, c.client = config, client
	return nil
}

// waitOwnNode waits until the node in the server's process is ready.
func (c *cluster) waitOwnNode(t *testing.T) {
	t.Helper()
	c.waitNodeReady(t, c.host.Name, c.started)
}

// waitNodeReady waits until a node has said since then that it is ready. What
// an earlier process said counts for nothing.
func (c *cluster) waitNodeReady(t *testing.T, name string, since time.Time) {
	t.Helper()
	hosts.Until(t, startTimeout, "node "+name+" is ready", func(ctx context.Context) error {
		n, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		untainted := !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key != passingTaint })
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && untainted &&
				!condition.LastHeartbeatTime.Time.Before(since.Truncate(time.Second)) {
				return nil
			}
		}
		return fmt.Errorf("taints %v, conditions %v", n.Spec.Taints, n.Status.Conditions)
	})
}

// namespace makes a namespace that goes with the test, and waits until pods
// can be created in it.
func (c *cluster) namespace(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("test-%d", namespaces.Add(1))
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Not waited for: the pods go while the next test runs.
		_ = c.client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	c.takesPods(t, name)
	return name
}

// takesPods waits until pods can be created in a namespace: a controller makes the service account
// that they have, also in the namespaces that the API has from its begin.
func (c *cluster) takesPods(t *testing.T, ns string) {
	t.Helper()
	ready := func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
		return err
	}
	if ready(t.Context()) == nil {
		return
	}
	hosts.Until(t, soon, "namespace "+ns+" has its service account", ready)
}

// a4s runs a command of a4s on the node's host to its end.
func (n *node) a4s(t *testing.T, args ...string) hosts.Result {
	t.Helper()
	if n.tenant != "" && len(args) > 0 && args[0] == "kubectl" {
		args = append([]string{"kubectl", "--tenant", n.tenant}, args[1:]...)
	}
	return command(t, n.host, args...)
}

// command runs a4s on a host to its end. No outcome may show a stack trace.
func command(t *testing.T, h *hosts.Host, args ...string) hosts.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	r, err := h.Run(ctx, env.binary, args...)
	if err != nil {
		t.Fatalf("a4s %s: %v", strings.Join(args, " "), err)
	}
	noTrace(t, r.Stdout+r.Stderr)
	return r
}

// must is command for one that has to succeed; it returns standard output.
func (n *node) must(t *testing.T, args ...string) string {
	t.Helper()
	r := n.a4s(t, args...)
	if r.ExitCode != 0 {
		t.Fatalf("a4s %s: exit code %d\n%s%s", strings.Join(args, " "), r.ExitCode, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// ask returns what the test server in a pod answers, through the API server.
func (c *cluster) ask(ctx context.Context, ns, pod, path string, params ...string) (string, error) {
	query := map[string]string{}
	for pair := range slices.Chunk(params, 2) {
		query[pair[0]] = pair[1]
	}
	b, err := c.client.CoreV1().Pods(ns).ProxyGet("http", pod, "8080", path, query).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("asking pod %s for %s %v: %w: %s", pod, path, params, err, b)
	}
	return strings.TrimSpace(string(b)), nil
}

// exec runs a command in a pod and returns its standard output.
func (c *cluster) exec(ctx context.Context, ns, pod, stdin string, words ...string) (string, error) {
	req := c.client.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: words, Stdin: stdin != "", Stdout: true, Stderr: true},
			paramCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.config, "GET", req.URL().String())
	if err != nil {
		return "", err
	}
	var out, errs bytes.Buffer
	var in io.Reader
	if stdin != "" {
		in = strings.NewReader(stdin)
	}
	if err := executor.StreamWithContext(ctx,
		remotecommand.StreamOptions{Stdin: in, Stdout: &out, Stderr: &errs}); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, errs.String())
	}
	return strings.TrimSpace(out.String()), nil
}
