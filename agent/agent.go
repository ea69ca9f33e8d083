package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/agent/cluster/loadbalancer"
	"github.com/a4s-io/a4s/agent/dns"
	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/host/nodeaddr"
	"github.com/a4s-io/a4s/agent/kubelet"
	"github.com/a4s-io/a4s/agent/network"
	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/agent/network/packetfilter"
	"github.com/a4s-io/a4s/agent/network/proxy"
	"github.com/a4s-io/a4s/agent/runtime/containerd"
	"github.com/a4s-io/a4s/agent/runtime/images"
	"github.com/a4s-io/a4s/agent/runtime/mux"
	"github.com/a4s-io/a4s/agent/runtime/readiness"
	"github.com/a4s-io/a4s/agent/runtime/registries"
	"github.com/a4s-io/a4s/embedded/payload"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/internal/workload"
)

// minFree is the disk space that a node asks for at its start: the payload
// and the first images.
const minFree = 256 << 20

// Node is a node in the making: Prepare refuses what can be refused without a
// trace, StartRuntime does what needs no server, Join the rest.
type Node struct {
	cfg     *config.Agent
	addr    nodeaddr.Choice
	dir     string // <data-dir>/agent
	host    host.Info
	payload *payload.Payload // nil until StartRuntime
	// imported is true once the images are there.
	imported bool
	log      *logrus.Entry

	registries *registries.Config
	pods       *bootstrapPods        // nil without --bootstrap-pod-api
	registered []noderuntime.Runtime // of the settings; endpoints may be builtin
	runtimes   *mux.Mux              // nil until StartRuntime
	grace      time.Duration         // of the primary runtime; set with runtimes
	told       readiness.Told        // what the cluster knows of the runtimes
	health     nodeHealth            // what checks of its health know

	servers *loadbalancer.Balancer // nil on a server
	api     string                 // URL by which the node's clients reach the API; set by reach
}

// Prepare checks settings and machine and changes nothing. cfg must be complete
// and valid, with its NodeName set.
func Prepare(ctx context.Context, cfg *config.Agent, addr nodeaddr.Choice) (*Node, error) {
	n := &Node{cfg: cfg, addr: addr, dir: filepath.Join(cfg.DataDir, "agent"), log: logrus.WithField("component", "agent")}
	var err error
	if n.host, err = host.Probe(); err != nil {
		return nil, err
	}
	ports, err := n.ports()
	if err != nil {
		return nil, err
	}
	if n.registries, err = registries.Load(cfg.PrivateRegistry); err != nil {
		return nil, err
	}
	if err := n.checkRuntimes(); err != nil {
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

// Join joins the cluster of the servers and starts the rest of the node in
// group. It returns when the node is ready to run pods.
func (n *Node) Join(ctx context.Context, group *component.Group, servers []string, token string) error {
	options := n.joinOptions(servers, token)
	if err := join.Check(options); err != nil {
		return err
	}
	if err := n.reach(ctx, group, servers, &options); err != nil {
		return err
	}
	if err := n.makePods(); err != nil {
		return err
	}
	joined, err := join.Join(ctx, options)
	if err != nil {
		return err
	}
	if err := n.writeCredential(joined); err != nil {
		return err
	}
	if err := n.connect(); err != nil {
		return err
	}
	if err := n.followServers(ctx, group); err != nil {
		return err
	}
	n.startCertificates(ctx, group, options)
	if err := n.ImportImages(ctx, group); err != nil {
		return err
	}
	if err := n.startPods(ctx, group); err != nil {
		return err
	}
	pods, err := n.isolate(ctx, group, joined, n.credential())
	if err != nil {
		return err
	}
	// The network has to learn of the nodes, so it comes before what it may have
	// to wait for.
	if err := n.startNetwork(ctx, group, joined, pods); err != nil {
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
		ServerURL: servers[0],
		Token:     token,
		NodeName:  n.cfg.NodeName,
		NodeIPs:   n.addr.Strings(),
		Dir:       n.dir,
		Log:       n.log,
	}
}

// credential is the kubeconfig of the node.
func (n *Node) credential() string { return join.CredentialFile(n.dir) }

// writeCredential makes the credential of what a join brought.
func (n *Node) writeCredential(joined *join.Result) error {
	return kubeconfig.Write(kubeconfig.Options{
		Path: n.credential(), Server: n.api,
		CAFile: joined.ServerCA, CertFile: joined.ClientCert, KeyFile: joined.ClientKey,
	})
}

// connect lets the kubelet and the bootstrap pods reach the server; without
// them, the kubelet does so by itself.
func (n *Node) connect() error {
	if n.pods == nil {
		return nil
	}
	return n.pods.uplink.Connect(n.credential())
}

// ImportImages makes the pause image and the operator's archives available. It
// needs nothing but StartRuntime. Join does it for a caller that did not.
func (n *Node) ImportImages(ctx context.Context, group *component.Group) error {
	if n.imported || !n.carries(workload.Container) {
		return nil
	}
	if err := group.Wait(ctx, containerd.Name); err != nil {
		return err
	}
	if err := images.Import(ctx, images.Options{
		Socket:      containerd.Socket(n.stateDir()),
		Snapshotter: n.cfg.Snapshotter,
		Required:    []string{n.payload.PauseImageTar},
		Dir:         images.Dir(n.cfg.DataDir),
		StateFile:   images.StateFile(n.cfg.DataDir),
		Log:         n.log,
	}); err != nil {
		return err
	}
	n.imported = true
	return nil
}

// resolvConf is the resolver file that pods and the DNS server inherit from.
func (n *Node) resolvConf() string {
	if n.cfg.ResolvConf != "" {
		return n.cfg.ResolvConf
	}
	path, usable := host.ResolvConf()
	if !usable {
		n.log.Warnf("%s names no server that pods could reach; names outside the cluster will not resolve", path)
	}
	return path
}

// startKubelet starts the kubelet, with what is known about the cluster.
func (n *Node) startKubelet(ctx context.Context, group *component.Group, joined *join.Result) {
	n.runtimes.SetClusterDomain(joined.Config.ClusterDomain)
	group.Start(ctx, kubelet.New(n.kubelet(joined, n.credential(), n.resolvConf())))
}

// startNetwork starts the pod network, the service proxy and the DNS server, and
// what tells the server about the runtimes and asks it for local volumes.
func (n *Node) startNetwork(ctx context.Context, group *component.Group, joined *join.Result, pods *localpods.Pods) error {
	if err := errors.Join(n.reportRuntimes(ctx, group), n.startVolumes(ctx, group)); err != nil {
		return err
	}
	group.Start(ctx, network.New(network.Options{
		KubeconfigPath: n.credential(),
		NodeName:       n.cfg.NodeName,
		NodeIPs:        n.addr.IPs,
		Iface:          n.addr.Iface,
		Backend:        joined.Config.FlannelBackend,
		ClusterCIDR:    joined.Config.ClusterCIDR,
		PacketFilter:   netfilter.Mode(n.cfg.ProxyMode),
		DataDir:        n.cfg.DataDir,
		Log:            logrus.WithField("component", network.Name),
	}))
	if !n.cfg.DisableKubeProxy {
		group.Start(ctx, proxy.New(n.proxy(joined, n.credential())))
	}
	n.health.joined.Store(joined)
	server, err := n.dns(joined, n.credential(), n.resolvConf(), pods)
	if err != nil {
		return err
	}
	group.Start(ctx, server)
	return nil
}

func (n *Node) kubelet(joined *join.Result, credential, resolvConf string) kubelet.Options {
	o := kubelet.Options{
		DataDir:         n.cfg.DataDir,
		Kubeconfig:      credential,
		NodeName:        n.cfg.NodeName,
		NodeIPs:         n.addr.Strings(),
		NodeExternalIPs: n.cfg.NodeExternalIPs,
		NodeLabels:      n.cfg.NodeLabels,
		NodeTaints:      n.cfg.NodeTaints,
		RuntimeEndpoint: "unix://" + criSocket(),
		ClientCA:        joined.ClientCA,
		ServingCert:     joined.ServingCert,
		ServingKey:      joined.ServingKey,
		ClusterDNS:      joined.Config.ClusterDNS,
		ClusterDomain:   joined.Config.ClusterDomain,
		ResolvConf:      resolvConf,
		Host:            n.host,
		Args:            n.cfg.KubeletArgs,
		Obstacle:        n.obstacle,
		Log:             logrus.WithField("component", kubelet.Name),
	}
	if n.pods != nil {
		o.Source = n.pods.source.Wrap
		o.Connection = &kubelet.Connection{Server: n.pods.server, Transport: n.pods.uplink}
	}
	return o
}

func (n *Node) proxy(joined *join.Result, credential string) proxy.Options {
	return proxy.Options{
		KubeconfigPath: credential,
		NodeName:       n.cfg.NodeName,
		ClusterCIDR:    joined.Config.ClusterCIDR,
		Mode:           netfilter.Mode(n.cfg.ProxyMode),
		Args:           n.cfg.KubeProxyArgs,
		Log:            logrus.WithField("component", proxy.Name),
	}
}

// unknownCluster stands in for what only the server knows.
func unknownCluster() *join.Result {
	return &join.Result{Config: joinapi.ClusterConfig{ClusterDNS: "10.43.0.10", ClusterDomain: "cluster.local", ClusterCIDR: "10.42.0.0/16"}}
}

// ports are those that the node will listen on. It refuses bad upstream
// arguments, labels and taints before anything starts. What only the server
// knows stands in as its default.
func (n *Node) ports() ([]preflight.Port, error) {
	unknown := unknownCluster()
	all, err := n.kubelet(unknown, "", "").Ports()
	if err != nil {
		return nil, err
	}
	if n.cfg.LBServerPort != 0 {
		all = append(all, preflight.Port{Address: loopback, Port: n.cfg.LBServerPort, What: "load balancer over the servers", Flag: "--lb-server-port PORT"})
	}
	proxy, err := n.proxy(unknown, "").Ports()
	if err != nil || n.cfg.DisableKubeProxy {
		return all, err
	}
	return append(all, proxy...), nil
}

// dns returns the DNS server for what the server said about the cluster.
func (n *Node) dns(joined *join.Result, credential, resolvConf string, pods *localpods.Pods) (component.Component, error) {
	var none component.Component
	c := joined.Config
	address, err := netip.ParseAddr(c.ClusterDNS)
	if err != nil {
		return none, fmt.Errorf("the server's cluster DNS address: %w", err)
	}
	services, err := netip.ParsePrefix(c.ServiceCIDR)
	if err != nil {
		return none, fmt.Errorf("the server's service range: %w", err)
	}
	cluster, err := netip.ParsePrefix(c.ClusterCIDR)
	if err != nil {
		return none, fmt.Errorf("the server's pod range: %w", err)
	}
	_, client, err := clients(credential, dns.Name)
	if err != nil {
		return none, err
	}
	return dns.New(dns.Options{
		Client:        client,
		ClusterDomain: c.ClusterDomain,
		ClusterDNS:    address,
		ServiceCIDR:   services,
		ClusterCIDR:   cluster,
		Pods:          pods,
		ResolvConf:    resolvConf,
		Log:           logrus.WithField("component", dns.Name),
	}), nil
}

// isolate starts what knows the pods of this node, what keeps the pods of
// tenants apart, and what enforces network policies. It returns when there are
// rules, so before any pod starts.
func (n *Node) isolate(ctx context.Context, group *component.Group, joined *join.Result, credential string) (*localpods.Pods, error) {
	cluster, err := netip.ParsePrefix(joined.Config.ClusterCIDR)
	if err != nil {
		return nil, fmt.Errorf("the server's pod range: %w", err)
	}
	config, client, err := clients(credential, packetfilter.IsolationName)
	if err != nil {
		return nil, err
	}
	pods := localpods.New(localpods.Options{Client: client, NodeName: n.cfg.NodeName, Log: logrus.WithField("component", localpods.Name)})
	group.Start(ctx, pods.Component())
	parts := packetfilter.New(packetfilter.Options{
		Config:          config,
		Client:          client,
		NodeName:        n.cfg.NodeName,
		Pods:            pods,
		Clusters:        []netip.Prefix{cluster},
		Bridge:          network.BridgeName,
		DisablePolicies: joined.Config.DisableNetworkPolicy,
	})
	for _, part := range parts {
		group.Start(ctx, part)
	}
	for _, part := range parts {
		if err := group.Wait(ctx, part.Name); err != nil {
			return pods, err
		}
	}
	return pods, nil
}

// clients returns a client of a part of the node, and what it is made of.
func clients(credential, part string) (*rest.Config, kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", credential)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", credential, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making the client of %s: %w", part, err)
	}
	return config, client, nil
}
