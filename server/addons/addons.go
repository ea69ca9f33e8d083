package addons

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/addons/charts"
	"github.com/a4s-io/a4s/server/addons/charts/confined"
	"github.com/a4s-io/a4s/server/addons/ingress"
	"github.com/a4s-io/a4s/server/addons/localstorage"
	"github.com/a4s-io/a4s/server/addons/servicelb"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// Addons are the controllers that a server has besides upstream's, and that
// --disable leaves out.
type Addons struct {
	storage *localstorage.Storage // nil if it is left out
	// balancer gives Services addresses, or takes back what it gave.
	balancer component.Component
	charts   *component.Component // nil if they are left out
}

// Partitions are those of the cluster.
type Partitions interface {
	// Self is the partition of this server.
	Self() string
	// NodePorts are the ranges of the others.
	NodePorts() []utilnet.PortRange
}

// Access is how add-ons reach the API.
type Access struct {
	// Internal is the server itself, which has all rights.
	Internal *rest.Config
	// Admin is the administrator, whose rights charts have.
	Admin *rest.Config
	// Dialer connects to what a tenant names, and ClientCA signs for what acts as a tenant's administrator.
	Dialer   func(tenant string) confined.Dial
	ClientCA func() (*pki.CA, error)
}

// New makes what is not left out.
func New(cfg *config.Server, access Access, pool *interning.Pool, partitions Partitions) (*Addons, error) {
	c, admin := &Addons{}, access.Internal
	if !cfg.DisableHelmController {
		installer := charts.New(charts.Options{Config: access.Internal, Admin: access.Admin,
			Dialer: access.Dialer, ClientCA: access.ClientCA,
			Static: filepath.Join(cfg.Agent.DataDir, "server", "static"),
			Log:    logrus.WithField("component", charts.Name)})
		c.charts = &installer
	}
	if !cfg.Disabled(config.AddonLocalStorage) {
		client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(admin), localstorage.Name))
		if err != nil {
			return nil, fmt.Errorf("making the client of %s: %w", localstorage.Name, err)
		}
		c.storage = localstorage.New(localstorage.Options{
			Client: client, Path: cfg.DefaultLocalStoragePath, Pool: pool,
			Log: logrus.WithField("component", localstorage.Name),
		})
	}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(admin), servicelb.Name))
	if err != nil {
		return nil, fmt.Errorf("making the client of %s: %w", servicelb.Name, err)
	}
	lb := servicelb.Options{Client: client, Rules: LoadBalancerRules(cfg, partitions), Partition: partitions.Self(),
		Pool: pool, Log: logrus.WithField("component", servicelb.Name)}
	if lb.Rules != nil {
		c.balancer = servicelb.New(lb)
	} else {
		c.balancer = servicelb.NewRemoval(lb)
	}
	return c, nil
}

// Ports of nodes besides those with flags of their own: SSH is the operator's,
// see --servicelb-reserved-ports.
const (
	kubeletPort       = 10250
	kubeletHealthPort = 10248
	proxyMetricsPort  = 10249
	proxyHealthPort   = 10256
	vxlanPort         = 8472
)

// LoadBalancerRules are the ports that Services do not get at addresses of
// nodes; nil if they get no addresses.
func LoadBalancerRules(cfg *config.Server, partitions Partitions) *servicelb.Rules {
	if cfg.Disabled(config.AddonServiceLB) {
		return nil
	}
	rules := &servicelb.Rules{Others: partitions.NodePorts, Used: []int32{
		int32(cfg.HTTPSListenPort), etcd.ClientPort, etcd.PeerPort, etcd.HTTPPort,
		kubeletPort, kubeletHealthPort, proxyMetricsPort, proxyHealthPort, vxlanPort,
	}}
	if !cfg.Disabled(config.AddonIngress) {
		rules.Ingress = []servicelb.Port{{Protocol: corev1.ProtocolTCP, Number: ingress.HTTPPort},
			{Protocol: corev1.ProtocolTCP, Number: ingress.HTTPSPort}}
	}
	// Validated with the flags.
	for _, text := range cfg.ServiceLBReservedPorts {
		port, _ := strconv.ParseUint(text, 10, 16)
		rules.Used = append(rules.Used, int32(port))
	}
	first, last, _ := strings.Cut(cfg.ServiceNodePortRange, "-")
	from, _ := strconv.ParseUint(first, 10, 16)
	to, _ := strconv.ParseUint(last, 10, 16)
	rules.First, rules.Last = int32(from), int32(to)
	return rules
}

// Storage are the local volumes, nil if they are left out.
func (c *Addons) Storage() *localstorage.Storage { return c.storage }

// Components are what runs; only makes of a component one that runs on one of
// several servers.
func (c *Addons) Components(only func(component.Component) component.Component) []component.Component {
	var out []component.Component
	if c.storage != nil {
		out = append(out, c.storage.Component(), only(c.storage.Provisioner()))
	}
	if c.charts != nil {
		out = append(out, only(*c.charts))
	}
	return append(out, only(c.balancer))
}
