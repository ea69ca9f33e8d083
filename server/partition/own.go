package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	"github.com/a4s-io/a4s/server/cluster/settings"
	"github.com/a4s-io/a4s/server/controlplane/controllers"
	"github.com/a4s-io/a4s/server/datastore/restored"
	"github.com/a4s-io/a4s/server/partition/membership"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

// Own is the partition that this server is of.
type Own struct {
	server Server
	// member is nil in the home partition, and before Init on a server that joins others.
	member *joinapi.Membership
	// token is set on a server that begins the partition at this start.
	token *jointoken.Token
	// restored is when this server was restored from a snapshot last, empty for never.
	restored string
	// bundle is what the home partition sent then.
	bundle *joinapi.PartitionBundle
}

// Server is what this one is, for its partition.
type Server struct {
	Config *config.Server
	Dir    string // <data-dir>/server
	// Address is where others reach it, "host:port".
	Address string
	PKI     *pki.Files
	// API makes a client of it with one of the identities of its PKI.
	API func(pki.Pair) *rest.Config
}

// Find finds out which partition a server is of. joins says that it joins servers that know.
func Find(s Server, joins bool) (*Own, error) {
	p := &Own{server: s}
	return p, p.prepare(joins)
}

// prepare finds out which partition this server is of, and whether it begins it. joins says
// that it joins servers that know.
func (p *Own) prepare(joins bool) error {
	record, err := restored.Read(p.server.Dir)
	if err != nil {
		return err
	}
	p.restored = record.At
	if p.member, err = membership.Read(p.server.Dir); err != nil || joins {
		return err
	}
	name, roles := p.server.Config.Partition()
	_, err = os.Stat(p.server.PKI.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	began := err == nil
	if p.member != nil && !began && name != "" && p.agree() != nil {
		p.member = nil // it was refused when it was registered
	}
	switch {
	case p.member != nil:
		if len(p.server.Config.ClusterURLs) > 0 {
			p.member.Home = p.server.Config.ClusterURLs
		}
		if err := p.agree(); err != nil || began {
			return err
		}
	case name == "":
		return nil
	case began:
		return &problem.Precondition{What: "the server in " + p.server.Dir,
			Err: errors.New("it is of the home partition of a cluster, and cannot become one of partition " + name),
			Fix: "start it without the flag, or move its directory away to begin the partition on this machine"}
	}
	token, err := join.ParseToken(p.server.Config.Token)
	if err != nil {
		return err
	}
	p.token = &token
	if p.member == nil {
		p.member = &joinapi.Membership{Name: name, Identity: string(uuid.NewUUID()), Home: p.server.Config.ClusterURLs}
		for _, role := range roles {
			p.member.Roles = append(p.member.Roles, string(role))
		}
	}
	return nil
}

// agree compares the flags with what the server knows.
func (p *Own) agree() error {
	name, roles := p.server.Config.Partition()
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
	if p.server.Config.TenantPartition == "" {
		flag = "--resource-partition"
	}
	return &problem.Input{Source: flag, Value: name,
		Err:  fmt.Errorf("this server is of partition %s, whose roles are %v", p.member.Name, p.member.Roles),
		Want: "the flags that the partition was begun with, or none"}
}

// checkNode refuses a node where there are none.
func (p *Own) checkNode() error {
	if p.server.Config.DisableAgent || slices.Contains(p.member.Roles, string(partitionapi.RoleResource)) {
		return nil
	}
	return &problem.Input{Source: "--tenant-partition",
		Err:  fmt.Errorf("this server is of partition %s, which has no nodes", p.member.Name),
		Want: "--tenant-partition " + p.member.Name + ", or --disable-agent"}
}

// Name is that of the partition, "" for the home partition.
func (p *Own) Name() string {
	if p == nil || p.member == nil {
		return ""
	}
	return p.member.Name
}

// Self is the name of the partition.
func (p *Own) Self() string { return cmp.Or(p.Name(), partitionapi.Home) }

// Has reports whether the partition has a role. The home partition has both.
func (p *Own) Has(role partitionapi.Role) bool {
	return p.Name() == "" || slices.Contains(p.member.Roles, string(role))
}

// DefaultTenant is the tenant that the server makes at its start: the home partition
// decides where it is, so only its servers do.
func (p *Own) DefaultTenant() string {
	if p.member != nil {
		return ""
	}
	return p.server.Config.DefaultTenant
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

// Controllers has the controller manager do what there is to do in the partition.
func (p *Own) Controllers(o *controllers.Options) {
	switch {
	case !p.Has(partitionapi.RoleResource):
		o.Select = tenantControllers
	case !p.Has(partitionapi.RoleTenant):
		o.Select = resourceControllers
	default:
		o.Copies = nodecopies.Label
	}
}

// Validate refuses arguments of the controller manager that are not good where there are copies
// of nodes. The home partition may be the only one, and does without until there is another.
func (p *Own) Validate(o controllers.Options) error {
	if o.Copies == "" || p.Name() == "" {
		return nil
	}
	return controllers.Apart(o)
}

// Member is what the servers of the partition know of it, nil in the home partition.
func (p *Own) Member() *joinapi.Membership { return p.member }

// Request is what this server says of its partition.
func (p *Own) Request() joinapi.PartitionRequest {
	req := joinapi.PartitionRequest{
		Name: p.Self(), ServiceCIDR: p.server.Config.ServiceCIDR, ClusterCIDR: p.server.Config.ClusterCIDR,
		NodePortRange: p.server.Config.ServiceNodePortRange, ClusterDNS: p.server.Config.ClusterDNS,
		Server: p.server.Config.Agent.NodeName, Address: p.server.Address, Restored: p.restored,
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

// Begin registers the partition with the home partition and gets from it what all
// partitions of the cluster share.
func (p *Own) Begin(ctx context.Context, log *logrus.Entry) error {
	if p.token == nil {
		return nil
	}
	log = log.WithField("component", "partition")
	if err := membership.Write(p.server.Dir, p.member); err != nil {
		return err
	}
	var err error
	p.bundle, err = join.Register(ctx, join.Options{URLs: p.member.Home, Token: *p.token,
		Settings: settings.OfPartitions(p.server.Config), Log: log}, p.Request())
	if err != nil {
		return err
	}
	if err := pki.InstallCluster(p.server.PKI.Dir, p.bundle.PKI); err != nil {
		return err
	}
	// Home has them from now on.
	if err := settings.Write(p.server.Dir, p.server.Config); err != nil {
		return err
	}
	log.Infof("Partition %s is registered, and has what all partitions of the cluster share", p.member.Name)
	return nil
}

// Took takes over the partition of the servers that this one joined.
func (p *Own) Took(b *joinapi.ServerBundle) error {
	switch {
	case b == nil:
		return nil
	case b.Partition == nil && p.member == nil:
		if name, _ := p.server.Config.Partition(); name != "" {
			return &problem.Input{Source: "--server", Value: p.server.Config.JoinURLs[0],
				Err:  errors.New("that server is of the home partition, not of partition " + name),
				Want: "a server of partition " + name + ", or --cluster to begin it"}
		}
		return nil
	case b.Partition == nil || p.member != nil && p.member.Identity != b.Partition.Identity:
		return &problem.Precondition{What: "the server in " + p.server.Dir,
			Err: fmt.Errorf("it is of partition %s, and that of --server is of another one", p.member.Name),
			Fix: "join a server of the same partition, or move the directory away"}
	}
	p.member = b.Partition
	if err := p.agree(); err != nil {
		return err
	}
	return membership.Write(p.server.Dir, p.member)
}

// Tokens are the join tokens of a server that begins a partition: those of the cluster.
func (p *Own) Tokens(b *joinapi.ServerBundle) *joinapi.ServerBundle {
	if p.bundle == nil {
		return b
	}
	return &joinapi.ServerBundle{ServerToken: p.bundle.ServerToken, AgentToken: p.bundle.AgentToken}
}

// BundleFor is what the home partition gives to another one.
func (p *Own) BundleFor(tokens *jointoken.ServerTokens) (*joinapi.PartitionBundle, error) {
	files, err := pki.ReadCluster(p.server.PKI.Dir)
	if err != nil {
		return nil, fmt.Errorf("reading what partitions share: %w", err)
	}
	return &joinapi.PartitionBundle{PKI: files, Settings: settings.OfPartitions(p.server.Config),
		ServerToken: tokens.Server().Password, AgentToken: tokens.Agent().Password}, nil
}

// Register is the register of partitions that the node API serves, nil outside the home
// partition.
func (p *Own) Register() (func(context.Context, joinapi.PartitionRequest) error, error) {
	if p.Name() != "" {
		return nil, nil
	}
	client, err := partitionapi.NewPartitionClient(p.server.API(p.server.PKI.Supervisor), nil)
	if err != nil {
		return nil, err
	}
	return membership.NewRegister(client, p.Request()).Add, nil
}
