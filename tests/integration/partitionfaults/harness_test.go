// Package partitionfaults_test runs servers of one or several partitions from the binary of a4s,
// each a process in a network namespace of its own, kills them, and looks at what is left.
// They run no nodes, so no lab of end-to-end tests is needed.
package partitionfaults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/process"
	"github.com/a4s-io/a4s/tests/sizes"
)

const (
	// startTimeout is generous: other tests run on the same two cores.
	startTimeout = 5 * time.Minute
	settled      = 3 * time.Minute
	// patience bounds one request.
	patience = 40 * time.Second
	gateway  = "10.99.0.254"
)

// runs is how often a test does what it does at random: a few times, or as often as
// A4S_TEST_RUNS says.
func runs(t *testing.T, few int) int {
	t.Helper()
	return sizes.Of(t, "A4S_TEST_RUNS", few)
}

// network is the network of a test. It goes with the namespace of the test.
type network struct {
	binary string
	bridge *netlink.Bridge
	made   int
}

// newNetwork makes a network. It returns nil outside the namespace of the test, where the
// outcome has been reported already.
func newNetwork(t *testing.T) *network {
	t.Helper()
	binary := os.Getenv("A4S_BINARY")
	if binary == "" {
		binary = filepath.Join("..", "..", "..", "bin", "a4s")
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		t.Fatal(err)
	}
	if !nstest.Isolate(t) {
		return nil
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("A4S_BINARY: %v: build it with make", err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "br0"
	attrs.HardwareAddr = net.HardwareAddr{2, 0, 0, 0, 0, 1} // else it changes as machines come and go
	n := &network{binary: binary, bridge: &netlink.Bridge{LinkAttrs: attrs}}
	must(t, netlink.LinkAdd(n.bridge))
	must(t, netlink.AddrAdd(n.bridge, &netlink.Addr{IPNet: subnet(net.ParseIP(gateway))}))
	must(t, netlink.LinkSetUp(n.bridge))
	return n
}

func subnet(ip net.IP) *net.IPNet { return &net.IPNet{IP: ip.To4(), Mask: net.CIDRMask(24, 32)} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// server is a process of a4s with a machine of its own: an address, and a directory.
type server struct {
	name, ip, dir string
	binary        string
	args          []string
	machine       *exec.Cmd
	link          netlink.Link

	process *exec.Cmd
	ended   chan struct{}
	config  *rest.Config
	client  kubernetes.Interface
	starts  int
	ranges  []string // flags that all servers of the partition have
}

// machine makes what a server runs on.
func (n *network) machine(t *testing.T, name string) *server {
	t.Helper()
	n.made++
	s := &server{name: name, ip: fmt.Sprintf("10.99.0.%d", n.made), dir: t.TempDir(), binary: n.binary}
	// It lives as long as its standard input, which ends with this process.
	s.machine = exec.Command("sh", "-c", "hostname "+name+
		" && mount -t tmpfs tmpfs /run && ip link set lo up && echo ready && exec cat")
	s.machine.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS}
	var stderr bytes.Buffer
	s.machine.Stderr = &stderr
	in, err := s.machine.StdinPipe()
	must(t, err)
	out, err := s.machine.StdoutPipe()
	must(t, err)
	must(t, s.machine.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = s.machine.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
		t.Fatalf("making machine %s: %v: %s", name, err, stderr.String())
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = fmt.Sprintf("veth%d", n.made), n.bridge.Index
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0",
		PeerNamespace: netlink.NsPid(s.machine.Process.Pid)}))
	s.link, err = netlink.LinkByName(attrs.Name)
	must(t, err)
	must(t, netlink.LinkSetUp(s.link))
	for _, words := range [][]string{{"addr", "add", s.ip + "/24", "dev", "eth0"}, {"link", "set", "eth0", "up"},
		{"route", "add", "default", "via", gateway}} {
		if out, err := s.inside("ip", words...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", words, err, out)
		}
	}
	return s
}

// inside is a command on the machine.
func (s *server) inside(program string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--target", strconv.Itoa(s.machine.Process.Pid),
		"--net", "--mount", "--uts", "--", program}, args...)...)
}

// server starts a server and does not wait for it.
func (n *network) server(t *testing.T, name string, args ...string) *server {
	t.Helper()
	s := n.machine(t, name)
	s.args = append([]string{"server", "--disable-agent", "--data-dir", filepath.Join(s.dir, "data"),
		"--write-kubeconfig", filepath.Join(s.dir, "kubeconfig")}, args...)
	t.Cleanup(func() {
		if t.Failed() {
			s.show(t)
		}
		s.kill()
	})
	s.start(t)
	return s
}

// show prints what there was to be read of late, without what etcd says of a slow machine.
func (s *server) show(t *testing.T) {
	for i := max(1, s.starts-1); i <= s.starts; i++ {
		log, err := os.ReadFile(s.log(i))
		if err != nil {
			t.Logf("%s, start %d: %v", s.name, i, err)
			continue
		}
		lines := slices.DeleteFunc(strings.Split(string(log), "\n"), func(line string) bool {
			return strings.Contains(line, "apply request took too long")
		})
		t.Logf("%s, start %d:\n%s", s.name, i, strings.Join(lines[max(0, len(lines)-120):], "\n"))
	}
}

func (s *server) log(start int) string { return filepath.Join(s.dir, fmt.Sprintf("%d.log", start)) }

func (s *server) start(t *testing.T) {
	t.Helper()
	s.starts++
	log, err := os.Create(s.log(s.starts))
	must(t, err)
	defer log.Close()
	s.process, s.ended = s.inside(s.binary, s.args...), make(chan struct{})
	s.process.Stdout, s.process.Stderr = log, log
	wait, err := process.Start(s.process)
	must(t, err)
	go func(ended chan struct{}) {
		_ = wait()
		close(ended)
	}(s.ended)
}

// kill is SIGKILL.
func (s *server) kill() {
	_ = s.process.Process.Kill()
	<-s.ended
}

func (s *server) url() string { return "https://" + net.JoinHostPort(s.ip, "6443") }

// ready waits for the API.
func (s *server) ready(t *testing.T) {
	t.Helper()
	hosts.Until(t, startTimeout, s.name+" is ready", func(ctx context.Context) error {
		select {
		case <-s.ended:
			t.Fatalf("%s ended", s.name)
		default:
		}
		if s.client == nil {
			if err := s.connect(); err != nil {
				return err
			}
		}
		_, err := s.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

func (s *server) connect() error {
	content, err := os.ReadFile(filepath.Join(s.dir, "kubeconfig"))
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return err
	}
	config.Host, config.QPS, config.Timeout = s.url(), -1, patience
	client, err := kubernetes.NewForConfig(config)
	s.config, s.client = config, client
	return err
}

func (s *server) token(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, "data", "server", "token"))
	must(t, err)
	return strings.TrimSpace(string(b))
}

func (s *server) tenants(t *testing.T) *tenantapi.Client {
	t.Helper()
	c, err := tenantapi.NewClient(s.config, nil)
	must(t, err)
	return c
}

func (s *server) placements(t *testing.T) *partitionapi.PlacementClient {
	t.Helper()
	c, err := partitionapi.NewPlacementClient(s.config, nil)
	must(t, err)
	return c
}

func (s *server) partitions(t *testing.T) *partitionapi.PartitionClient {
	t.Helper()
	c, err := partitionapi.NewPartitionClient(s.config, nil)
	must(t, err)
	return c
}

// home starts the first server of a cluster.
func (n *network) home(t *testing.T, args ...string) *server {
	t.Helper()
	s := n.server(t, "home", args...)
	s.ready(t)
	return s
}

// begin starts the first server of a partition, the i-th, with tenants or nodes or both.
func (n *network) begin(t *testing.T, home *server, name string, i int, args ...string) *server {
	t.Helper()
	ranges := []string{"--service-cidr", fmt.Sprintf("10.%d.0.0/16", 44+i),
		"--cluster-cidr", fmt.Sprintf("10.%d.0.0/16", 142+i)}
	s := n.server(t, name, slices.Concat([]string{"--cluster", home.url(), "--token", home.token(t)}, ranges, args)...)
	s.ranges = ranges
	s.ready(t)
	return s
}

// join starts a further server of the partition of another one.
func (n *network) join(t *testing.T, first *server, name string, args ...string) *server {
	t.Helper()
	s := n.server(t, name, slices.Concat([]string{"--server", first.url(), "--token", first.token(t)}, first.ranges,
		args)...)
	s.ready(t)
	return s
}

// awaitServers waits until partitions are known with these servers and no others.
func awaitServers(t *testing.T, at *server, partition string, want ...*server) {
	t.Helper()
	hosts.Until(t, settled, fmt.Sprintf("%s knows the %d servers of partition %s", at.name, len(want), partition),
		func(ctx context.Context) error {
			p, err := at.partitions(t).Get(ctx, partition, metav1.GetOptions{})
			if err != nil {
				return err
			}
			var have, names []string
			for _, s := range p.Spec.Servers {
				have = append(have, s.Name)
			}
			for _, s := range want {
				names = append(names, s.name)
			}
			slices.Sort(have)
			slices.Sort(names)
			if !slices.Equal(have, names) {
				return errors.New("it has " + strings.Join(have, ", "))
			}
			return nil
		})
}
