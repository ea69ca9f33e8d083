package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/manifests"
	"github.com/a4s-io/a4s/server/addons"
	"github.com/a4s-io/a4s/server/addons/deploy"
	"github.com/a4s-io/a4s/server/cluster/election"
	"github.com/a4s-io/a4s/server/cluster/members"
	"github.com/a4s-io/a4s/server/cluster/servers"
	"github.com/a4s-io/a4s/server/cluster/settings"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/controlplane/controllers"
	"github.com/a4s-io/a4s/server/controlplane/defaultroles"
	"github.com/a4s-io/a4s/server/controlplane/heap"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/controlplane/scheduler"
	"github.com/a4s-io/a4s/server/groups"
	"github.com/a4s-io/a4s/server/nodeapi"
	"github.com/a4s-io/a4s/server/nodeapi/nodelife"
	"github.com/a4s-io/a4s/server/partition"
	"github.com/a4s-io/a4s/server/tenancy"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
	"github.com/a4s-io/a4s/server/tenancy/roles/aggregation"
	tenants "github.com/a4s-io/a4s/server/tenancy/tenants/controller"
)

// minFree is the disk space that a server asks for at its start: the write-
// ahead log of the datastore is made in files of 64 MiB, two at first.
const minFree = 192 << 20

// Running is a control plane that is up.
type Running struct {
	// URL is where this machine reaches API and supervisor.
	URL string
	// Token lets the node of this server join, in K10 form. It is the
	// server token: only its holders may run a node under the names of the
	// API server.
	Token string
	// Kubeconfig is the administrator's kubeconfig.
	Kubeconfig string
	// FirstStart is true when this start made the PKI.
	FirstStart bool
	// JoinURL is where other machines reach it.
	JoinURL string
	// NodeTokenFile holds the token that other nodes join with.
	NodeTokenFile string
	// Admin is a client configuration with all rights.
	Admin *rest.Config

	clustered bool
}

// Server is a control plane that can start: New refuses what can be refused
// without a trace, Init writes what the components read, Serve runs them and
// WaitReady waits until all of them do.
type Server struct {
	cfg       *config.Server
	addresses *addresses
	files     *files
	peers     *peers
	partition *partition.Own
	store     *store
	upstream  *upstream
	renewal   *certificates
	health    *serverHealth
	pool      *interning.Pool
	log       *logrus.Entry

	tokens  *jointoken.ServerTokens // set by Init
	first   bool                    // Init made the PKI
	parts   *partition.Set          // set by Serve
	inside  *inside.Cluster         // set by Serve
	ofNodes *partition.Nodes        // set by Serve
	servers *servers.Registry       // set by Serve, nil on the only server
	lives   *nodelife.Records       // set by Serve
	spaces  *tenancy.Spaces         // set by Serve
	groups  groups.Wing
	others  func() []component.State
}

// New checks settings, machine and datastore and changes nothing. cfg must be
// complete and valid. nodeIP is the address of this machine that others reach it
// at.
func New(ctx context.Context, cfg *config.Server, nodeIP net.IP) (*Server, error) {
	dir, log := filepath.Join(cfg.Agent.DataDir, "server"), logrus.WithField("component", "server")
	a, err := newAddresses(cfg, nodeIP)
	if err != nil {
		return nil, err
	}
	f := newFiles(cfg, dir, a.url)
	p := &peers{cfg: cfg, dir: dir}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	own, err := partition.Find(partition.Server{Config: cfg, Dir: dir, Address: a.join, PKI: f.pki, API: f.restConfig},
		p.token != nil)
	if err != nil {
		return nil, err
	}
	if err := own.CheckSettings(); err != nil {
		return nil, err
	}
	st, err := newStore(cfg, f, p, nodeIP)
	if err != nil {
		return nil, err
	}
	pool := interning.New()
	s := &Server{
		cfg: cfg, addresses: a, files: f, peers: p, store: st, pool: pool, log: log, partition: own,
		upstream: &upstream{cfg: cfg, files: f, addresses: a, store: st, partition: own, pool: pool, log: log},
		renewal: &certificates{cfg: cfg, files: f, addresses: a, clustered: p.clustered, partition: own,
			log: log},
		health: &serverHealth{cfg: cfg, files: f, datastore: st},
		groups: groups.New(groups.Options{ID: cfg.ServiceGroupID, Server: cfg.Agent.NodeName,
			Balances: cfg.AutoGroups}),
	}
	if err := s.upstream.validate(); err != nil {
		return nil, err
	}
	if err := preflight.FreeSpace(cfg.Agent.DataDir, minFree); err != nil {
		return nil, err
	}
	if err := preflight.Ports(st.ports()...); err != nil {
		return nil, err
	}
	return s, st.check(ctx)
}

// Health lets a monitor watch over the control plane.
func (s *Server) Health(m *health.Monitor) { s.health.watch(m) }

// Others makes the state of the server tell of components of other processes, too.
// It must be called before Serve.
func (s *Server) Others(states func() []component.State) { s.others = states }

// Init makes on the first start, and checks on every other, certificates, tokens
// and what else the components read. A server that joins others gets from one of
// them what they share, and waits for one that runs.
func (s *Server) Init(ctx context.Context) error {
	f := s.files
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf("making %s: %w", f.dir, err)
	}
	_, err := os.Stat(f.pki.Dir)
	s.first = os.IsNotExist(err)
	if s.first {
		s.log.Infof("First start: making certificates and tokens below %s", f.dir)
	}
	if err := s.store.beginRelease(ctx, s.first, s.log); err != nil {
		return err
	}
	if err := f.takeCAs(s.log); err != nil {
		return err
	}
	if err := s.peers.fetchShared(ctx, f, s.log); err != nil {
		return err
	}
	if err := s.partition.Took(s.peers.bundle); err != nil {
		return err
	}
	if err := s.partition.Begin(ctx, s.log); err != nil {
		return err
	}
	if err := s.store.join(s.peers.bundle); err != nil {
		return err
	}
	if _, err := pki.Ensure(f.pki.Dir, s.renewal.options(false)); err != nil {
		return err
	}
	if s.tokens, err = f.loadTokens(s.partition.Tokens(s.peers.bundle)); err != nil {
		return err
	}
	if err := f.write(); err != nil {
		return err
	}
	return s.upstream.check(ctx)
}

// Reset makes this server the only one of its cluster, with the data that it has.
// The server must not be started.
func (s *Server) Reset(ctx context.Context) error {
	if err := s.Init(ctx); err != nil {
		return err
	}
	if err := s.store.reset(ctx); err != nil {
		return err
	}
	if err := atomicfile.Write(s.peers.resetFlag(), nil, 0o600); err != nil {
		return err
	}
	logrus.Info("This server is the only one of its cluster now. Start it again without --cluster-reset")
	logrus.Infof("Every other server has to be stopped, its %s moved away, and to join again with --server",
		filepath.Dir(etcdDir(s.files.dir)))
	return nil
}

// Serve starts the components in the order of their dependencies and returns
// when nodes can join: the API serves, and the manifests of a4s, which say what
// nodes may do, are applied.
func (s *Server) Serve(ctx context.Context, group *component.Group) (*Running, error) {
	group.Start(ctx, heap.Idle())
	group.Start(ctx, s.renewal.component())
	if err := s.store.start(ctx, group); err != nil {
		return nil, err
	}
	if err := s.peers.started(); err != nil {
		return nil, err
	}
	// Now, and not at Init: a first start that was refused binds nobody.
	if err := settings.Write(s.files.dir, s.cfg); err != nil {
		return nil, err
	}
	// Both are what runs in the server, which is not what administrators are: a short path
	// is the whole cluster for it, whatever it does.
	internal := s.files.restConfig(s.files.pki.Supervisor)
	supervisor := s.files.restConfig(s.files.pki.Supervisor)
	client, err := kubernetes.NewForConfig(supervisor)
	if err != nil {
		return nil, fmt.Errorf("making the supervisor's client: %w", err)
	}
	s.health.start(client)
	keys := newEncryption(s.cfg, s.files, s.store, client, s.onlyMembers)
	if err := keys.Adopt(ctx, s.cfg.SecretsEncryption); err != nil {
		return nil, err
	}
	cas, err := newCAs(s.files, s.store, s.log)
	if err != nil {
		return nil, err
	}
	s.health.datastoreRuns(keys, cas)
	group.Start(ctx, keys.Component())
	if cas != nil {
		group.Start(ctx, cas.Component())
	}
	if s.parts, err = partition.NewSet(s.partition, s.health.registry()); err != nil {
		return nil, err
	}
	s.inside = inside.New(s.addresses.ranges(), s.parts)
	extra, err := addons.New(s.cfg, addons.Access{Internal: internal,
		Admin: s.files.restConfig(s.files.pki.Admin), Dialer: s.forTenant,
		ClientCA: s.clientCA}, s.pool, s.parts)
	if err != nil {
		return nil, err
	}
	s.lives = nodelife.New(client, s.log)
	if s.ofNodes, err = partition.NewNodes(s.parts, partition.NodesOptions{Life: s.renewal.life,
		Kubelet: s.kubeletClient(), Lives: s.lives, Authenticated: authn.Authenticated}); err != nil {
		return nil, err
	}
	s.upstream.nodes = s.ofNodes
	spaces, err := s.newSpaces(internal, s.parts)
	if err != nil {
		return nil, err
	}
	s.spaces, s.upstream.spaces = spaces, spaces
	s.servers = s.registry(client)
	everything, err := s.groups.Follow(s.servers, client, internal, supervisor)
	if err != nil {
		return nil, err
	}
	s.upstream.wrap = everything.Wrap
	unbounded := rest.CopyConfig(supervisor)
	unbounded.QPS = -1 // by workers, whose number is
	writes, err := kubernetes.NewForConfig(unbounded)
	if err != nil {
		return nil, fmt.Errorf("making the client that writes for Ingresses: %w", err)
	}
	objects, err := dynamic.NewForConfig(unbounded)
	if err != nil {
		return nil, fmt.Errorf("making the client of the Gateway API: %w", err)
	}
	forNodes, err := s.forNodes(everything.Client, writes, objects)
	if err != nil {
		return nil, err
	}
	api, err := s.nodeAPI(client, forNodes, extra, keys, cas, group)
	if err != nil {
		return nil, err
	}
	metrics, err := s.newMetrics()
	if err != nil {
		return nil, err
	}
	bounds, err := newBounds(s)
	if err != nil {
		return nil, err
	}
	served := seams(spaces, api.Handler, metrics, s.ofNodes, bounds, s.partition.Name())
	served.Endpoints = s.groups.Endpoints()
	if err := group.StartAndWait(ctx, apiserver.New(s.upstream.apiserver(served))); err != nil {
		return nil, err
	}
	group.Start(ctx, component.Running("node-records", s.lives.Run))
	for _, c := range everything.Components {
		group.Start(ctx, c)
	}
	group.Start(ctx, apiserver.Hooks(client, func(ctx context.Context) error {
		return s.groups.Served(ctx, s.files.restConfig(s.files.pki.Supervisor))
	}))
	for _, c := range spaces.Components() {
		group.Start(ctx, c)
	}
	if metrics != nil {
		group.Start(ctx, metrics.Component())
	}
	var leader *election.Election
	if s.peers.several() {
		leader = election.New(s.cfg.Agent.NodeName, s.files.restConfig(s.files.pki.Supervisor), s.log)
		group.Start(ctx, leader.Component())
	}
	for _, c := range s.parts.Components(leader) {
		group.Start(ctx, c)
	}
	s.ofNodes.Watch(s.health.monitor)
	if s.servers != nil {
		group.Start(ctx, s.servers.Component())
	}
	ofGroup, err := s.groups.Components(groups.Work{Client: client, Admin: s.files.restConfig(s.files.pki.Admin),
		Servers: s.servers, Spaces: spaces, Monitor: s.health.monitor, Leader: leader.Only})
	if err != nil {
		return nil, err
	}
	for _, c := range ofGroup {
		group.Start(ctx, c)
	}
	if s.peers.clustered {
		group.Start(ctx, leader.Only(members.New(client, s.store.members(), s.log)))
	}
	credentials := nodeapi.NewNodeCredentials(client, s.log)
	credentials.Lives(s.lives, max(pki.LeafLife, s.renewal.life()))
	group.Start(ctx, leader.Only(component.Running("node-credentials", credentials.Run)))
	forNodes.start(ctx, group)
	writer, err := forNodes.writer(everything.Client, objects)
	if err != nil {
		return nil, err
	}
	group.Start(ctx, leader.Only(writer))
	group.Start(ctx, leader.Only(aggregation.New(internal, s.pool)))
	own, err := tenancy.Endpoints(supervisor, s.inside, s.pool)
	if err != nil {
		return nil, err
	}
	group.Start(ctx, leader.Only(own))
	group.Start(ctx, leader.Only(tenants.New(tenants.Options{
		Config: internal, Contents: spaces.Limits, DefaultTenant: s.partition.DefaultTenant(), Pool: s.pool,
		Log: s.log,
	})))
	group.Start(ctx, leader.Only(spaces.Templates(internal)))
	group.Start(ctx, leader.Only(spaces.Accesses(s.accesses(internal))))
	group.Start(ctx, deploy.New(deploy.Options{
		Config: internal, FS: manifests.FS, Disabled: s.cfg.Disable,
		Values: deploy.Values{ClusterDNS: s.cfg.ClusterDNS, NodeImporter: s.ofNodes.Importer()},
		Dir:    s.files.manifests, Log: logrus.WithField("component", deploy.Name),
	}))
	for _, c := range extra.Components(leader.Only) {
		group.Start(ctx, c)
	}
	if err := s.startByRoles(ctx, group, spaces, leader); err != nil {
		return nil, err
	}
	if err := group.Wait(ctx, deploy.Name); err != nil {
		return nil, err
	}
	return &Running{
		URL:           s.addresses.url,
		JoinURL:       "https://" + s.addresses.join,
		Token:         s.tokens.Server().Encode(),
		NodeTokenFile: filepath.Join(s.files.dir, jointoken.NodeFile),
		Kubeconfig:    s.cfg.WriteKubeconfig,
		FirstStart:    s.first,
		Admin:         s.files.restConfig(s.files.pki.Admin),
		clustered:     s.peers.clustered && !s.cfg.DisableEtcd,
	}, nil
}

// WaitReady returns when all that Serve started runs.
func (s *Server) WaitReady(ctx context.Context, group *component.Group) error {
	for _, name := range []string{apiserver.HooksName, controllers.Name, tenants.Name} {
		if err := group.Wait(ctx, name); err != nil {
			return err
		}
	}
	return startSnapshots(ctx, group, s.cfg, s.store, s.health)
}

// startByRoles starts what has its rights by the default roles, when there are
// some.
func (s *Server) startByRoles(
	ctx context.Context, group *component.Group, spaces *tenancy.Spaces, leader *election.Election,
) error {
	if spaces.ByRoles {
		config := s.files.restConfig(s.files.pki.Supervisor)
		config.QPS = -1 // there are many roles, once
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("making the client for the default roles: %w", err)
		}
		if err := group.StartAndWait(ctx, defaultroles.New(defaultroles.Options{
			Client: client, Sees: spaces.Roles.Has, Log: s.log,
			Hook: func(ctx context.Context) error { return group.Wait(ctx, apiserver.HooksName) },
		})); err != nil {
			return err
		}
	}
	o := s.upstream.controllers(leader)
	group.Start(ctx, controllers.New(o))
	if !s.cfg.DisableScheduler && s.partition.Has(partitionapi.RoleTenant) {
		group.Start(ctx, s.ofNodes.Sharing(scheduler.New(s.upstream.scheduler(leader))))
	}
	return s.ofNodes.Start(ctx, group, o, leader)
}
