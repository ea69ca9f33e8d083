package agent

import (
	"context"
	"errors"
	"net"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/agent/dns"
	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/host/nodeaddr"
	"github.com/a4s-io/a4s/agent/ingress"
	"github.com/a4s-io/a4s/agent/kubelet"
	"github.com/a4s-io/a4s/agent/network"
	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/agent/network/proxy"
	"github.com/a4s-io/a4s/agent/runtime/registries"
	"github.com/a4s-io/a4s/embedded/payload"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/preflight"
)

// minFree is the disk space that a node asks for at its start: the payload
// and the first images.
const minFree = 256 << 20

// maxFurther is how many further addresses a server takes.
const maxFurther = 8

// Node is a node in the making: Prepare refuses what can be refused without a
// trace, StartRuntime does what needs no server, Join the rest.
type Node struct {
	cfg  *config.Agent
	addr nodeaddr.Choice
	dir  string // <data-dir>/agent
	log  *logrus.Entry

	runtimes   *runtimeSet
	access     *access
	partitions *tenantPartitions // set when the node joins
	network    *clusterNetwork
	kubelet    kubeletSettings
	health     *nodeHealth
}

// Prepare checks settings and machine and changes nothing. cfg must be complete
// and valid, with its NodeName set.
func Prepare(ctx context.Context, cfg *config.Agent, addr nodeaddr.Choice) (*Node, error) {
	dir, log := filepath.Join(cfg.DataDir, "agent"), logrus.WithField("component", "agent")
	machine, err := host.Probe()
	if err != nil {
		return nil, err
	}
	a := newAccess(cfg, dir)
	proxy := ingress.New(ingress.Options{RunDir: instance.RunDir, HTTP: ":80", HTTPS: ":443", Debug: cfg.Debug,
		Output: logrus.StandardLogger().Out})
	n := &Node{
		cfg: cfg, addr: addr, dir: dir, log: log,
		runtimes: &runtimeSet{cfg: cfg, dir: dir, host: machine, log: log},
		access:   a,
		network:  &clusterNetwork{cfg: cfg, addr: addr, access: a, log: log, ingress: proxy},
		kubelet:  kubeletSettings{cfg: cfg, addr: addr, host: machine},
		health:   &nodeHealth{cfg: cfg, dir: dir, access: a, ingress: proxy},
	}
	ports, err := n.ports()
	if err != nil {
		return nil, err
	}
	if n.runtimes.registries, err = registries.Follow(cfg.PrivateRegistry); err != nil {
		return nil, err
	}
	if n.runtimes.chosen, err = n.kubelet.options(unknownCluster(), "", "").Chosen(); err != nil {
		return nil, err
	}
	n.health.registries = n.runtimes.registries
	if err := n.runtimes.check(); err != nil {
		return nil, err
	}
	if err := preflight.FreeSpace(cfg.DataDir, minFree); err != nil {
		return nil, err
	}
	if err := preflight.Ports(ports...); err != nil {
		return nil, err
	}
	if err := payload.Check(cfg.DataDir); err != nil {
		return nil, err
	}
	n.health.filter, n.health.filterWhy, err = netfilter.Choose(ctx, "--proxy-mode", netfilter.Mode(cfg.ProxyMode))
	return n, err
}

// Health lets a monitor watch over the node. With events, it writes Events as
// this node; the server of this machine does so otherwise.
func (n *Node) Health(m *health.Monitor, events bool) { n.health.watch(m, events) }

// StartRuntime unpacks the payload, prepares the kernel and starts the container
// runtimes in group.
func (n *Node) StartRuntime(ctx context.Context, group *component.Group) error {
	err := n.runtimes.start(ctx, group)
	n.health.mux.Store(n.runtimes.mux)
	return err
}

// ImportImages makes the pause image and the operator's archives available. It
// needs nothing but StartRuntime. Join does it for a caller that did not.
func (n *Node) ImportImages(ctx context.Context, group *component.Group) error {
	return n.runtimes.importImages(ctx, group)
}

// Join joins the cluster of the servers and starts the rest of the node in
// group. It returns when the node is ready to run pods.
func (n *Node) Join(ctx context.Context, group *component.Group, servers []string, token string) error {
	options := n.joinOptions(servers, token)
	if err := join.Check(options); err != nil {
		return err
	}
	if err := n.access.reach(ctx, group, servers, &options); err != nil {
		return err
	}
	pods, parts, err := openBootstrapPods(n.cfg, n.dir, n.access, false)
	if err != nil {
		return err
	}
	n.partitions, n.network.partitions = parts, parts
	n.health.router.Store(parts.router)
	joined, err := join.Join(ctx, options)
	if err != nil {
		return err
	}
	if err := n.access.writeCredential(joined); err != nil {
		return err
	}
	parts.start(ctx, group)
	if err := errors.Join(parts.connect(), n.access.follow(ctx, group, joined), parts.follow(ctx, group)); err != nil {
		return err
	}
	startCertificates(ctx, group, n.dir, options)
	if err := n.ImportImages(ctx, group); err != nil {
		return err
	}
	if err := pods.start(ctx, group, n.cfg.NodeName); err != nil {
		return err
	}
	parts.await(ctx)
	// The network has to learn of the nodes, so it comes before what it may have
	// to wait for.
	if err := n.startNetwork(ctx, group, joined, func() {}); err != nil {
		return err
	}
	n.startKubelet(ctx, group, joined)
	waitFor := []string{kubelet.Name, network.Name, dns.Name}
	if !n.cfg.DisableKubeProxy {
		waitFor = append(waitFor, proxy.Name)
	}
	for _, name := range waitFor {
		if err := group.Wait(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) joinOptions(servers []string, token string) join.Options {
	return join.Options{
		ServerURL:  servers[0],
		Token:      token,
		NodeName:   n.cfg.NodeName,
		NodeIPs:    n.addr.Strings(),
		FurtherIPs: n.furtherIPs(),
		Dir:        n.dir,
		Log:        n.log,
	}
}

// furtherIPs are what else this node says are its addresses: its external ones, and that of the
// tunnel, if that is of another interface.
func (n *Node) furtherIPs() []string {
	out := append([]string{}, n.cfg.NodeExternalIPs...)
	if n.cfg.FlannelIface == "" {
		return out
	}
	iface, err := net.InterfaceByName(n.cfg.FlannelIface)
	if err != nil {
		return out // the network says what is wrong with it
	}
	addrs, err := iface.Addrs()
	if err != nil {
		return out
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			out = append(out, ip.IP.String())
		}
	}
	return out[:min(len(out), maxFurther)]
}

// startNetwork starts what keeps pods apart, and when its rules are there what
// reports the runtimes and makes local volumes, and the pod network. isolated is
// called in between.
func (n *Node) startNetwork(ctx context.Context, group *component.Group, joined *join.Result, isolated func()) error {
	pods, err := n.network.isolate(ctx, group, joined)
	if err != nil {
		return err
	}
	isolated()
	if err := errors.Join(n.runtimes.report(ctx, group, n.access, n.partitions.source.Restored),
		startVolumes(ctx, group, n.access)); err != nil {
		return err
	}
	if err := n.network.start(ctx, group, joined, pods); err != nil {
		return err
	}
	n.health.joined.Store(joined)
	return nil
}

// startKubelet starts the kubelet, with what is known about the cluster.
func (n *Node) startKubelet(ctx context.Context, group *component.Group, joined *join.Result) {
	n.runtimes.mux.SetClusterDomain(joined.Config.ClusterDomain)
	o := n.kubelet.options(joined, n.access.credential(), resolvConf(n.cfg, n.log))
	o.NotReadyReason, o.ContainerdSocket = n.runtimes.notReadyReason, n.runtimes.containerAPI()
	n.partitions.kubelet(ctx, &o, joined)
	group.Start(ctx, kubelet.New(o))
}

// ports are those that the node will listen on. It refuses bad upstream
// arguments, labels and taints before anything starts. What only the server
// knows stands in as its default.
func (n *Node) ports() ([]preflight.Port, error) {
	unknown := unknownCluster()
	all, err := n.kubelet.options(unknown, "", "").Ports()
	if err != nil {
		return nil, err
	}
	if n.cfg.LBServerPort != 0 {
		all = append(all, preflight.Port{Address: loopback, Port: n.cfg.LBServerPort,
			What: "load balancer over the servers", Flag: "--lb-server-port PORT"})
	}
	proxy, err := n.network.proxy(unknown).Ports()
	if err != nil || n.cfg.DisableKubeProxy {
		return all, err
	}
	return append(all, proxy...), nil
}
