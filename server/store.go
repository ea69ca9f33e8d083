package server

import (
	"context"
	"errors"
	"net"
	"path/filepath"

	"github.com/sirupsen/logrus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/embedded/kine"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/logging"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/server/datastore/release"
	"github.com/a4s-io/a4s/server/tenancy/storage"
)

// store is the datastore of this server, and what is known of it.
type store struct {
	datastore.Datastore
	cfg      *config.Server
	files    *files
	peers    *peers
	node     net.IP
	endpoint *dsn.Endpoint
}

// newStore makes the datastore that --datastore-endpoint names.
func newStore(cfg *config.Server, f *files, p *peers, node net.IP) (*store, error) {
	s := &store{cfg: cfg, files: f, peers: p, node: node}
	e, err := dsn.Parse(cfg.DatastoreEndpoint)
	if err != nil {
		return nil, &problem.Input{Source: "--datastore-endpoint", Err: err, Want: dsn.Want}
	}
	s.endpoint = e
	reach := datastore.Endpoint{CAFile: cfg.DatastoreCAFile, CertFile: cfg.DatastoreCertFile,
		KeyFile: cfg.DatastoreKeyFile}
	switch e.Kind {
	case dsn.Embedded:
		if cfg.DisableEtcd {
			s.Datastore, err = s.newRemote()
		} else {
			s.Datastore, err = s.newEtcd()
		}
		return s, err
	case dsn.Etcd:
		s.Datastore = datastore.NewExternal(e, reach)
		return s, nil
	}
	if e.Kind == dsn.SQLite && e.Path == "" {
		e.SetPath(filepath.Join(f.dir, "db", "state.db"))
	}
	k, err := kine.New(kine.Options{
		Endpoint: e,
		Path:     e.Path,
		Socket:   filepath.Join(f.dir, "db", "kine.sock"),
		CAFile:   reach.CAFile, CertFile: reach.CertFile, KeyFile: reach.KeyFile,
		Log: logrus.WithField("component", "kine"),
	})
	s.Datastore = kineStore{k}
	return s, err
}

// etcdStore makes embedded etcd a datastore.Datastore.
type etcdStore struct {
	*etcd.Server
	files *pki.Files
}

// Endpoint implements datastore.Datastore.
func (s etcdStore) Endpoint() datastore.Endpoint {
	return datastore.Endpoint{URLs: []string{s.ClientURL()}, CAFile: s.files.EtcdServerCA.Cert,
		CertFile: s.files.EtcdClient.Cert, KeyFile: s.files.EtcdClient.Key}
}

func (s *store) newEtcd() (datastore.Datastore, error) {
	f := s.files.pki
	o := etcd.Options{
		Dir:           etcdDir(s.files.dir),
		Name:          etcd.LocalMember,
		CertFile:      f.EtcdServer.Cert,
		KeyFile:       f.EtcdServer.Key,
		TrustedCAFile: f.EtcdServerCA.Cert,
		PeerCertFile:  f.EtcdPeer.Cert, PeerKeyFile: f.EtcdPeer.Key, PeerTrustedCAFile: f.EtcdPeerCA.Cert,
		ClientCertFile: f.EtcdClient.Cert, ClientKeyFile: f.EtcdClient.Key,
		Reset: s.cfg.ClusterReset,
		Args:  s.cfg.EtcdArgs,
		Zap:   logging.Zap(logging.Options{Debug: s.cfg.Agent.Debug, Verbosity: s.cfg.Agent.Verbosity}),
		Log:   logrus.WithField("component", "etcd"),
	}
	if s.peers.clustered {
		o.Name, o.Address = s.cfg.Agent.NodeName, s.node.String()
	}
	if s.peers.token != nil {
		o.Join = s.cfg.JoinURLs // until it is known where the datastore is
	}
	server, err := etcd.New(o)
	if err != nil {
		return nil, err
	}
	return etcdStore{Server: server, files: f}, nil
}

// remoteStore makes the embedded etcd of other servers a datastore.Datastore.
type remoteStore struct {
	*etcd.Remote
	files *pki.Files
}

// Endpoint implements datastore.Datastore.
func (s remoteStore) Endpoint() datastore.Endpoint {
	return datastore.Endpoint{URLs: []string{s.ClientURL()}, CAFile: s.files.EtcdServerCA.Cert,
		CertFile: s.files.EtcdClient.Cert, KeyFile: s.files.EtcdClient.Key}
}

func (s *store) newRemote() (datastore.Datastore, error) {
	f := s.files.pki
	remote, err := etcd.NewRemote(etcd.RemoteOptions{
		File: datastore.MembersFile(s.files.dir), CAFile: f.EtcdServerCA.Cert,
		CertFile: f.EtcdClient.Cert, KeyFile: f.EtcdClient.Key, Log: logrus.WithField("component", "datastore"),
	})
	if err != nil {
		return nil, err
	}
	return remoteStore{Remote: remote, files: f}, nil
}

// kineStore makes kine a datastore.Datastore.
type kineStore struct{ *kine.Server }

// Endpoint implements datastore.Datastore.
func (s kineStore) Endpoint() datastore.Endpoint {
	return datastore.Endpoint{URLs: []string{s.URL()}}
}

// check finds out whether the datastore can start.
func (s *store) check(ctx context.Context) error {
	if err := datastore.CheckRecord(s.files.dir, s.endpoint); err != nil {
		return err
	}
	if err := release.Check(s.files.dir, release.Own()); err != nil {
		return err
	}
	return s.Check(ctx)
}

// start starts the datastore and makes sure that it is this server's.
// Embedded etcd cannot be another's: it is in the data directory.
func (s *store) start(ctx context.Context, group *component.Group) error {
	if err := group.StartAndWait(ctx, s.Component()); err != nil || s.endpoint.Kind == dsn.Embedded {
		return err
	}
	return datastore.Claim(ctx, s.files.dir, s.endpoint, s.Endpoint())
}

// connections are those of the API server to the datastore, which has to run if
// it is in this process.
func (s *store) connections() *storage.Connections {
	c := &storage.Connections{Group: s.cfg.ServiceGroupID}
	store, ok := s.etcd()
	if !ok {
		return c
	}
	if l := store.Local(); l != nil {
		c.Local = &storage.Local{Servers: store.Endpoint().URLs, Client: l.Client}
	}
	return c
}

// ports are those that the server listens on.
func (s *store) ports() []preflight.Port {
	ports := []preflight.Port{{Address: s.cfg.BindAddress, Port: s.cfg.HTTPSListenPort,
		What: "API server and supervisor", Flag: "--https-listen-port"}}
	if s.endpoint.Kind != dsn.Embedded {
		return ports
	}
	if s.cfg.DisableEtcd {
		return append(ports,
			preflight.Port{Address: "127.0.0.1", Port: etcd.ClientPort, What: "connections to the datastore"})
	}
	if s.peers.clustered {
		ports = append(ports,
			preflight.Port{Address: s.node.String(), Port: etcd.ClientPort, What: "datastore clients"},
			preflight.Port{Address: s.node.String(), Port: etcd.PeerPort, What: "datastore peers"})
	}
	return append(ports,
		preflight.Port{Address: "127.0.0.1", Port: etcd.ClientPort, What: "datastore clients"},
		preflight.Port{Address: "127.0.0.1", Port: etcd.PeerPort, What: "datastore peers"},
		preflight.Port{Address: "127.0.0.1", Port: etcd.HTTPPort, What: "datastore health and metrics"},
	)
}

// etcd is embedded etcd, if that is the datastore.
func (s *store) etcd() (etcdStore, bool) {
	e, ok := s.Datastore.(etcdStore)
	return e, ok
}

// open connects to the datastore as the API server does.
func (s *store) open() (*clientv3.Client, error) {
	return datastore.Dial(context.Background(), s.Endpoint())
}

// fill is what the limits of tenants have to know of the datastore, nil
// if that has no bound.
func (s *store) fill() func() (used, quota int64) {
	store, ok := s.Datastore.(roomy)
	if !ok {
		return nil
	}
	return func() (int64, int64) {
		room := store.Room()
		return room.InUse, room.Quota
	}
}

// join tells embedded etcd where the datastore is that it becomes a member of, or that
// it uses.
func (s *store) join(bundle *joinapi.ServerBundle) error {
	if bundle == nil {
		return nil
	}
	switch store := s.Datastore.(type) {
	case etcdStore:
		store.JoinAt(bundle.Datastore)
		// It has a member from now on.
		return datastore.ForgetMembers(s.files.dir)
	case remoteStore:
		return store.Learn(bundle.Datastore)
	}
	return nil
}

// reset makes embedded etcd the only member of its cluster.
func (s *store) reset(ctx context.Context) error {
	e, ok := s.etcd()
	if !ok {
		return &problem.Input{Source: "--cluster-reset", Err: errors.New("this server has no datastore of its own"),
			Want: "embedded etcd"}
	}
	return e.Reset(ctx)
}
