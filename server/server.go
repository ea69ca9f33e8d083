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
	"github.com/a4s-io/a4s/internal/join"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/logging"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/internal/sharing"
	"github.com/a4s-io/a4s/internal/version"
	"github.com/a4s-io/a4s/manifests"
	"github.com/a4s-io/a4s/server/aggregation"
	"github.com/a4s-io/a4s/server/apiserver"
	"github.com/a4s-io/a4s/server/controllers"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/server/deploy"
	"github.com/a4s-io/a4s/server/scheduler"
	"github.com/a4s-io/a4s/server/supervisor"
	tenants "github.com/a4s-io/a4s/server/tenants/controller"
)

// minFree is the disk space that a server asks for at its start: the write-
// ahead log of the datastore is made in files of 64 MiB, two at first.
const minFree = 192 << 20

// Running is a control plane that is up.
type Running struct {
	// URL is where this machine reaches API and supervisor.
	URL string
	// Token lets the node of this process join, in K10 form. It is the
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
}

// Plan is a control plane that can start: Prepare refuses what can be refused
// without a trace, MakeFiles writes what the components read, Start runs them.
type Plan struct {
	cfg       *config.Server
	dir       string // <data-dir>/server
	url       string
	advertise net.IP
	sans      []string // names and addresses of the API
	pki       *pki.Files
	tokens    *jointoken.ServerTokens
	files     *files
	store     datastore.Datastore
	pool      *sharing.Pool
	log       *logrus.Entry
	first     bool

	certificates *certificates
}

// Start is Prepare, MakeFiles and Plan.Start in one.
func Start(ctx context.Context, group *component.Group, cfg *config.Server, nodeIP net.IP) (*Running, error) {
	p, err := Prepare(ctx, cfg, nodeIP)
	if err != nil {
		return nil, err
	}
	if err := p.MakeFiles(); err != nil {
		return nil, err
	}
	return p.Start(ctx, group)
}

// Prepare checks settings, machine and datastore and changes nothing. cfg must
// be complete and valid. nodeIP is the address of this machine that others
// reach it at.
func Prepare(ctx context.Context, cfg *config.Server, nodeIP net.IP) (*Plan, error) {
	p := &Plan{cfg: cfg, dir: filepath.Join(cfg.Agent.DataDir, "server"), advertise: nodeIP, pool: sharing.New(), log: logrus.WithField("component", "server")}
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
	if p.store, err = newEtcd(p); err != nil {
		return nil, err
	}
	if err := p.validateArgs(); err != nil {
		return nil, err
	}
	if err := preflight.FreeSpace(cfg.Agent.DataDir, minFree); err != nil {
		return nil, err
	}
	if err := preflight.Ports(
		preflight.Port{Address: cfg.BindAddress, Port: cfg.HTTPSListenPort, What: "API server and supervisor", Flag: "--https-listen-port"},
		preflight.Port{Address: "127.0.0.1", Port: etcd.ClientPort, What: "datastore clients"},
		preflight.Port{Address: "127.0.0.1", Port: etcd.PeerPort, What: "datastore peers"},
		preflight.Port{Address: "127.0.0.1", Port: etcd.HTTPPort, What: "datastore health and metrics"},
	); err != nil {
		return nil, err
	}
	return p, p.store.Check(ctx)
}

// MakeFiles makes on the first start, and checks on every other, certificates,
// tokens and what else the components read.
func (p *Plan) MakeFiles() error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return fmt.Errorf("making %s: %w", p.dir, err)
	}
	_, err := os.Stat(p.pki.Dir)
	p.first = os.IsNotExist(err)
	if p.first {
		p.log.Infof("First start: making certificates and tokens below %s", p.dir)
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
	if err := controllers.Validate(p.controllers()); err != nil {
		return err
	}
	return scheduler.Validate(p.scheduler())
}

// Start runs the components in the order of their dependencies and returns
// when the API serves and its controllers run.
func (p *Plan) Start(ctx context.Context, group *component.Group) (*Running, error) {
	group.Start(ctx, idleMemory())
	group.Start(ctx, p.certificates.component())
	if err := group.StartAndWait(ctx, p.store.Component()); err != nil {
		return nil, err
	}
	admin := p.restConfig(p.pki.Admin)
	client, err := kubernetes.NewForConfig(p.restConfig(p.pki.Supervisor))
	if err != nil {
		return nil, fmt.Errorf("making the supervisor's client: %w", err)
	}
	addresses := supervisor.NewAddresses(client)
	sup, err := p.supervisor(client, addresses, group)
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
	for _, c := range spaces.components() {
		group.Start(ctx, c)
	}
	credentials := supervisor.NewNodeCredentials(client, p.log)
	group.Start(ctx, component.Component{Name: "node-credentials", Run: func(ctx context.Context, ready func()) error {
		ready()
		return credentials.Run(ctx)
	}})
	group.Start(ctx, component.Component{Name: "pod-addresses", Run: func(ctx context.Context, ready func()) error {
		ready()
		return addresses.Run(ctx)
	}})
	if !p.cfg.DisableScheduler {
		group.Start(ctx, scheduler.New(p.scheduler()))
	}
	group.Start(ctx, aggregation.New(admin, p.pool))
	group.Start(ctx, tenants.New(tenants.Options{Config: admin, Contents: spaces.limits, ClusterDomain: p.cfg.ClusterDomain, DefaultTenant: p.cfg.DefaultTenant, Log: p.log}))
	group.Start(ctx, deploy.New(deploy.Options{Config: admin, FS: manifests.FS, Values: deploy.Values{ClusterDNS: p.cfg.ClusterDNS}, Log: p.log}))
	if err := group.StartAndWait(ctx, controllers.New(p.controllers())); err != nil {
		return nil, err
	}
	for _, name := range []string{"manifests", tenants.Name} {
		if err := group.Wait(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := p.startSnapshots(ctx, group); err != nil {
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
	}, nil
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

// status is what the supervisor tells administrators about this process.
func (p *Plan) status(group *component.Group) join.ServerStatus {
	st := join.ServerStatus{Version: version.Version, Kubernetes: version.Kubernetes}
	for _, s := range group.States() {
		st.Components = append(st.Components, join.ComponentStatus{
			Name: s.Name, Ready: s.Ready, Restarts: s.Restarts, LastError: s.LastError, Since: s.Since.UTC().Format(time.RFC3339),
		})
	}
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
	s, err := etcd.New(etcd.Options{
		Dir:           filepath.Join(p.dir, "db", "etcd"),
		Name:          etcd.LocalMember,
		CertFile:      f.EtcdServer.Cert,
		KeyFile:       f.EtcdServer.Key,
		TrustedCAFile: f.EtcdServerCA.Cert,
		PeerCertFile:  f.EtcdPeer.Cert, PeerKeyFile: f.EtcdPeer.Key, PeerTrustedCAFile: f.EtcdPeerCA.Cert,
		Args: p.cfg.EtcdArgs,
		Zap:  logging.Zap(logging.Options{Debug: p.cfg.Agent.Debug, Verbosity: p.cfg.Agent.Verbosity}),
		Log:  logrus.WithField("component", "etcd"),
	})
	if err != nil {
		return nil, err
	}
	return etcdStore{Server: s, files: f}, nil
}

// supervisor serves the join API on the port of the API server.
func (p *Plan) supervisor(client kubernetes.Interface, addresses *supervisor.Addresses, group *component.Group) (*supervisor.Supervisor, error) {
	serverCA, err := pki.LoadAuthority(p.pki.ServerCA)
	if err != nil {
		return nil, err
	}
	clientCA, err := pki.LoadAuthority(p.pki.ClientCA)
	if err != nil {
		return nil, err
	}
	return supervisor.New(supervisor.Options{
		ServerCA: serverCA.WithLife(p.life()),
		ClientCA: clientCA.WithLife(p.life()),
		Renew:    p.certificates.renewAll,
		Tokens:   p.tokens,
		Secrets:  supervisor.NewSecrets(client.CoreV1()),
		Config: join.ClusterConfig{
			ClusterCIDR: p.cfg.ClusterCIDR, ServiceCIDR: p.cfg.ServiceCIDR,
			ClusterDNS: p.cfg.ClusterDNS, ClusterDomain: p.cfg.ClusterDomain,
			FlannelBackend: p.cfg.FlannelBackend,
			Version:        version.Version, Kubernetes: version.Kubernetes,
		},
		Addresses: addresses,
		Status:    func() join.ServerStatus { return p.status(group) },
		// With --disable-agent, too: the server may run in a pod of that node.
		LocalNode:    p.cfg.Agent.NodeName,
		ReservedSANs: p.sans,
	}), nil
}
