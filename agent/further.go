package agent

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/agent/dns"
	"github.com/a4s-io/a4s/agent/localstorage"
	"github.com/a4s-io/a4s/agent/network/localpods"
	"github.com/a4s-io/a4s/agent/network/packetfilter"
	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
)

// furtherName is the component of what the node has for tenant partitions other than the one
// that it is of.
const furtherName = "further-partitions"

// list is what is known of the partitions, by their names, with a channel that is closed when
// there are others.
func (p *tenantPartitions) list() (all []origin.Partition, told map[string]joinapi.NodePartition,
	changed <-chan struct{}) {
	last, changed := p.source.Last()
	all, _ = p.source.Current()
	told = map[string]joinapi.NodePartition{}
	for _, one := range last.Partitions {
		told[one.Name] = one
	}
	return all, told, changed
}

// servers are those that tell of pods. config leads to those of the node.
func (p *tenantPartitions) servers(config *rest.Config) func() ([]packetfilter.Server, <-chan struct{}) {
	return func() ([]packetfilter.Server, <-chan struct{}) {
		clusters, changed := p.ranges()
		all, _ := p.source.Current()
		var out []packetfilter.Server
		own := false
		for _, one := range all {
			s := packetfilter.Server{Name: one.Name, Identity: one.Identity, Config: p.config(one)}
			if !one.Home {
				s.Qualifier = one.Name
			}
			if one.Node {
				own, s.Config, s.Clusters = true, config, clusters
			}
			out = append(out, s)
		}
		if !own && len(all) > 0 {
			// A partition without tenants, which has the addresses of nodes.
			last, _ := p.source.Last()
			out = append(out, packetfilter.Server{Name: last.Self, Qualifier: last.Self, Config: config,
				Clusters: clusters})
		}
		return out, changed
	}
}

// config is the node's credential for the servers of another partition.
func (p *tenantPartitions) config(one origin.Partition) *rest.Config {
	return &rest.Config{Host: p.access.url, Transport: one.Transport, QPS: -1}
}

// nameOf is the partition of a namespace of this node.
func (p *tenantPartitions) nameOf(namespace string) (string, bool) {
	one, ok := p.router.Partition(namespace)
	return one.Name, ok
}

// nameServers are the addresses at which this node answers for the partitions.
func (p *tenantPartitions) nameServers() []netip.Addr {
	var out []netip.Addr
	last, _ := p.source.Last()
	for _, one := range last.Partitions {
		if addr, err := netip.ParseAddr(one.ClusterDNS); err == nil && one.Tenants {
			out = append(out, addr)
		}
	}
	return out
}

// withTenants leaves out a part of the node that is for pods of its own partition where that can
// have none: its addresses may be those of another one.
func (p *tenantPartitions) withTenants(c component.Component) component.Component {
	run := c.Run
	c.Run = func(ctx context.Context, ready func()) error {
		soon, cancel := context.WithTimeout(ctx, partitionsKnownWithin)
		list, known := p.source.Known(soon)
		cancel()
		without := func(one joinapi.NodePartition) bool { return one.Name == list.Self && !one.Tenants }
		if !known || !slices.ContainsFunc(list.Partitions, without) {
			return run(ctx, ready)
		}
		ready()
		<-ctx.Done()
		return nil
	}
	return c
}

// ranges are those of the pods on nodes of all partitions, with a channel that is closed when
// there are others.
func (p *tenantPartitions) ranges() ([]netip.Prefix, <-chan struct{}) {
	last, changed := p.source.Last()
	var out []netip.Prefix
	for _, one := range last.Partitions {
		if one.Nodes {
			out = append(out, prefixes(one.ClusterCIDR)...)
		}
	}
	return out, changed
}

// allRanges are those of the pods and Services of all partitions.
func (p *tenantPartitions) allRanges() []netip.Prefix {
	last, _ := p.source.Last()
	var out []netip.Prefix
	for _, one := range last.Partitions {
		if one.Tenants {
			out = append(out, prefixes(one.ServiceCIDR)...)
		}
		if one.Nodes {
			out = append(out, prefixes(one.ClusterCIDR)...)
		}
	}
	return out
}

// prefixes are the ranges in a list of them.
func prefixes(list string) []netip.Prefix {
	var out []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// further gives the pods of each tenant partition other than the node's its own name server, and
// makes its local volumes.
func (n *clusterNetwork) further(joined *join.Result, pods *localpods.Pods) component.Component {
	return component.Component{Name: furtherName, Run: func(ctx context.Context, ready func()) error {
		ready()
		running := map[string]*furtherPartition{}
		defer func() {
			for name, one := range running {
				n.end(name, one.Group)
			}
		}()
		for {
			all, told, changed := n.partitions.list()
			here := map[string]origin.Partition{}
			for _, one := range all {
				if !one.Node {
					here[one.Name] = one
				}
			}
			for name, one := range running {
				if now, ok := here[name]; !ok || !now.Same(one.of) {
					n.end(name, one.Group)
					delete(running, name)
				}
			}
			for name, one := range here {
				if running[name] == nil {
					group := component.NewGroup(n.log.WithField("partition", name))
					running[name] = &furtherPartition{Group: group, of: one}
					n.begin(ctx, group, one, told[name], joined, pods)
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return nil
			}
		}
	}}
}

// furtherPartition is what runs for a partition.
type furtherPartition struct {
	*component.Group
	of origin.Partition
}

func (n *clusterNetwork) end(name string, group *component.Group) {
	if err := group.Stop(); err != nil {
		n.log.WithError(err).Warnf("what this node has for partition %s did not end in time", name)
	}
	n.ingress.Forget(name)
}

// begin starts what one partition needs.
func (n *clusterNetwork) begin(
	ctx context.Context, group *component.Group, one origin.Partition, told joinapi.NodePartition,
	joined *join.Result, pods *localpods.Pods,
) {
	log := func(name string) *logrus.Entry {
		return logrus.WithFields(logrus.Fields{"component": name, "partition": one.Name})
	}
	config := n.partitions.config(one)
	group.Start(ctx, n.ingress.Follow(config, one.Name))
	group.Start(ctx, localstorage.New(localstorage.Options{Config: config, Log: log(localstorage.Name)}))
	services, clusters := prefixes(told.ServiceCIDR), prefixes(told.ClusterCIDR)
	server, err := netip.ParseAddr(told.ClusterDNS)
	if err != nil || len(services) == 0 || len(clusters) == 0 {
		log(dns.Name).Warn("nobody said where this partition has its name server; its pods here resolve no names")
		return
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log(dns.Name).WithError(err).Error("making the client of the name server")
		return
	}
	group.Start(ctx, dns.New(dns.Options{
		Client: client, ClusterDomain: joined.Config.ClusterDomain,
		ClusterDNS: server, Others: n.partitions.nameServers,
		ServiceCIDR: services[0], ClusterCIDR: clusters[0], Further: n.partitions.allRanges, Pods: pods,
		ResolvConf: resolvConf(n.cfg, n.log), Log: log(dns.Name),
	}))
}
