package server

import (
	"context"
	"net"
	"path/filepath"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/transport"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/server/cluster/election"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/controlplane/controllers"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/controlplane/scheduler"
	"github.com/a4s-io/a4s/server/partition"
	"github.com/a4s-io/a4s/server/tenancy"
)

// upstream makes the options of upstream's programs.
type upstream struct {
	cfg       *config.Server
	files     *files
	addresses *addresses
	store     *store
	partition *partition.Own
	pool      *interning.Pool
	log       *logrus.Entry
	// wrap changes the transports of controllers and scheduler; nil leaves them.
	wrap transport.WrapperFunc
	// nodes and spaces are nil until the server serves.
	nodes  *partition.Nodes
	spaces *tenancy.Spaces
}

// validate refuses bad arguments before anything starts.
func (u *upstream) validate() error {
	if err := apiserver.Validate(u.apiserver(apiserver.Seams{})); err != nil {
		return err
	}
	o := u.controllers(nil)
	if err := controllers.Validate(o); err != nil {
		return err
	}
	if err := u.partition.Validate(o); err != nil {
		return err
	}
	return scheduler.Validate(u.scheduler(nil))
}

// check refuses what validate cannot see before the files of the server are there.
func (u *upstream) check(ctx context.Context) error {
	return apiserver.Check(ctx, u.apiserver(apiserver.Seams{}))
}

// CheckArguments refuses what a server would refuse of arguments for the API server, and of
// the files that they name, without a server. auditPolicy is the file of --audit-policy-file.
func CheckArguments(args []string, auditPolicy string) error {
	d, err := config.DefaultServer()
	if err != nil {
		return err
	}
	return apiserver.Validate(apiserver.Options{
		Port: d.HTTPSListenPort, AdvertiseAddress: net.IPv4(127, 0, 0, 1), ServiceCIDR: d.ServiceCIDR,
		ServiceNodePortRange: d.ServiceNodePortRange, ClusterDomain: d.ClusterDomain,
		Args: args, Files: apiserver.Files{AuditPolicy: auditPolicy, AuditLog: "-"},
	})
}

// apiserver are the options of the API server.
func (u *upstream) apiserver(seams apiserver.Seams) apiserver.Options {
	t := u.files.pki
	return apiserver.Options{
		BindAddress:          u.cfg.BindAddress,
		Port:                 u.cfg.HTTPSListenPort,
		AdvertiseAddress:     u.addresses.advertise,
		ExternalHost:         u.addresses.external,
		ServiceCIDR:          u.cfg.ServiceCIDR,
		ServiceNodePortRange: u.cfg.ServiceNodePortRange,
		ClusterDomain:        u.cfg.ClusterDomain,
		Datastore:            u.store.Endpoint(),
		Seams:                seams,
		Args:                 u.cfg.KubeAPIServerArgs,
		Log:                  u.log,
		Files: apiserver.Files{
			ClientCA:    t.ClientCA.Cert,
			ServingCert: t.ServingAPIServer.Cert, ServingKey: t.ServingAPIServer.Key,
			KubeletCA:         t.ServerCA.Cert,
			KubeletClientCert: t.APIServerKubeletClient.Cert, KubeletKey: t.APIServerKubeletClient.Key,
			RequestHeaderCA: t.RequestHeaderCA.Cert,
			ProxyClientCert: t.AuthProxy.Cert, ProxyClientKey: t.AuthProxy.Key,
			ServiceAccountKey: t.ServiceAccountKey,
			EncryptionConfig:  u.files.encryption,
			AuditPolicy:       u.files.auditPolicy,
			AuditLog:          u.cfg.AuditLogPath,
			CertDir:           filepath.Join(u.files.dir, "tls", "upstream"),
		},
	}
}

// controllers are the options of the controller manager; leader is nil on the only
// server.
func (u *upstream) controllers(leader *election.Election) controllers.Options {
	t := u.files.pki
	o := controllers.Options{
		Kubeconfig:        u.files.controllerKubeconfig,
		ClusterCIDR:       u.cfg.ClusterCIDR,
		ServiceCIDR:       u.cfg.ServiceCIDR,
		VolumePluginDir:   filepath.Join(u.files.dir, "volumeplugins"),
		ServiceAccountKey: t.ServiceAccountKey,
		RootCA:            t.ServerCA.Cert,
		ClientCACert:      t.ClientCASigner, ClientCAKey: t.ClientCA.Key,
		ServerCACert: t.ServerCASigner, ServerCAKey: t.ServerCA.Key,
		Args: u.cfg.KubeControllerManagerArgs,
		Wrap: u.wrap,
		Pool: u.pool,
		Log:  u.log,
	}
	u.partition.Controllers(&o)
	if u.nodes != nil {
		o.PodGC = u.nodes.MayCollect
	}
	// Our own signs certificates of kubelets.
	o.WithoutKubeletClients = true
	if leader != nil {
		o.Await = leader.Await
	}
	return o
}

// scheduler are the options of the scheduler; leader is nil on the only server.
func (u *upstream) scheduler(leader *election.Election) scheduler.Options {
	o := scheduler.Options{Kubeconfig: u.files.schedulerKubeconfig, Args: u.cfg.KubeSchedulerArgs,
		Wrap: u.wrap, Pool: u.pool, Log: u.log}
	if leader != nil {
		o.Await = leader.Await
	}
	if u.nodes != nil && u.spaces != nil {
		o.Plugins = func() []scheduler.Plugin { return append(u.spaces.Plugins(), u.nodes.Plugins()...) }
	}
	return o
}
