package agent

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/agent/dns"
	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/host/nodeaddr"
	"github.com/a4s-io/a4s/agent/ingress"
	"github.com/a4s-io/a4s/agent/network"
	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/agent/network/packetfilter"
	"github.com/a4s-io/a4s/agent/network/proxy"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
)

// clusterNetwork is the pod network of the node with what keeps pods apart, the
// service proxy and the DNS server.
type clusterNetwork struct {
	cfg    *config.Agent
	addr   nodeaddr.Choice
	access *access
	log    *logrus.Entry
	// partitions is set when the node joins.
	partitions *tenantPartitions
	ingress    *ingress.Node
}

// isolate starts what knows the pods of this node, what keeps the pods of
// tenants apart, and what enforces network policies. It returns when there are
// rules, so before any pod starts.
func (n *clusterNetwork) isolate(
	ctx context.Context, group *component.Group, joined *join.Result,
) (*localpods.Pods, error) {
	cluster := joined.Config.ClusterCIDR
	if !cluster.IsValid() {
		return nil, errors.New("the server named no pod range")
	}
	config, client, err := n.access.clients(packetfilter.IsolationName)
	if err != nil {
		return nil, err
	}
	everywhere, err := n.partitions.client(localpods.Name)
	if err != nil {
		return nil, err
	}
	pods := localpods.New(localpods.Options{Client: everywhere, NodeName: n.cfg.NodeName,
		Log: logrus.WithField("component", localpods.Name)})
	group.Start(ctx, pods.Component())
	parts := packetfilter.New(packetfilter.Options{
		Config:          config,
		Servers:         n.partitions.servers(config),
		Partition:       n.partitions.nameOf,
		Dir:             filepath.Join(n.access.dir, "network-policies"),
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

// start starts the pod network, the service proxy and the DNS server.
func (n *clusterNetwork) start(
	ctx context.Context, group *component.Group, joined *join.Result, pods *localpods.Pods,
) error {
	group.Start(ctx, network.New(network.Options{
		KubeconfigPath: n.access.embeddedCredential(),
		NodeName:       n.cfg.NodeName,
		NodeIPs:        n.addr.IPs,
		Iface:          n.addr.Iface,
		Backend:        joined.Config.FlannelBackend,
		ClusterCIDR:    joined.Config.ClusterCIDR.String(),
		Others:         n.partitions.ranges,
		PacketFilter:   netfilter.Mode(n.cfg.ProxyMode),
		DataDir:        n.cfg.DataDir,
		Log:            logrus.WithField("component", network.Name),
	}))
	if !n.cfg.DisableKubeProxy {
		group.Start(ctx, proxy.New(n.proxy(joined)))
	}
	server, err := n.dns(joined, pods)
	if err != nil {
		return err
	}
	group.Start(ctx, n.partitions.withTenants(server))
	config, client, err := n.access.clients(ingress.Name)
	if err != nil {
		return err
	}
	group.Start(ctx, n.ingress.Component())
	group.Start(ctx, n.ingress.Report(client, n.cfg.NodeName))
	group.Start(ctx, n.ingress.Follow(config, ""))
	group.Start(ctx, n.further(joined, pods))
	return nil
}

// proxy returns the options of the service proxy.
func (n *clusterNetwork) proxy(joined *join.Result) proxy.Options {
	return proxy.Options{
		KubeconfigPath: n.access.embeddedCredential(),
		NodeName:       n.cfg.NodeName,
		ClusterCIDR:    joined.Config.ClusterCIDR.String(),
		Mode:           netfilter.Mode(n.cfg.ProxyMode),
		Args:           n.cfg.KubeProxyArgs,
		Log:            logrus.WithField("component", proxy.Name),
	}
}

// dns returns the DNS server for what the server said about the cluster.
func (n *clusterNetwork) dns(joined *join.Result, pods *localpods.Pods) (component.Component, error) {
	var none component.Component
	c := joined.Config
	if !c.ClusterDNS.IsValid() || !c.ServiceCIDR.IsValid() {
		return none, errors.New("the server named no cluster DNS address or no service range")
	}
	_, client, err := n.access.clients(dns.Name)
	if err != nil {
		return none, err
	}
	return dns.New(dns.Options{
		Client:        client,
		ClusterDomain: c.ClusterDomain,
		ClusterDNS:    c.ClusterDNS,
		Others:        n.partitions.nameServers,
		ServiceCIDR:   c.ServiceCIDR,
		ClusterCIDR:   c.ClusterCIDR,
		Further:       n.partitions.allRanges,
		Pods:          pods,
		ResolvConf:    resolvConf(n.cfg, n.log),
		Log:           logrus.WithField("component", dns.Name),
	}), nil
}

// resolvConf is the resolver file that pods and the DNS server inherit from.
func resolvConf(cfg *config.Agent, log *logrus.Entry) string {
	if cfg.ResolvConf != "" {
		return cfg.ResolvConf
	}
	path, usable := host.ResolvConf()
	if !usable {
		log.Warnf("%s names no server that pods could reach; names outside the cluster will not resolve", path)
	}
	return path
}
