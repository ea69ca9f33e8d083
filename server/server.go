package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/logging"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/internal/version"
	"github.com/a4s-io/a4s/manifests"
	"github.com/a4s-io/a4s/server/addons/deploy"
	"github.com/a4s-io/a4s/server/addons/networkpolicy"
	"github.com/a4s-io/a4s/server/cluster/cas"
	"github.com/a4s-io/a4s/server/cluster/election"
	"github.com/a4s-io/a4s/server/cluster/members"
	"github.com/a4s-io/a4s/server/controlplane/aggregation"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/controlplane/controllers"
	"github.com/a4s-io/a4s/server/controlplane/defaultroles"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/controlplane/scheduler"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/server/nodeapi"
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

// Plan is a control plane that can start: Prepare refuses what can be refused
// without a trace, MakeFiles writes what the components read, Serve runs them
// and Settle waits until all of them do.
type Plan struct {
	cfg       *config.Server
	dir       string // <data-dir>/server
	url       string
	nodeIP    net.IP
	advertise net.IP
	sans      []string // names and addresses of the API
	pki       *pki.Files
	tokens    *jointoken.ServerTokens
	files     *files
	endpoint  *dsn.Endpoint
	store     datastore.Datastore
	pool      *interning.Pool
	log       *logrus.Entry
	first     bool
	peers     peers

	certificates *certificates
	encryption   *secretsEncryption
	authorities  *cas.Controller // nil unless the datastore is embedded etcd
	health       serverHealth

	beside func() []component.State // components of other processes; may be nil
}

// Start is Prepare, MakeFiles and Plan.Start in one.
func Start(ctx context.Context, group *component.Group, cfg *config.Server, nodeIP net.IP) (*Running, error) {
	p, err := Prepare(ctx, cfg, nodeIP)
	if err != nil {
		return nil, err
	}
	if err := p.MakeFiles(ctx); err != nil {
		return nil, err
	}
	return p.Start(ctx, group)
}

// Prepare checks settings, machine and datastore and changes nothing. cfg must
// be complete and valid. nodeIP is the address of this machine that others
// reach it at.
func Prepare(ctx context.Context, cfg *config.Server, nodeIP net.IP) (*Plan, error) {
	p := &Plan{cfg: cfg, dir: filepath.Join(cfg.Agent.DataDir, "server"), nodeIP: nodeIP, advertise: nodeIP, pool: interning.New(), log: logrus.WithField("component", "server")}
	if cfg.AdvertiseAddress != "" {
		p.advertise = net.ParseIP(cfg.AdvertiseAddress)
	}
	local := "127.0.0.1"
	if ip := net.ParseIP(cfg.BindAddress); ip != nil && !ip.IsUnspecified() {
		local = cfg.BindAddress
	}
	p.url = "https://" + net.JoinHostPort(local, strconv.Itoa(cfg.HTTPSListenPort))
	p.pki = pki.FilesIn(filepath.Join(p.dir, "tls"))
	p.files = p.paths()
	p.certificates = &certificates{plan: p}
	var err error
	if p.sans, err = p.subjectNames(nodeIP); err != nil {
		return nil, err
	}
	if err := p.preparePeers(); err != nil {
		return nil, err
	}
	if p.endpoint, p.store, err = newStore(p); err != nil {
		return nil, err
	}
	if err := p.validateArgs(); err != nil {
		return nil, err
	}
	if err := preflight.FreeSpace(cfg.Agent.DataDir, minFree); err != nil {
		return nil, err
	}
	if err := preflight.Ports(p.ports()...); err != nil {
		return nil, err
	}
	return p, p.checkStore(ctx)
}

// MakeFiles makes on the first start, and checks on every other, certificates,
// tokens and what else the components read. A server that joins others gets
// from one of them what they share, and waits for one that runs.
func (p *Plan) MakeFiles(ctx context.Context) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return fmt.Errorf("making %s: %w", p.dir, err)
	}
	_, err := os.Stat(p.pki.Dir)
	p.first = os.IsNotExist(err)
	if p.first {
		p.log.Infof("First start: making certificates and tokens below %s", p.dir)
	}
	if err := p.beginRelease(ctx, p.first); err != nil {
		return err
	}
	if err := p.takeAuthorities(); err != nil {
		return err
	}
	if err := p.fetchShared(ctx); err != nil {
		return err
	}
	if p.endpoint, p.store, err = newStore(p); err != nil { // it knows now whom to join
		return err
	}
	if _, err := pki.Ensure(p.pki.Dir, p.pkiOptions(false)); err != nil {
		return err
	}
	if err := p.loadTokens(); err != nil {
		return err
	}
	return p.writeFiles()
}

// validateArgs refuses bad upstream arguments before anything starts.
func (p *Plan) validateArgs() error {
	if err := apiserver.Validate(p.apiserver(apiserver.Seams{})); err != nil {
		return err
	}
	if err := controllers.Validate(p.controllers(nil)); err != nil {
		return err
	}
	return scheduler.Validate(p.scheduler(nil))
}

// Start is Serve and Settle in one.
func (p *Plan) Start(ctx context.Context, group *component.Group) (*Running, error) {
	up, err := p.Serve(ctx, group)
	if err != nil {
		return nil, err
	}
	return up, p.Settle(ctx, group)
}

// Serve starts the components in the order of their dependencies and returns
// when nodes can join: the API serves, and the carried manifests, which say what
// nodes may do, are applied.
func (p *Plan) Serve(ctx context.Context, group *component.Group) (*Running, error) {
	group.Start(ctx, idleMemory(p.pool))
	group.Start(ctx, p.certificates.component())
	if err := p.startStore(ctx, group); err != nil {
		return nil, err
	}
	if err := p.started(); err != nil {
		return nil, err
	}
	admin := p.restConfig(p.pki.Admin)
	client, err := kubernetes.NewForConfig(p.restConfig(p.pki.Supervisor))
	if err != nil {
		return nil, fmt.Errorf("making the supervisor's client: %w", err)
	}
	addresses := nodeapi.NewAddresses(client)
	var policies *networkpolicy.Controller
	if !p.cfg.DisableNetworkPolicy {
		policies = networkpolicy.New(client, p.pool, logrus.WithField("component", networkpolicy.Name))
	}
	p.startHealth(client)
	keys := p.newEncryption(client)
	if err := keys.Adopt(ctx, p.cfg.SecretsEncryption); err != nil {
		return nil, err
	}
	cas, err := p.newAuthorities()
	if err != nil {
		return nil, err
	}
	p.health.mu.Lock()
	p.encryption, p.authorities = keys, cas
	p.health.mu.Unlock()
	group.Start(ctx, p.encryption.Component())
	if cas != nil {
		group.Start(ctx, cas.Component())
	}
	carried, err := p.newCarried(admin)
	if err != nil {
		return nil, err
	}
	sup, err := p.supervisor(client, addresses, policies, carried, group)
	if err != nil {
		return nil, err
	}
	spaces, err := p.newMultitenancy(admin)
	if err != nil {
		return nil, err
	}
	if err := group.StartAndWait(ctx, apiserver.New(p.apiserver(spaces.seams(sup.Handler)))); err != nil {
		return nil, err
	}
	group.Start(ctx, apiserver.Hooks(client))
	for _, c := range spaces.components() {
		group.Start(ctx, c)
	}
	var leader *election.Election
	if p.peers.clustered {
		leader = election.New(p.cfg.Agent.NodeName, p.restConfig(p.pki.Supervisor), p.log)
		group.Start(ctx, leader.Component())
		group.Start(ctx, leader.Only(members.New(client, p.members(), p.log)))
	}
	credentials := nodeapi.NewNodeCredentials(client, p.log)
	group.Start(ctx, leader.Only(component.Component{Name: "node-credentials", Run: func(ctx context.Context, ready func()) error {
		ready()
		return credentials.Run(ctx)
	}}))
	group.Start(ctx, component.Component{Name: "pod-addresses", Run: func(ctx context.Context, ready func()) error {
		ready()
		return addresses.Run(ctx)
	}})
	if policies != nil {
		group.Start(ctx, component.Component{Name: networkpolicy.Name, Run: func(ctx context.Context, ready func()) error {
			ready()
			return policies.Run(ctx)
		}})
	}
	group.Start(ctx, leader.Only(aggregation.New(admin, p.pool)))
	own, err := p.newEndpoints()
	if err != nil {
		return nil, err
	}
	group.Start(ctx, leader.Only(own))
	group.Start(ctx, leader.Only(tenants.New(tenants.Options{Config: admin, Contents: spaces.limits, DefaultTenant: p.cfg.DefaultTenant, Pool: p.pool, Room: spaces.grown.wait, Log: p.log})))
	group.Start(ctx, deploy.New(deploy.Options{
		Config: admin, FS: manifests.FS, Values: deploy.Values{ClusterDNS: p.cfg.ClusterDNS}, Disabled: p.cfg.Disable,
		Dir: p.files.manifests, Log: logrus.WithField("component", deploy.Name),
	}))
	for _, c := range carried.components(leader.Only) {
		group.Start(ctx, c)
	}
	if err := p.startByRoles(ctx, group, spaces, leader); err != nil {
		return nil, err
	}
	if err := group.Wait(ctx, deploy.Name); err != nil {
		return nil, err
	}
	return &Running{
		URL:           p.url,
		JoinURL:       "https://" + net.JoinHostPort(p.advertise.String(), strconv.Itoa(p.cfg.HTTPSListenPort)),
		Token:         p.tokens.Server().Encode(),
		NodeTokenFile: filepath.Join(p.dir, jointoken.NodeFile),
		Kubeconfig:    p.cfg.WriteKubeconfig,
		FirstStart:    p.first,
		Admin:         admin,
		clustered:     p.peers.clustered,
	}, nil
}

// startByRoles starts what has its rights by the default roles, when there are
// some.
func (p *Plan) startByRoles(ctx context.Context, group *component.Group, spaces *multitenancy, leader *election.Election) error {
	if spaces.byRoles {
		config := p.restConfig(p.pki.Supervisor)
		config.QPS = -1 // there are many roles, once
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("making the client for the default roles: %w", err)
		}
		if err := group.StartAndWait(ctx, defaultroles.New(defaultroles.Options{
			Client: client, Sees: spaces.roles.Has, Log: p.log,
			Hook: func(ctx context.Context) error { return group.Wait(ctx, apiserver.HooksName) },
		})); err != nil {
			return err
		}
	}
	group.Start(ctx, controllers.New(p.controllers(leader)))
	if !p.cfg.DisableScheduler {
		group.Start(ctx, scheduler.New(p.scheduler(leader)))
	}
	return nil
}

// Beside makes the state of the server tell of components of other processes,
// too. It must be called before Serve.
func (p *Plan) Beside(states func() []component.State) { p.beside = states }

// Settle returns when all that Serve started runs.
func (p *Plan) Settle(ctx context.Context, group *component.Group) error {
	for _, name := range []string{apiserver.HooksName, controllers.Name, tenants.Name} {
		if err := group.Wait(ctx, name); err != nil {
			return err
		}
	}
	return p.startSnapshots(ctx, group)
}

// restConfig is a client of the local API with one of the PKI's identities.
func (p *Plan) restConfig(pair pki.Pair) *rest.Config {
	return &rest.Config{
		Host:            p.url,
		TLSClientConfig: rest.TLSClientConfig{CAFile: p.pki.ServerCA.Cert, CertFile: pair.Cert, KeyFile: pair.Key},
		QPS:             50,
		Burst:           100,
	}
}

// status is what the supervisor tells administrators about this server.
func (p *Plan) status(group *component.Group) joinapi.ServerStatus {
	st := joinapi.ServerStatus{Version: version.Version, Kubernetes: version.Kubernetes, Datastore: p.endpoint.String()}
	states := group.States()
	if p.beside != nil {
		states = append(states, p.beside()...)
	}
	for _, s := range states {
		st.Components = append(st.Components, joinapi.ComponentStatus{
			Name: s.Name, Ready: s.Ready, Restarts: s.Restarts, LastError: s.LastError, Since: s.Since.UTC().Format(time.RFC3339),
		})
	}
	st.Problems = p.health.problems()
	return st
}

// etcdStore makes embedded etcd a datastore.Datastore.
type etcdStore struct {
	*etcd.Server
	files *pki.Files
}

// Endpoint implements datastore.Datastore.
func (s etcdStore) Endpoint() datastore.Endpoint {
	return datastore.Endpoint{URLs: []string{s.ClientURL()}, CAFile: s.files.EtcdServerCA.Cert, CertFile: s.files.EtcdClient.Cert, KeyFile: s.files.EtcdClient.Key}
}

func newEtcd(p *Plan) (datastore.Datastore, error) {
	f := p.pki
	o := etcd.Options{
		Dir:           p.etcdDir(),
		Name:          etcd.LocalMember,
		CertFile:      f.EtcdServer.Cert,
		KeyFile:       f.EtcdServer.Key,
		TrustedCAFile: f.EtcdServerCA.Cert,
		PeerCertFile:  f.EtcdPeer.Cert, PeerKeyFile: f.EtcdPeer.Key, PeerTrustedCAFile: f.EtcdPeerCA.Cert,
		ClientCertFile: f.EtcdClient.Cert, ClientKeyFile: f.EtcdClient.Key,
		Reset: p.cfg.ClusterReset,
		Args:  p.cfg.EtcdArgs,
		Zap:   logging.Zap(logging.Options{Debug: p.cfg.Agent.Debug, Verbosity: p.cfg.Agent.Verbosity}),
		Log:   logrus.WithField("component", "etcd"),
	}
	if p.peers.clustered {
		o.Name, o.Address = p.cfg.Agent.NodeName, p.nodeIP.String()
	}
	if p.peers.token != nil {
		o.Join = p.cfg.JoinURLs // not where the datastore is, but Prepare needs no more
	}
	if p.peers.bundle != nil {
		o.Join = p.peers.bundle.Datastore
	}
	s, err := etcd.New(o)
	if err != nil {
		return nil, err
	}
	return etcdStore{Server: s, files: f}, nil
}

// supervisor serves the join API on the port of the API server.
func (p *Plan) supervisor(client kubernetes.Interface, addresses *nodeapi.Addresses, policies *networkpolicy.Controller, carried *carried, group *component.Group) (*nodeapi.Supervisor, error) {
	serverCA, err := pki.LoadAuthority(p.pki.ServerCA)
	if err != nil {
		return nil, err
	}
	clientCA, err := pki.LoadAuthority(p.pki.ClientCA)
	if err != nil {
		return nil, err
	}
	return nodeapi.New(nodeapi.Options{
		ServerCA: serverCA.WithLife(p.life()),
		ClientCA: clientCA.WithLife(p.life()),
		Renew:    p.certificates.renewAll, Authorities: p.replaceAuthorities,
		Bundle: p.bundle, ServerSANs: p.serverSANs,
		Members: p.listMembers, RemoveMember: p.removeMember,
		Tokens:  p.tokens,
		Secrets: nodeapi.NewSecrets(client.CoreV1()),
		Config: joinapi.ClusterConfig{
			ClusterCIDR: p.cfg.ClusterCIDR, ServiceCIDR: p.cfg.ServiceCIDR,
			ClusterDNS: p.cfg.ClusterDNS, ClusterDomain: p.cfg.ClusterDomain,
			FlannelBackend: p.cfg.FlannelBackend, DisableNetworkPolicy: p.cfg.DisableNetworkPolicy,
			Version: version.Version, Kubernetes: version.Kubernetes,
		},
		Addresses:  addresses,
		Policies:   policies,
		Encryption: p.encryption,
		Volumes:    carried.volumes(),
		Status:     func() joinapi.ServerStatus { return p.status(group) },
		// With --disable-agent, too: the server may run in a pod of that node.
		LocalNode:    p.cfg.Agent.NodeName,
		ReservedSANs: p.sans,
	}), nil
}
