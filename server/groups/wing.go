package groups

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/groupwatch"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/cluster/servers"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/groups/apiendpoints"
	"github.com/a4s-io/a4s/server/groups/balance"
	"github.com/a4s-io/a4s/server/groups/load"
	"github.com/a4s-io/a4s/server/groups/ranged"
)

// Wing is what a server has because of service groups.
type Wing interface {
	// Load counts what tenants ask for; nil, which counts nothing, for nobody.
	Load() *load.Counters
	// Lease is what the server says of itself on its Lease, and how far it is with the
	// configurations, nil for nothing. A server of which others need not know has no Lease.
	Lease(own servers.Server, needed bool, s Spaces) (servers.Server, func() int64)
	// Follow has the clients of everything ask the servers of all groups. It changes the transport
	// of config; inside sees the configurations, and client is of config as it is.
	Follow(r *servers.Registry, client kubernetes.Interface, inside, config *rest.Config) (Everything, error)
	// Endpoints keep those of the API by group; nil leaves them to upstream.
	Endpoints() *apiserver.Endpoints
	// Served is called when the API serves, with a client that has all rights.
	Served(ctx context.Context, config *rest.Config) error
	// Components are what runs besides the API server.
	Components(Work) ([]component.Component, error)
}

// Options are what an operator says of the group of a server.
type Options struct {
	// ID is that of the group, "" for none.
	ID string
	// Server is the name of the server.
	Server string
	// Balances has the leader move tenants between groups by their load.
	Balances bool
}

// Spaces are the tenants, as the server caches them.
type Spaces interface {
	// Progress is how far the caches are with the configurations; ok is false while there are none.
	Progress() (p ranged.Progress, ok bool)
	// Tenants are the names of all tenants.
	Tenants() []string
	// Objects are how many a tenant has.
	Objects(tenant string) int64
}

// Everything is what sees the tenants of all groups.
type Everything struct {
	// Client makes a client. What two parts of a server watch alike is told apart by their clients:
	// each has its own.
	Client func() (kubernetes.Interface, error)
	// Wrap is for the transports of controllers and scheduler; nil leaves them.
	Wrap       transport.WrapperFunc
	Components []component.Component
}

// Work is what the components of a group work with.
type Work struct {
	Client  kubernetes.Interface
	Admin   *rest.Config
	Servers *servers.Registry
	Spaces  Spaces
	Monitor *health.Monitor // nil for none
	// Leader has a component run on one server at a time.
	Leader func(component.Component) component.Component
}

// New returns the wing of a server.
func New(o Options) Wing {
	if o.ID == "" {
		return none{}
	}
	return &group{o, load.New()}
}

// none is the wing of a server without a group: it caches all tenants, and adds nothing.
type none struct{}

// Load implements Wing.
func (none) Load() *load.Counters { return nil }

// Lease implements Wing. A server without a group counts as one of the first.
func (none) Lease(own servers.Server, needed bool, _ Spaces) (servers.Server, func() int64) {
	if !needed {
		return servers.Server{}, nil
	}
	own.Group = partitionapi.DefaultGroup
	return own, nil
}

// Follow implements Wing.
func (none) Follow(_ *servers.Registry, c kubernetes.Interface, _, _ *rest.Config) (Everything, error) {
	return Everything{Client: func() (kubernetes.Interface, error) { return c, nil }}, nil
}

// Endpoints implements Wing.
func (none) Endpoints() *apiserver.Endpoints { return nil }

// Served implements Wing: there may have been groups before.
func (none) Served(ctx context.Context, config *rest.Config) error {
	return apiendpoints.Forget(ctx, config)
}

// Components implements Wing.
func (none) Components(Work) ([]component.Component, error) { return nil, nil }

// group is the wing of a server of a service group.
type group struct {
	o        Options
	counters *load.Counters
}

// Load implements Wing.
func (g *group) Load() *load.Counters { return g.counters }

// Lease implements Wing.
func (g *group) Lease(own servers.Server, _ bool, s Spaces) (servers.Server, func() int64) {
	own.Group = g.o.ID
	return own, func() int64 {
		p, _ := s.Progress()
		return p.Revision
	}
}

// Follow implements Wing.
func (g *group) Follow(
	r *servers.Registry, _ kubernetes.Interface, inside, config *rest.Config,
) (e Everything, err error) {
	configs, err := partitionapi.NewClient(inside, nil)
	if err != nil {
		return e, err
	}
	groups := groupwatch.New(others{r, g.o.ID}, logrus.WithField("component", groupwatch.Name))
	config.Wrap(groups.Wrap)
	e.Wrap, e.Components = groups.Wrap, []component.Component{groups.Component(configs)}
	e.Client = func() (kubernetes.Interface, error) {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("making a client of everything: %w", err)
		}
		return client, nil
	}
	return e, nil
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

// Endpoints implements Wing.
func (g *group) Endpoints() *apiserver.Endpoints {
	return &apiserver.Endpoints{Every: apiendpoints.Interval, New: func(
		client *rest.Config, leases *storagebackend.ConfigForResource,
	) (apiserver.EndpointKeeper, error) {
		return apiendpoints.New(g.o.ID, client, leases)
	}}
}

// Served implements Wing.
func (g *group) Served(context.Context, *rest.Config) error { return nil }

// Components implements Wing.
func (g *group) Components(w Work) ([]component.Component, error) {
	store, err := balance.NewStore(w.Admin, nil)
	if err != nil {
		return nil, err
	}
	if m := w.Monitor; m != nil {
		m.Add("service groups", check(w.Servers, store.Configs))
		m.AddMetrics(g.metrics(w.Spaces))
	}
	publisher := &load.Publisher{
		Client: w.Client, Counters: g.counters, Server: g.o.Server, Lease: servers.LeaseName(g.o.Server),
		Log: logrus.WithField("component", "tenant-load"),
	}
	out := []component.Component{publisher.Component()}
	if g.o.Balances {
		out = append(out, w.Leader(balance.Automatic(store, logrus.WithField("component", "auto-groups"))))
	}
	return out, nil
}
