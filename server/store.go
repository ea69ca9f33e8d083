package server

import (
	"context"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/embedded/kine"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/server/datastore/release"
	"github.com/a4s-io/a4s/server/tenancy/storage"
)

// newStore makes the datastore that --datastore-endpoint names.
func newStore(p *Plan) (*dsn.Endpoint, datastore.Datastore, error) {
	e, err := dsn.Parse(p.cfg.DatastoreEndpoint)
	if err != nil {
		return nil, nil, &problem.Input{Source: "--datastore-endpoint", Err: err, Want: dsn.Want}
	}
	reach := datastore.Endpoint{CAFile: p.cfg.DatastoreCAFile, CertFile: p.cfg.DatastoreCertFile, KeyFile: p.cfg.DatastoreKeyFile}
	switch e.Kind {
	case dsn.Embedded:
		store, err := newEtcd(p)
		return e, store, err
	case dsn.Etcd:
		return e, datastore.NewExternal(e, reach), nil
	}
	if e.Kind == dsn.SQLite && e.Path == "" {
		e.SetPath(filepath.Join(p.dir, "db", "state.db"))
	}
	k, err := kine.New(kine.Options{
		Endpoint: e,
		Path:     e.Path,
		Socket:   filepath.Join(p.dir, "db", "kine.sock"),
		CAFile:   reach.CAFile, CertFile: reach.CertFile, KeyFile: reach.KeyFile,
		Log: logrus.WithField("component", "kine"),
	})
	return e, kineStore{k}, err
}

// kineStore makes kine a datastore.Datastore.
type kineStore struct{ *kine.Server }

// Endpoint implements datastore.Datastore.
func (s kineStore) Endpoint() datastore.Endpoint {
	return datastore.Endpoint{URLs: []string{s.URL()}}
}

// checkStore finds out whether the datastore can start.
func (p *Plan) checkStore(ctx context.Context) error {
	if err := datastore.CheckRecord(p.dir, p.endpoint); err != nil {
		return err
	}
	if err := release.Check(p.dir, release.Own()); err != nil {
		return err
	}
	return p.store.Check(ctx)
}

// startStore starts the datastore and makes sure that it is this server's.
// Embedded etcd cannot be another's: it is in the data directory.
func (p *Plan) startStore(ctx context.Context, group *component.Group) error {
	if err := group.StartAndWait(ctx, p.store.Component()); err != nil || p.endpoint.Kind == dsn.Embedded {
		return err
	}
	return datastore.Claim(ctx, p.dir, p.endpoint, p.store.Endpoint())
}

// connections are those of the API server to the datastore, which has to run if
// it is in this process.
func (p *Plan) connections() *storage.Connections {
	store, ok := p.store.(etcdStore)
	if !ok {
		return &storage.Connections{}
	}
	l := store.Local()
	if l == nil {
		return &storage.Connections{}
	}
	return &storage.Connections{Local: &storage.Local{Servers: store.Endpoint().URLs, Client: l.Client}}
}

// ports are those that the server listens on.
func (p *Plan) ports() []preflight.Port {
	ports := []preflight.Port{{Address: p.cfg.BindAddress, Port: p.cfg.HTTPSListenPort, What: "API server and supervisor", Flag: "--https-listen-port"}}
	if p.endpoint.Kind != dsn.Embedded {
		return ports
	}
	if p.peers.clustered {
		ports = append(ports,
			preflight.Port{Address: p.nodeIP.String(), Port: etcd.ClientPort, What: "datastore clients"},
			preflight.Port{Address: p.nodeIP.String(), Port: etcd.PeerPort, What: "datastore peers"})
	}
	return append(ports,
		preflight.Port{Address: "127.0.0.1", Port: etcd.ClientPort, What: "datastore clients"},
		preflight.Port{Address: "127.0.0.1", Port: etcd.PeerPort, What: "datastore peers"},
		preflight.Port{Address: "127.0.0.1", Port: etcd.HTTPPort, What: "datastore health and metrics"},
	)
}
