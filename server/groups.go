package server

import (
	"cmp"
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/groupwatch"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/cluster/servers"
	"github.com/a4s-io/a4s/server/partition/balance"
)

// registry is of the servers that know each other by their Leases, nil if there are none:
// those of service groups, and those that share an etcd.
func (s *Server) registry(client kubernetes.Interface) *servers.Registry {
	if s.peers.shared == nil && s.cfg.ServiceGroupID == "" {
		return nil
	}
	return servers.New(client, servers.Server{
		Name: s.cfg.Agent.NodeName, Address: s.addresses.join,
		Group: cmp.Or(s.cfg.ServiceGroupID, partitionapi.DefaultGroup),
	})
}

// follow has the clients of everything ask all groups, unless this server is of none. It
// changes their transports, and returns what follows the configurations, if anything does.
func (s *Server) followGroups(admin *restclient.Config, clients ...*restclient.Config) ([]component.Component, error) {
	if s.cfg.ServiceGroupID == "" {
		return nil, nil
	}
	configs, err := partitionapi.NewClient(admin, nil)
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

// Group implements groupwatch.Servers.
func (o others) Group(id string) []string {
	var addresses []string
	for _, s := range o.registry.All() {
		if s.Group == id && s.Ready && id != o.own {
			addresses = append(addresses, s.Address)
		}
	}
	return addresses
}

// checkGroups finds tenants without a group and groups without servers.
func checkGroups(registry *servers.Registry, client *partitionapi.Client) health.Check {
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
		var overlaps []string
		for _, pair := range ownership.Overlaps(configs) {
			name := pair[0] + " and " + pair[1]
			overlaps = append(overlaps, name)
			r.Set(health.ServiceGroupOverlap, name, "")
		}
		r.Keep(health.ServiceGroupOverlap, overlaps)
	}
}

// autoPartition moves tenants between service groups.
func autoPartition(admin *restclient.Config) (component.Component, error) {
	var store balance.Store
	var err error
	if store.Configs, err = partitionapi.NewClient(admin, nil); err != nil {
		return component.Component{}, err
	}
	if store.Tenants, err = tenantapi.NewClient(admin, nil); err != nil {
		return component.Component{}, err
	}
	return balance.Automatic(store, logrus.WithField("component", "auto-partition")), nil
}
