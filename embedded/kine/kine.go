package kine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/drivers/mysql"
	"github.com/k3s-io/kine/pkg/drivers/nats"
	"github.com/k3s-io/kine/pkg/drivers/pgsql"
	kineserver "github.com/k3s-io/kine/pkg/server"
	"github.com/k3s-io/kine/pkg/tls"
	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/rootsocket"
)

const (
	// emulated is the version of etcd whose protocol kine speaks: the API
	// server asks for it, and uses a consistent cache from 3.5.13 on.
	emulated = "3.7.3"
	// progressInterval is how often watches learn of the current revision.
	progressInterval = 5 * time.Second
	// closeTimeout bounds how long requests may take that are there at the end.
	closeTimeout = 2 * time.Second
	// maxSocket is what fits into the address of a unix socket.
	maxSocket = 107
	// requestOverhead is what a message has besides the object in it.
	requestOverhead = 512 << 10
)

// Settings of kine, its own defaults. Its compaction on a schedule is off, as
// it is by default: it compacts when the API server asks for it, as etcd does.
const (
	compactTimeout = 5 * time.Second
	compactRetain  = 1000 // revisions
	compactBatch   = 1000
	pollBatch      = 500
	pollInterval   = time.Second
	idleTime       = 2 * time.Minute
)

// Options configures a server.
type Options struct {
	// Endpoint is the database.
	Endpoint *dsn.Endpoint
	// Path is the file of SQLite.
	Path string
	// Socket is where it listens.
	Socket string
	// CAFile, CertFile and KeyFile are for TLS with the database.
	CAFile, CertFile, KeyFile string
	// ReclaimInterval is how often the file of SQLite is made smaller; 0 means
	// every five minutes, as often as the API server compacts.
	ReclaimInterval time.Duration
	// Retain is how many revisions no compaction takes; 0 means 1000.
	Retain int64
	Log    *logrus.Entry
}

// Server is one kine.
type Server struct {
	opts Options
	log  *logrus.Entry
}

// New returns a server that is not started yet.
func New(o Options) (*Server, error) {
	if len(o.Socket) > maxSocket {
		return nil, &problem.Input{Source: "--data-dir", Value: o.Socket,
			Err: errors.New("the path of the datastore's socket is too long"), Want: "a shorter path"}
	}
	if o.ReclaimInterval == 0 {
		o.ReclaimInterval = 5 * time.Minute
	}
	if o.Retain == 0 {
		o.Retain = compactRetain
	}
	return &Server{opts: o, log: o.Log}, nil
}

// URL is where clients in this process reach it.
func (s *Server) URL() string { return "unix://" + s.opts.Socket }

// Component returns the supervised server. A database that goes away later
// makes requests fail until it is back; it does not end the component.
func (s *Server) Component() component.Component {
	return component.Component{Name: "kine", Critical: true, Run: s.run}
}

func (s *Server) run(ctx context.Context, ready func()) (err error) {
	for _, file := range []string{s.opts.Socket, s.opts.Path} {
		if file == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return s.unusable(err)
		}
	}
	// The database is closed after the last request.
	var wg sync.WaitGroup
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		cancel()
		wg.Wait()
	}()
	started, backend, err := s.start(ctx, background, &wg)
	if err != nil || !started {
		return err
	}
	if s.opts.Endpoint.Kind == dsn.NATS {
		watched := onward{backend}
		if err := watched.settle(ctx); err != nil {
			return s.unusable(err)
		}
		backend = watched
	} else {
		backend = &remembering{Backend: backend}
	}
	listener, err := rootsocket.Listen(ctx, s.opts.Socket)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	g := newGRPC()
	(&bridge{kineserver.New(backend, "unix", progressInterval, emulated)}).register(g)
	go func() { served <- g.Serve(listener) }()
	s.log.Infof("The datastore is %s", s.opts.Endpoint)
	ready()
	select {
	case err := <-served:
		return s.unusable(err)
	case <-ctx.Done():
	}
	hard := time.AfterFunc(closeTimeout, g.Stop)
	defer hard.Stop()
	g.GracefulStop()
	<-served
	return nil
}

// start opens the database. kine itself looks only at its background, which
// has to outlive this call, so a stop meanwhile ends that.
func (s *Server) start(ctx, background context.Context, wg *sync.WaitGroup) (bool, kineserver.Backend, error) {
	within, cancel := context.WithCancel(background)
	release := context.AfterFunc(ctx, cancel)
	backend, err := s.open(within, wg)
	if err == nil {
		err = backend.Start(within)
	}
	if !release() {
		cancel()
		return false, nil, nil
	}
	if err != nil {
		cancel()
		return false, nil, s.unusable(err)
	}
	context.AfterFunc(background, cancel)
	return true, backend, nil
}

func (s *Server) open(ctx context.Context, wg *sync.WaitGroup) (kineserver.Backend, error) {
	e := s.opts.Endpoint
	cfg := &drivers.Config{
		Scheme: string(e.Kind), DataSourceName: e.Source, Endpoint: string(e.Kind) + "://" + e.Source,
		BackendTLSConfig:     tls.Config{CAFile: s.opts.CAFile, CertFile: s.opts.CertFile, KeyFile: s.opts.KeyFile},
		ConnectionPoolConfig: generic.ConnectionPoolConfig{MaxIdleTime: idleTime},
		CompactTimeout:       compactTimeout, CompactMinRetain: s.opts.Retain, CompactBatchSize: compactBatch,
		PollBatchSize: pollBatch, PollInterval: pollInterval,
	}
	var backend kineserver.Backend
	var err error
	switch e.Kind {
	case dsn.SQLite:
		backend, err = s.openSQLite(ctx, wg, cfg)
	case dsn.Postgres:
		_, backend, err = pgsql.New(ctx, wg, cfg)
	case dsn.MySQL:
		_, backend, err = mysql.New(ctx, wg, cfg)
	case dsn.NATS:
		_, backend, err = nats.New(ctx, wg, cfg)
	default:
		err = fmt.Errorf("kine has no datastore of kind %s", e.Kind)
	}
	if err == nil && e.Kind != dsn.NATS {
		err = makeOutspoken(backend)
	}
	return backend, err
}

// unusable says which database is meant, and keeps its password out.
func (s *Server) unusable(err error) error {
	return &problem.Precondition{What: s.What(), Err: s.opts.Endpoint.Safe(err),
		Fix: "look at what the database says about it"}
}

// What names the database in errors.
func (s *Server) What() string {
	return fmt.Sprintf("datastore %s (--datastore-endpoint)", s.opts.Endpoint)
}

// newGRPC is a server with the limits of an etcd.
func newGRPC() *grpc.Server {
	return grpc.NewServer(
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: embed.DefaultGRPCKeepAliveMinTime}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: embed.DefaultGRPCKeepAliveInterval,
			Timeout: embed.DefaultGRPCKeepAliveTimeout}),
		grpc.MaxConcurrentStreams(embed.DefaultMaxConcurrentStreams),
		grpc.MaxRecvMsgSize(embed.DefaultMaxRequestBytes+requestOverhead),
		grpc.MaxSendMsgSize(math.MaxInt32),
	)
}
