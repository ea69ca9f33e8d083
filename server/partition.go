package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/join"
	"github.com/a4s-io/a4s/server/datastore/restored"
	"github.com/a4s-io/a4s/server/partition/membership"
)

// partition is the partition that this server is of.
type partition struct {
	cfg *config.Server
	dir string // <data-dir>/server
	// member is nil in the home partition, and before Init on a server that joins others.
	member *joinapi.Membership
	// token is set on a server that begins the partition at this start.
	token *jointoken.Token
	// restored is when this server was restored from a snapshot last, empty for never.
	restored string
	// bundle is what the home partition sent then.
	bundle *joinapi.PartitionBundle
}

// prepare finds out which partition this server is of, and whether it begins it. joins says
// that it joins servers that know.
func (p *partition) prepare(joins bool) error {
	record, err := restored.Read(p.dir)
	if err != nil {
		return err
	}
	p.restored = record.At
	if p.member, err = membership.Read(p.dir); err != nil || joins {
		return err
	}
	name, roles := p.cfg.Partition()
	began, err := exists(tlsDir(p.dir))
	if err != nil {
		return err
	}
	if p.member != nil && !began && name != "" && p.agree() != nil {
		p.member = nil // it was refused when it was registered
	}
	switch {
	case p.member != nil:
		if len(p.cfg.ClusterURLs) > 0 {
			p.member.Home = p.cfg.ClusterURLs
		}
		if err := p.agree(); err != nil || began {
			return err
		}
	case name == "":
		return nil
	case began:
		return &problem.Precondition{What: "the server in " + p.dir,
			Err: errors.New("it is of the home partition of a cluster, and cannot become one of partition " + name),
			Fix: "start it without the flag, or move its directory away to begin the partition on this machine"}
	}
	token, err := join.ParseToken(p.cfg.Token)
	if err != nil {
		return err
	}
	p.token = &token
	if p.member == nil {
		p.member = &joinapi.Membership{Name: name, Identity: string(uuid.NewUUID()), Home: p.cfg.ClusterURLs}
		for _, role := range roles {
			p.member.Roles = append(p.member.Roles, string(role))
		}
	}
	return nil
}

// agree compares the flags with what the server knows.
func (p *partition) agree() error {
	name, roles := p.cfg.Partition()
	if name == "" {
		return p.checkNode()
	}
	var names []string
	for _, role := range roles {
		names = append(names, string(role))
	}
	if name == p.member.Name && slices.Equal(names, p.member.Roles) {
		return nil
	}
	flag := "--tenant-partition"
	if p.cfg.TenantPartition == "" {
		flag = "--resource-partition"
	}
	return &problem.Input{Source: flag, Value: name,
		Err:  fmt.Errorf("this server is of partition %s, whose roles are %v", p.member.Name, p.member.Roles),
		Want: "the flags that the partition was begun with, or none"}
}

// checkNode refuses a node where there are none.
func (p *partition) checkNode() error {
	if p.cfg.DisableAgent || slices.Contains(p.member.Roles, string(partitionapi.RoleResource)) {
		return nil
	}
	return &problem.Input{Source: "--tenant-partition",
		Err:  fmt.Errorf("this server is of partition %s, which has no nodes", p.member.Name),
		Want: "--tenant-partition " + p.member.Name + ", or --disable-agent"}
}

// name is that of the partition, "" for the home partition.
func (p *partition) name() string {
	if p == nil || p.member == nil {
		return ""
	}
	return p.member.Name
}

// self is the name of the partition.
func (p *partition) self() string { return cmp.Or(p.name(), partitionapi.Home) }

// has reports whether the partition has a role. The home partition has both.
func (p *partition) has(role partitionapi.Role) bool {
	return p.name() == "" || slices.Contains(p.member.Roles, string(role))
}

// defaultTenant is the tenant that the server makes at its start: the home partition
// decides where it is, so only its servers do.
func (p *partition) defaultTenant() string {
	if p.member != nil {
		return ""
	}
	return p.cfg.DefaultTenant
}

// Controllers of partitions that have one role, in the syntax of --controllers. Nodes are
// looked after where they are registered, and everything else where tenants are.
const (
	tenantControllers = "*,bootstrap-signer-controller,token-cleaner-controller,-node-lifecycle-controller," +
		"-node-ipam-controller,-ttl-controller"
	resourceControllers = "node-lifecycle-controller,node-ipam-controller,ttl-controller,taint-eviction-controller," +
		"certificatesigningrequest-signing-controller,certificatesigningrequest-approving-controller," +
		"certificatesigningrequest-cleaner-controller,bootstrap-signer-controller,token-cleaner-controller," +
		"namespace-controller,serviceaccount-controller,serviceaccount-token-controller," +
		"root-ca-certificate-publisher-controller,garbage-collector-controller"
)

// controllers are those that run in the partition, "" for all.
func (p *partition) controllers() string {
	switch {
	case !p.has(partitionapi.RoleResource):
		return tenantControllers
	case !p.has(partitionapi.RoleTenant):
		return resourceControllers
	}
	return ""
}

// request is what this server says of its partition.
func (p *partition) request(a *addresses) joinapi.PartitionRequest {
	req := joinapi.PartitionRequest{
		Name: p.self(), ServiceCIDR: p.cfg.ServiceCIDR, ClusterCIDR: p.cfg.ClusterCIDR,
		NodePortRange: p.cfg.ServiceNodePortRange, ClusterDNS: p.cfg.ClusterDNS,
		Server: p.cfg.Agent.NodeName, Address: a.join, Restored: p.restored,
	}
	if p.member != nil {
		req.Roles, req.Identity = p.member.Roles, p.member.Identity
		return req
	}
	for _, role := range partitionapi.Roles() {
		req.Roles = append(req.Roles, string(role))
	}
	req.Identity = string(uuid.NewUUID()) // that of the first server to register it counts
	return req
}

// begin registers the partition with the home partition and gets from it what all
// partitions of the cluster share.
func (p *partition) begin(ctx context.Context, a *addresses, log *logrus.Entry) error {
	if p.token == nil {
		return nil
	}
	log = log.WithField("component", "partition")
	if err := membership.Write(p.dir, p.member); err != nil {
		return err
	}
	var err error
	p.bundle, err = join.Register(ctx, join.Options{URLs: p.member.Home, Token: *p.token,
		Settings: partitionSettings(p.cfg), Log: log}, p.request(a))
	if err != nil {
		return err
	}
	if err := pki.InstallCluster(tlsDir(p.dir), p.bundle.PKI); err != nil {
		return err
	}
	log.Infof("Partition %s is registered, and has what all partitions of the cluster share", p.member.Name)
	return nil
}

// took takes over the partition of the servers that this one joined.
func (p *partition) took(b *joinapi.ServerBundle) error {
	switch {
	case b == nil:
		return nil
	case b.Partition == nil && p.member == nil:
		if name, _ := p.cfg.Partition(); name != "" {
			return &problem.Input{Source: "--server", Value: p.cfg.JoinURLs[0],
				Err:  errors.New("that server is of the home partition, not of partition " + name),
				Want: "a server of partition " + name + ", or --cluster to begin it"}
		}
		return nil
	case b.Partition == nil || p.member != nil && p.member.Identity != b.Partition.Identity:
		return &problem.Precondition{What: "the server in " + p.dir,
			Err: fmt.Errorf("it is of partition %s, and that of --server is of another one", p.member.Name),
			Fix: "join a server of the same partition, or move the directory away"}
	}
	p.member = b.Partition
	if err := p.agree(); err != nil {
		return err
	}
	return membership.Write(p.dir, p.member)
}

// tokens are the join tokens of a server that begins a partition: those of the cluster.
func (p *partition) tokens(b *joinapi.ServerBundle) *joinapi.ServerBundle {
	if p.bundle == nil {
		return b
	}
	return &joinapi.ServerBundle{ServerToken: p.bundle.ServerToken, AgentToken: p.bundle.AgentToken}
}

// partitionSettings are those on which all partitions of a cluster must agree.
func partitionSettings(c *config.Server) []joinapi.ServerSetting {
	return []joinapi.ServerSetting{
		{Flag: "--cluster-domain", Value: c.ClusterDomain},
		{Flag: "--default-tenant", Value: c.DefaultTenant},
	}
}

// bundleFor is what the home partition gives to another one.
func (p *partition) bundleFor(f *files, tokens *jointoken.ServerTokens) (*joinapi.PartitionBundle, error) {
	files, err := pki.ReadCluster(f.pki.Dir)
	if err != nil {
		return nil, fmt.Errorf("reading what partitions share: %w", err)
	}
	return &joinapi.PartitionBundle{PKI: files, Settings: partitionSettings(p.cfg),
		ServerToken: tokens.Server().Password, AgentToken: tokens.Agent().Password}, nil
}

// register is the register of partitions that the node API serves, nil outside the home
// partition.
func (p *partition) register(
	config *rest.Config, a *addresses,
) (func(context.Context, joinapi.PartitionRequest) error, error) {
	if p.name() != "" {
		return nil, nil
	}
	client, err := partitionapi.NewPartitionClient(config, nil)
	if err != nil {
		return nil, err
	}
	return membership.NewRegister(client, p.request(a)).Add, nil
}
