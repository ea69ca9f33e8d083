package partition

import (
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// Told are the partitions as this server tells them to its nodes. It is false while it
// does not know the home partition, without which no node can work, and when it stops, so
// that it does not wait for nodes that listen.
func (p *Set) Told() (joinapi.Partitions, <-chan struct{}, bool) {
	all, complete, changed := p.Known()
	if changed == nil {
		return joinapi.Partitions{}, nil, false
	}
	out := joinapi.Partitions{Self: p.Self(), Restored: p.own.Restored, Complete: complete}
	for _, one := range p.Removed() {
		out.Removed = append(out.Removed, joinapi.RemovedPartition{Name: one.Name, Identity: one.Identity})
	}
	home := false
	for _, one := range all {
		home = home || one.Name == partitionapi.Home
		if one.Name == p.Self() { // another server of it may have been restored
			out.Restored = max(out.Restored, one.Spec.Restored)
		}
		out.Partitions = append(out.Partitions, forNodes(one, p.Addresses(one.Name)))
	}
	// The home partition registers itself a little after it began.
	if !home && p.home != nil {
		own := &partitionapi.Partition{Spec: partitionapi.PartitionSpec{Roles: partitionapi.Roles(),
			ServiceCIDR: p.own.ServiceCIDR, ClusterCIDR: p.own.ClusterCIDR, ClusterDNS: p.own.ClusterDNS,
			NodePortRange: p.own.NodePortRange}}
		own.Name = partitionapi.Home
		out.Partitions = append([]joinapi.NodePartition{forNodes(own, []string{p.own.Address})}, out.Partitions...)
		home = true
	}
	return out, changed, home
}

func forNodes(p *partitionapi.Partition, addresses []string) joinapi.NodePartition {
	return joinapi.NodePartition{
		Name: p.Name, Identity: p.Spec.Identity, Home: p.Name == partitionapi.Home,
		Tenants: p.Has(partitionapi.RoleTenant), Nodes: p.Has(partitionapi.RoleResource),
		Servers: addresses, ServiceCIDR: p.Spec.ServiceCIDR, ClusterCIDR: p.Spec.ClusterCIDR,
		ClusterDNS: p.Spec.ClusterDNS, NodePortRange: p.Spec.NodePortRange,
	}
}
