package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/groupwatch"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/election"
	"github.com/a4s-io/a4s/server/cluster/servers"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/groups/apiendpoints"
	"github.com/a4s-io/a4s/server/groups/balance"
	"github.com/a4s-io/a4s/server/groups/load"
	"github.com/a4s-io/a4s/server/tenancy"
)

// registry is of the servers that know each other by their Leases: those of service
// groups, those that share an etcd, and those without a member of embedded etcd. A server
// of which members of embedded etcd say enough only follows the others. The only server
// has none.
func (s *Server) registry(client kubernetes.Interface, spaces *tenancy.Spaces) *servers.Registry {
	var own servers.Server
	if s.peers.shared != nil || s.cfg.ServiceGroupID != "" || s.cfg.DisableEtcd {
		own = servers.Server{
			Name: s.cfg.Agent.NodeName, Address: s.addresses.join, NoMember: s.cfg.DisableEtcd,
			Group: cmp.Or(s.cfg.ServiceGroupID, partitionapi.DefaultGroup),
		}
	} else if !s.peers.clustered {
		return nil
	}
	if s.cfg.ServiceGroupID == "" {
		return servers.New(client, own, nil)
	}
	return servers.New(client, own, spaces.Applied)
}

// memberless names the servers that live and have no member of embedded etcd.
func (s *Server) memberless() []string {
	var names []string
	if s.servers != nil {
		for _, other := range s.servers.All() {
			if other.Ready && other.NoMember {
				names = append(names, other.Name)
			}
		}
	}
	return names
}

// onlyMembers refuses a change of what servers share (what) that those without a member
// of embedded etcd would not learn of.
func (s *Server) onlyMembers(what string) error {
	if s.cfg.DisableEtcd {
		return &problem.Precondition{What: what,
			Err: errors.New("this server has no member of the datastore (--disable-etcd), and is not told of changes"),
			Fix: "stop it and every other such server, and run the command on a server that has a member"}
	}
	if names := s.memberless(); len(names) > 0 {
		return &problem.Precondition{What: what,
			Err: fmt.Errorf("servers without a member of the datastore (--disable-etcd) are not told of changes, and "+
				"run: %s", strings.Join(names, ", ")),
			Fix: "stop them, make the change, and start them again; after new certificate authorities move their " +
				"server directories away before that, and give them the new token"}
	}
	return nil
}

// followGroups has these clients, the controllers and the scheduler ask the servers of all
// groups, unless this server is of none. It changes their transports, and returns what
// follows the configurations.
func (s *Server) followGroups(inside *rest.Config, clients ...*rest.Config) ([]component.Component, error) {
	if s.cfg.ServiceGroupID == "" {
		return nil, nil
	}
	configs, err := partitionapi.NewClient(inside, nil)
	if err != nil {
		return nil, err
	}
	groups := groupwatch.New(others{s.servers, s.cfg.ServiceGroupID}, logrus.WithField("component", groupwatch.Name))
	s.upstream.wrap = groups.Wrap
	for _, c := range clients {
		c.Wrap(groups.Wrap)
	}
	return []component.Component{groups.Component(configs)}, nil
}

// others are the servers of groups, without this server's own, which its clients reach
// anyway.
type others struct {
	registry *servers.Registry
	own      string
}

// Group implements groupwatch.Servers. A server without a group has the part of none,
// although its Lease is of group 0.
func (o others) Group(id string) []string {
	var addresses []string
	for _, s := range o.registry.All() {
		if s.Group == id && s.Ready && id != o.own && s.Applied != servers.NoGroup {
			addresses = append(addresses, s.Address)
		}
	}
	return addresses
}

// apiEndpoints keeps the endpoints of the API by service group, nil without one.
func (s *Server) apiEndpoints() *apiserver.Endpoints {
	if s.cfg.ServiceGroupID == "" {
		return nil
	}
	return &apiserver.Endpoints{Every: apiendpoints.Interval, New: func(
		client *rest.Config, leases *storagebackend.ConfigForResource,
	) (apiserver.EndpointKeeper, error) {
		return apiendpoints.New(s.cfg.ServiceGroupID, client, leases)
	}}
}

// forgetGroups removes the endpoints of service groups when there are none any more,
// nil on a server that has one.
func (s *Server) forgetGroups() func(context.Context) error {
	if s.cfg.ServiceGroupID != "" {
		return nil
	}
	return func(ctx context.Context) error {
		return apiendpoints.Forget(ctx, s.files.restConfig(s.files.pki.Supervisor))
	}
}

// checkGroups finds tenants without a group and groups without servers.
func checkGroups(registry *servers.Registry, client balance.Configs) health.Check {
	return func(ctx context.Context, r *health.Registry) {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return // of the API server others tell
		}
		var configs []ownership.Config
		ready, alone := map[string]bool{}, []string{}
		for _, s := range registry.All() {
			ready[s.Group] = ready[s.Group] || s.Ready
		}
		for i := range list.Items {
			c := ownership.NewConfig(&list.Items[i], list.Items[i].CreationTimestamp.Unix())
			configs = append(configs, c)
			if !ready[c.Group] && !(c.Span.Empty() && len(c.Tenants) == 0) {
				alone = append(alone, c.Group)
				r.Set(health.ServiceGroupNoOne, c.Group, "its configuration is "+c.Name)
			}
		}
		r.Keep(health.ServiceGroupNoOne, alone)
		gaps := ownership.NewTable(configs).Gaps()
		r.Report(len(gaps) > 0, health.ServiceGroupGap, "", fmt.Sprintf("%d ranges: %s", len(gaps), gaps))
		if p := balance.Interrupted(list.Items); p != nil {
			r.Set(health.ServiceGroupInterrupted, "", "from service group "+p.From+" to "+p.To)
		} else {
			r.Clear(health.ServiceGroupInterrupted, "")
		}
		var overlaps []string
		for _, pair := range ownership.Overlaps(configs) {
			name := pair[0] + " and " + pair[1]
			overlaps = append(overlaps, name)
			r.Set(health.ServiceGroupOverlap, name, "")
		}
		r.Keep(health.ServiceGroupOverlap, overlaps)
	}
}

// startServiceGroup starts what a server of a service group has besides.
func (s *Server) startServiceGroup(
	ctx context.Context, group *component.Group, client kubernetes.Interface, leader *election.Election,
) error {
	id := s.cfg.ServiceGroupID
	if id == "" {
		return nil
	}
	store, err := balance.NewStore(s.files.restConfig(s.files.pki.Admin), nil)
	if err != nil {
		return err
	}
	s.health.watchGroups(checkGroups(s.servers, store.Configs), heldMetrics(id, s.spaces.Held))
	name := s.cfg.Agent.NodeName
	publisher := &load.Publisher{
		Client: client, Counters: s.load, Server: name, Lease: servers.LeaseName(name),
		Log: logrus.WithField("component", "tenant-load"),
	}
	group.Start(ctx, publisher.Component())
	if s.cfg.AutoPartition {
		group.Start(ctx, leader.Only(balance.Automatic(store, logrus.WithField("component", "auto-partition"))))
	}
	return nil
}

// heldMetrics are of what this server holds for its service group.
func heldMetrics(group string, held func(string) (tenancy.Held, bool)) health.Metrics {
	return func(add func(name, help string, value float64, labels map[string]string)) {
		h, ok := held(group)
		if !ok {
			return
		}
		of := map[string]string{"group": group}
		add("service_group_tenants", "How many tenants this server caches.", float64(h.Tenants), of)
		add("service_group_objects", "How many objects the tenants have that this server caches.",
			float64(h.Objects), of)
		add("service_group_revision", "The revision of the newest change of DataPartitionConfigs that all caches "+
			"of this server have met.", float64(h.Revision), of)
		add("service_group_moves", "How many changes of DataPartitionConfigs have brought tenants to this server "+
			"or taken them since its start.", float64(h.Moves), of)
	}
}
