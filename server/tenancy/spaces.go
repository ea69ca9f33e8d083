package tenancy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	goruntime "runtime"
	"strings"

	"github.com/sirupsen/logrus"
	rbacv1 "k8s.io/api/rbac/v1"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/informers"
	restclient "k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/internal/upstreamflags"
	"github.com/a4s-io/a4s/server/addons/servicelb"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/controlplane/heap"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/controlplane/scheduler"
	"github.com/a4s-io/a4s/server/groups/load"
	"github.com/a4s-io/a4s/server/tenancy/admission"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/authn/issuers"
	"github.com/a4s-io/a4s/server/tenancy/authn/tokenreview"
	"github.com/a4s-io/a4s/server/tenancy/authz"
	"github.com/a4s-io/a4s/server/tenancy/crd"
	"github.com/a4s-io/a4s/server/tenancy/edge"
	"github.com/a4s-io/a4s/server/tenancy/fairness"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/fairness/ledger"
	"github.com/a4s-io/a4s/server/tenancy/limits"
	"github.com/a4s-io/a4s/server/tenancy/nodes"
	"github.com/a4s-io/a4s/server/tenancy/nodes/filter"
	"github.com/a4s-io/a4s/server/tenancy/reach"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
	"github.com/a4s-io/a4s/server/tenancy/series"
	"github.com/a4s-io/a4s/server/tenancy/storage"
	"github.com/a4s-io/a4s/server/tenancy/storage/events"
	"github.com/a4s-io/a4s/server/tenancy/tenants/access"
	"github.com/a4s-io/a4s/server/tenancy/tenants/directory"
	"github.com/a4s-io/a4s/server/tenancy/tenants/provision"
	"github.com/a4s-io/a4s/server/tenancy/tenants/registry"
	"github.com/a4s-io/a4s/server/tenancy/tenants/templates/apply"
)

// Spaces is what makes the API server one of tenants: everything that stands in its
// seams.
type Spaces struct {
	// Limits count and bound what tenants take.
	Limits *limits.Limits
	// Roles are set when the API server is made, ByRoles says then whether users are
	// judged by them.
	Roles   *authz.Listers
	ByRoles bool

	binding     *authz.Binding // set when the API server is made
	directory   *directory.Directory
	issuers     *issuers.Issuers
	nodes       *nodes.Rules
	accounts    *accounts
	crds        *crd.Catalog
	system      *restclient.Config
	log         *logrus.Entry
	edge        *edge.Edge
	admission   *admission.Admission
	series      *series.Sweeper
	pool        *interning.Pool
	connections *storage.Connections
	provisioner *provision.Provisioner
	placer      registry.Placer
	queue       *fairqueue.Queue
	use         *ledger.Ledger
	tunnels     bool // pods are reached through their nodes
}

// Options is what Spaces works with.
type Options struct {
	// DefaultTenant is that of users without one, empty for the system.
	DefaultTenant string
	// Groups are the tenants of which members of groups are members, "group=tenant,tenant".
	Groups []string
	// DefaultLimits are those of tenants without their own, "name=value".
	DefaultLimits []string
	// APIServerArgs are the user's for upstream's API server.
	APIServerArgs []string
	// ClusterDomain is that of the cluster's services, by which its own tokens are issued.
	ClusterDomain string
	// System is a client of the system space with all rights, which is used once the
	// API serves.
	System *restclient.Config
	// Partitions are those of the cluster, and Placer makes tenants in them.
	Partitions Partitions
	Placer     registry.Placer
	// Group is the service group of the server, "" for none.
	Group string
	// Load counts what tenants ask for, nil for nothing.
	Load *load.Counters
	// Gated are the users of controllers in which tenants take turns.
	Gated map[string]bool
	// Connections lead to the datastore, and Fill says how full it is.
	Connections *storage.Connections
	Fill        func() (used, quota int64)
	// Inside are the addresses of the cluster, LoadBalancers the ports that Services
	// do not get; nil if they get no addresses.
	Inside *inside.Cluster
	// Tunnel leads to pods; nil for a server in the pod network.
	Tunnel        reach.Tunnel
	LoadBalancers *servicelb.Rules
	// RootCA is what pods verify the API with, in PEM.
	RootCA string
	Pool   *interning.Pool
	Log    *logrus.Entry
}

// New wires the parts.
func New(o Options) (*Spaces, error) {
	tenants, err := directory.New(o.System, o.Pool)
	if err != nil {
		return nil, err
	}
	tokens, err := tokenFile(o.APIServerArgs)
	if err != nil {
		return nil, err
	}
	groups, err := tenantapi.ParseGroups(o.Groups)
	if err != nil {
		return nil, fmt.Errorf("reading the groups of tenants: %w", err)
	}
	m := &Spaces{
		directory: tenants, nodes: nodes.New(tenants), system: o.System, pool: o.Pool, log: o.Log,
		crds:        crd.NewCatalog(tenants, o.Log),
		connections: o.Connections, placer: o.Placer, accounts: newAccounts(), tunnels: o.Tunnel != nil,
	}
	m.issuers = issuers.New(issuers.Options{
		Dial:     func(tenant string) issuers.Dial { return issuers.Dial(m.admission.Dialer(tenant)) },
		Reserved: newClusterIssuers(o.APIServerArgs, o.ClusterDomain).has, Log: o.Log,
	})
	tenants.OnChange(func(old, t *tenantapi.Tenant) {
		m.issuers.Changed(t)
		m.crds.TenantChanged(old, t)
		m.nodes.Changed(old, t)
		if old != nil && old.Spec.Nodes != t.Spec.Nodes {
			m.edge.NodesChanged(t.Name)
		}
		if t.ReadsOnly() && (old == nil || !old.ReadsOnly()) {
			m.edge.TenantCordoned(t.Name)
		}
	})
	tenants.OnTemplate(m.nodes.TemplateChanged)
	defaults, err := tenantapi.ParseLimits(o.DefaultLimits)
	if err != nil {
		return nil, fmt.Errorf("reading the default limits of tenants: %w", err)
	}
	if errs := registry.ValidateQuota(defaults.Quota, field.NewPath(tenantapi.LimitQuota)); len(errs) > 0 {
		return nil, fmt.Errorf("reading the default limits of tenants: %w", errs.ToAggregate())
	}
	bounds := limits.Options{Tenants: directory.Bounded{Directory: tenants}, Defaults: defaults,
		Template: tenants.Template, Fill: o.Fill, Log: o.Log}
	if o.Load != nil {
		bounds.Load = o.Load
		tenants.OnGone(o.Load.Forget)
	}
	m.Limits = limits.New(bounds)
	tenants.OnGone(func(name string) {
		m.issuers.Gone(name)
		m.Limits.Forget(name)
		m.nodes.Gone(name)
		m.crds.TenantGone(name)
		m.admission.Forget(name)
	})
	m.provisioner, err = provision.New(provision.Options{
		Config: o.System, Tenants: tenants, RootCA: o.RootCA, Growth: heap.NewGrowth(), Log: o.Log,
		Has: func(roles, bindings sets.Set[string]) bool { return m.Roles.Has(roles, bindings) },
	})
	if err != nil {
		return nil, err
	}
	m.use = ledger.New()
	tenants.OnGone(m.use.Forget)
	seats := fairqueue.ForProcessors(goruntime.GOMAXPROCS(0))
	seats.Account = m.use
	seats.Weight = func(flow string) float64 {
		var t *tenantapi.Tenant
		if name := ledger.TenantOf(flow); name != "" {
			t = tenants.Known(name)
		}
		return float64(m.Limits.Share(t)) / tenantapi.DefaultShare
	}
	m.queue = fairqueue.New(seats)
	atEdge := edge.Options{
		DefaultTenant:   o.DefaultTenant,
		Groups:          groups,
		Group:           o.Group,
		Partitions:      o.Partitions,
		Tenants:         &everywhere{here: tenants, partitions: o.Partitions},
		Spaces:          m.provisioner,
		Accounts:        m.accounts,
		CustomResources: m.crds,
		TokenFile:       tokens,
		Issuers:         m.issuers,
		Queue:           m.queue,
		Gated:           o.Gated,
		Use:             m.use,
		Limits:          m.Limits,
		Log:             o.Log,
	}
	if o.Load != nil {
		atEdge.Load = o.Load
	}
	m.edge = edge.New(atEdge)
	tenants.OnGone(m.edge.TenantGone)
	m.admission, err = admission.New(admission.Options{
		Projector: m.edge.Projector, Tenants: tenants, Nodes: m.nodes, System: o.System, Inside: o.Inside,
		Tunnel:        o.Tunnel,
		LoadBalancers: o.LoadBalancers, NodePorts: limits.NodePorts(m.Limits), Pool: o.Pool, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	m.series, err = m.sweeper()
	return m, err
}

// sweeper takes series of metrics away that name what is gone.
func (m *Spaces) sweeper() (*series.Sweeper, error) {
	names, err := series.Names(m.system)
	if err != nil {
		return nil, err
	}
	return series.New(series.Options{
		Registry: legacyregistry.Registerer(), Gatherer: legacyregistry.DefaultGatherer,
		Changes: func() int64 { return m.crds.Generation(space.All) + m.admission.Changes() },
		Groups:  m.crds.Groups, Names: names, Log: m.log,
	}), nil
}

// Use is what tenants have used of the server in the last minute.
func (m *Spaces) Use() joinapi.TenantUse {
	m.queue.Tell()
	out := m.use.LastMinute()
	out.Processors = goruntime.GOMAXPROCS(0)
	return out
}

// Seams are the places in the API server where the parts go.
func (m *Spaces) Seams() apiserver.Seams {
	out := apiserver.Seams{
		Storage: func(g generic.RESTOptionsGetter) generic.RESTOptionsGetter {
			return m.Limits.Storage(storage.Decorate(m.connections.Builtin(g), storage.Options{
				Pool: m.pool, SharedRoles: m.sharedRoles, ReadsNodes: m.directory.ReadsNodes,
			}))
		},
		Handler: func(h http.Handler, audited func(http.Handler) http.Handler) http.Handler {
			return admission.Allow(m.edge.Handler(h, audited))
		},
		Authenticator: m.edge.Authenticator,
		Access:        m.access,
		Admission:     m.admission,
		Kept:          m.pool.Transform,
		CRDs: func(informer crdinformers.CustomResourceDefinitionInformer) {
			m.Limits.Watch(informer)
		},
		CustomResources: m.customResources,
		APIServices:     m.crds.WatchAPIServices,
		SystemSpace:     tenantapi.InSpace(m.system, space.System),
		Fairness: func(f utilflowcontrol.Interface) utilflowcontrol.Interface {
			return limits.Fairness(fairness.Wrap(f))
		},
		Groups:      m.groups(),
		Definitions: registry.Definitions,
	}
	if m.tunnels {
		out.Dial = m.admission.Dial
	}
	return out
}

// Plugins are those of the scheduler.
func (m *Spaces) Plugins() []scheduler.Plugin {
	return []scheduler.Plugin{filter.Plugin(m.nodes, m.directory.Synced)}
}

// Components are what runs besides the API server.
func (m *Spaces) Components() []component.Component {
	return []component.Component{
		{Name: "tenant-directory", Run: m.directory.Run},
		{Name: "tenant-admission", Run: func(ctx context.Context, ready func()) error {
			ready()
			return m.admission.Run(ctx)
		}},
		{Name: "metric-series", Run: func(ctx context.Context, ready func()) error {
			ready()
			m.series.Run(ctx)
			return nil
		}},
		{Name: "tenant-limits", Run: func(ctx context.Context, ready func()) error {
			ready()
			m.Limits.Run(ctx)
			m.Limits.Close()
			return nil
		}},
	}
}

// Templates keeps what templates say in the spaces of tenants. One server does. config has all rights.
func (m *Spaces) Templates(config *restclient.Config) component.Component {
	return apply.New(apply.Options{Config: config, Tenants: m.directory, Log: m.log})
}

// Accesses makes the credentials that the accesses to tenants say. One server does.
func (m *Spaces) Accesses(o access.Options) component.Component {
	o.Tenants, o.Log = m.directory, m.log
	return access.New(o)
}

// Dialer connects to what a tenant names, once the API is served.
func (m *Spaces) Dialer(tenant string) reach.Dial { return m.admission.Dialer(tenant) }

// access judges every user by the roles of their space.
func (m *Spaces) access(
	f informers.SharedInformerFactory, a authorizer.Authorizer, r authorizer.RuleResolver, rbac bool,
) (authorizer.Authorizer, authorizer.RuleResolver, error) {
	var err error
	if m.Roles, err = authz.NewListers(f); err != nil {
		return nil, nil, err
	}
	m.ByRoles = rbac
	m.accounts.lister = f.Core().V1().ServiceAccounts().Lister()
	o := authz.Options{Roles: m.Roles, SystemRBAC: rbac, ReadsNodes: m.directory.ReadsNodes}
	bordered, err := authz.Wrap(a, o)
	if err != nil {
		return nil, nil, err
	}
	return limits.Authorizer(m.provisioner.Authorizer(bordered)), authz.WrapRules(r, o), nil
}

// sharedRoles are asked for once the API server is made, which sets Roles.
func (m *Spaces) sharedRoles() ([]*rbacv1.ClusterRole, error) { return m.Roles.SharedClusterRoles() }

// groups are the changes to the storage of upstream's groups.
func (m *Spaces) groups() map[string]apiserver.Group {
	return map[string]apiserver.Group{
		"": func(getter generic.RESTOptionsGetter, c apiserver.GroupConfig, v1 map[string]rest.Storage) error {
			extra, err := registry.Storage(getter, registry.Options{
				Shown: registry.Shown{Usage: m.Limits.Usage, Effective: m.directory.Effective},
				Gone:  m.edge.TenantGone, Placer: m.placer, Reserved: m.issuers.Reserved, Authorizer: c.Authorizer,
				Bind: m.mayBind,
			})
			maps.Copy(v1, extra)
			maps.Copy(v1, registry.UsageStorage(directory.Bounded{Directory: m.directory}.Get, m.Limits.Usage))
			return errors.Join(err, m.admission.GuardProxies(v1), events.Judge(v1))
		},
		"events.k8s.io": func(_ generic.RESTOptionsGetter, _ apiserver.GroupConfig, v1 map[string]rest.Storage) error {
			return events.Judge(v1)
		},
		"authentication.k8s.io": func(
			_ generic.RESTOptionsGetter, c apiserver.GroupConfig, v1 map[string]rest.Storage,
		) error {
			v1["tokenreviews"] = tokenreview.New(c.Authenticator, c.Audiences)
			return nil
		},
		"rbac.authorization.k8s.io": func(
			_ generic.RESTOptionsGetter, c apiserver.GroupConfig, v1 map[string]rest.Storage,
		) error {
			var err error
			m.binding, err = authz.GuardStorage(v1, c.Authorizer, m.Roles)
			return err
		},
	}
}

// mayBind is asked once the API serves, which has set binding.
func (m *Spaces) mayBind(ctx context.Context, role rbacv1.RoleRef, namespace string) error {
	if m.binding == nil {
		return errors.New("the API serves no roles")
	}
	return m.binding.May(ctx, role, namespace)
}

// tokenFile reads the tenants in the file of --token-auth-file, which upstream
// reads too but without their column.
func tokenFile(args []string) (authenticator.Token, error) {
	path := ""
	for _, arg := range args {
		if upstreamflags.Name(arg) == "token-auth-file" {
			_, path, _ = strings.Cut(arg, "=")
		}
	}
	if path == "" {
		return nil, nil
	}
	return authn.NewTokenFile(path)
}
