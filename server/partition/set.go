package partition

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/cluster/election"
	"github.com/a4s-io/a4s/server/partition/connect"
	"github.com/a4s-io/a4s/server/partition/directory"
	"github.com/a4s-io/a4s/server/partition/membership"
	"github.com/a4s-io/a4s/server/partition/placement"
	"github.com/a4s-io/a4s/server/partition/proxy"
)

// Set are the partitions of the cluster as this server works with them.
type Set struct {
	*directory.Directory
	*proxy.Proxy
	peers *connect.Peers
	// Placer makes tenants in the partitions.
	Placer *placement.Placer
	of     *Own
	own    joinapi.PartitionRequest
	home   *membership.Register // nil outside the home partition
	health *health.Registry     // nil without a monitor
	log    *logrus.Entry
}

// Has implements edge.Partitions.
func (p *Set) Has(name string) bool { return name == p.Self() || p.Partition(name) != nil }

// NodePorts implements addons.Partitions.
func (p *Set) NodePorts() []utilnet.PortRange {
	var out []utilnet.PortRange
	for _, other := range p.Partitions() {
		ports, err := utilnet.ParsePortRange(other.Spec.NodePortRange)
		if other.Name != p.Self() && other.Has(partitionapi.RoleTenant) && err == nil && ports.Size > 0 {
			out = append(out, *ports)
		}
	}
	return out
}

// NewSet makes them. problems is nil without a monitor.
func NewSet(of *Own, problems *health.Registry) (*Set, error) {
	self, log := of.Self(), logrus.WithField("component", "partition")
	o := directory.Options{Self: self, Log: log, File: of.directoryFile()}
	if of.member != nil {
		for _, text := range of.member.Home {
			u, err := url.Parse(text)
			if err != nil {
				return nil, fmt.Errorf("reading where the home partition is: %w", err)
			}
			address := u.Host
			if u.Port() == "" {
				address = net.JoinHostPort(u.Hostname(), "443")
			}
			o.Home = append(o.Home, address)
		}
	}
	dir, err := directory.New(o)
	if err != nil {
		return nil, err
	}
	p := &Set{Directory: dir, of: of, own: of.Request(), health: problems, log: log}
	if p.peers, err = connect.New(of.server.PKI, dir.Addresses); err != nil {
		return nil, err
	}
	if p.Proxy, err = proxy.New(self, p.peers, of.server.PKI, log); err != nil {
		return nil, err
	}
	home := p.peers.Config(partitionapi.Home)
	var placements *partitionapi.PlacementClient
	if of.member == nil {
		home = of.server.API(of.server.PKI.Supervisor)
		home.QPS = -1
		client, err := partitionapi.NewPartitionClient(home, nil)
		if err != nil {
			return nil, err
		}
		p.home = membership.NewRegister(client, p.own)
		if placements, err = partitionapi.NewPlacementClient(home, nil); err != nil {
			return nil, err
		}
	}
	local := of.server.API(of.server.PKI.Partition)
	local.QPS = -1
	clients := &tenantClients{self: self, local: local, Peers: p.peers, of: map[string]*tenantapi.Client{}}
	p.Placer = placement.New(dir, clients, placements, problems, log)
	return p, dir.Follow(home)
}

// Components are what runs besides the API server.
func (p *Set) Components(leader *election.Election) []component.Component {
	out := []component.Component{p.Directory.Component(),
		component.Running("partition-registration", p.keepRegistered),
		leader.Only(component.Running("partition-pruner", p.pruner().Run))}
	if p.home != nil {
		out = append(out, leader.Only(p.Placer.Controller()))
	}
	return out
}

// Restored reports whether the partition was restored from a snapshot at any time.
func (p *Set) Restored() bool {
	known, _, _ := p.Told()
	return p.own.Restored != "" || known.Restored != ""
}

// CheckOwnCAs refuses what would part this partition from others.
func (p *Set) CheckOwnCAs() error {
	if p.Self() == partitionapi.Home && !p.Several() {
		return nil
	}
	return &problem.Precondition{What: "certificate authorities",
		Err: errors.New("the partitions of the cluster share them, and they cannot be replaced in all of them yet"),
		Fix: "keep them; certificates are renewed with: a4s certificate rotate"}
}

// server is this one as one of its partition.
func (p *Set) server() partitionapi.PartitionServer {
	return partitionapi.PartitionServer{Name: p.own.Server, Address: p.own.Address}
}

// pruner takes servers that are gone out of the list of this partition.
func (p *Set) pruner() *membership.Pruner {
	out := &membership.Pruner{Self: p.server(), Log: p.log, Forget: p.register,
		Servers: func() []partitionapi.PartitionServer {
			if own := p.Partition(p.Self()); own != nil && p.Synced() {
				return own.Spec.Servers
			}
			return nil
		},
		Answers: func(ctx context.Context, address string) error {
			_, err := p.peers.Ping(ctx, address)
			return err
		}}
	if p.home != nil {
		// Where home is, others know by this list alone: a server that comes back when the
		// last one in it is down would not be found.
		out.Least = 2
	}
	return out
}

// registered is how often the registration is looked at.
const registered = 5 * time.Second

// keepRegistered puts this server among those of its partition, whenever it is not there, and
// tells of partitions that are not registered.
func (p *Set) keepRegistered(ctx context.Context) error {
	told, begins := "", true
	for component.Sleep(ctx, registered) == nil {
		if !p.Synced() {
			continue
		}
		known := p.Registered(p.Self())
		var err error
		// Home registers itself with the first other one, or if it has forgotten one.
		if (known != nil || p.home == nil || len(p.Forgotten()) > 0) &&
			(known == nil || !slices.Contains(known.Spec.Servers, p.server()) ||
				known.Spec.Restored < p.own.Restored ||
				begins && known.Spec.NodePortRange != p.own.NodePortRange) {
			err = p.register(ctx, nil)
		}
		begins = begins && err != nil // other servers may have another range until they start again
		if err != nil && err.Error() != told {
			told = err.Error()
			p.log.WithError(err).Warn("this server could not be registered as one of its partition")
		}
		p.reportForgotten(err)
	}
	return nil
}

// reportForgotten reports the partitions that home does not know. Those are kept as they were.
func (p *Set) reportForgotten(own error) {
	if p.health == nil {
		return
	}
	var names []string
	for _, one := range p.Forgotten() {
		names = append(names, one.Name)
		detail := "its identity is " + one.Spec.Identity
		if other := p.Registered(one.Name); other != nil {
			detail += "; another one with the identity " + other.Spec.Identity + " has its name at home"
		}
		p.health.Set(health.PartitionForgotten, one.Name, detail)
	}
	if own != nil && p.Registered(p.Self()) == nil {
		names = append(names, p.Self())
		p.health.Set(health.PartitionForgotten, p.Self(), own.Error())
	}
	p.health.Keep(health.PartitionForgotten, names)
}

// register registers this server, and takes out those that are gone.
func (p *Set) register(ctx context.Context, gone []joinapi.PartitionServer) error {
	if p.home != nil {
		return p.home.Own(ctx, gone)
	}
	own := p.own
	own.Gone = gone
	client, err := rest.HTTPClientFor(p.peers.Config(partitionapi.Home))
	if err != nil {
		return err
	}
	body, err := json.Marshal(own)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, registered)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, connect.URL+joinapi.PathPartition,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, joinapi.MaxBody))
		return errors.Join(fmt.Errorf("the home partition answered %s: %s", resp.Status, text), err)
	}
	return nil
}

// tenantClients are clients of the tenants of all partitions.
type tenantClients struct {
	*connect.Peers
	self  string
	local *rest.Config

	mu sync.Mutex
	of map[string]*tenantapi.Client
}

// Tenants implements placement.Peers.
func (c *tenantClients) Tenants(partition string) (*tenantapi.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client := c.of[partition]; client != nil {
		return client, nil
	}
	config := c.local
	if partition != c.self {
		config = c.Config(partition)
	}
	client, err := tenantapi.NewClient(config, nil)
	if err == nil {
		c.of[partition] = client
	}
	return client, err
}
