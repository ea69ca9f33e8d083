package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/problem"
)

// Ports on loopback, etcd's own.
const (
	ClientPort = 2379
	PeerPort   = 2380
	// HTTPPort serves health and metrics, to holders of a certificate.
	HTTPPort = 2382
)

// LocalMember is the name of the member that a server runs.
const LocalMember = "a4s"

// startTimeout bounds the time from start to the first linearizable read. A
// member that replays a large log on a slow disk needs minutes.
const startTimeout = 5 * time.Minute

// patience is after how long a member says that it waits for others.
const patience = 20 * time.Second

// Options configures an embedded member.
type Options struct {
	// Dir is the data directory, made with mode 0700.
	Dir string
	// Name is the member name; it must stay the same for one Dir.
	Name string
	// CertFile, KeyFile and TrustedCAFile serve clients and authenticate
	// them; the Peer files do the same between members.
	CertFile, KeyFile, TrustedCAFile             string
	PeerCertFile, PeerKeyFile, PeerTrustedCAFile string
	// ClientCertFile and ClientKeyFile are shown to other members.
	ClientCertFile, ClientKeyFile string
	// Address is where other members reach this one; empty is for a member
	// that has no others, and listens on loopback only.
	Address string
	// Join are client URLs of the cluster that a member without data becomes
	// part of; without any it begins a cluster of its own.
	Join []string
	// Reset is for a member of which Reset will be called.
	Reset bool
	// Args are user overrides, "name=value" with the names of etcd's flags.
	Args []string
	// Zap receives etcd's log.
	Zap *zap.Logger
	Log *logrus.Entry
}

// Server is one embedded etcd member.
type Server struct {
	peer
	running atomic.Pointer[embed.Etcd]
	local   *Local // set before running is
}

// New checks the options and returns a member that is not started yet.
func New(o Options) (*Server, error) {
	cfg, err := newConfig(o.Args, o.Address != "")
	if err != nil {
		return nil, err
	}
	cfg.Name = o.Name
	cfg.Dir = o.Dir
	client := url.URL{Scheme: "https", Host: fmt.Sprintf("127.0.0.1:%d", ClientPort)}
	peer := url.URL{Scheme: "https", Host: fmt.Sprintf("127.0.0.1:%d", PeerPort)}
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.ListenPeerUrls = []url.URL{peer}
	cfg.AdvertisePeerUrls = cfg.ListenPeerUrls
	if o.Address != "" {
		client.Host, peer.Host = fmt.Sprintf("%s:%d", o.Address, ClientPort), fmt.Sprintf("%s:%d", o.Address, PeerPort)
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = append(cfg.ListenClientUrls, client), []url.URL{client}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = append(cfg.ListenPeerUrls, peer), []url.URL{peer}
	}
	cfg.InitialCluster = cfg.InitialClusterFromName(o.Name)
	cfg.ClientTLSInfo = transport.TLSInfo{CertFile: o.CertFile, KeyFile: o.KeyFile, TrustedCAFile: o.TrustedCAFile,
		ClientCertAuth: true}
	// A peer may come from another of its addresses than the one it is reached
	// at; the certificate of the CA is what makes it one.
	cfg.PeerTLSInfo = transport.TLSInfo{CertFile: o.PeerCertFile, KeyFile: o.PeerKeyFile,
		TrustedCAFile: o.PeerTrustedCAFile, ClientCertAuth: true, SkipClientSANVerify: true}
	// gRPC on a port of its own is faster than sharing one with plain HTTP.
	cfg.ListenClientHttpUrls = []url.URL{{Scheme: "https", Host: fmt.Sprintf("127.0.0.1:%d", HTTPPort)}}
	if err := cfg.Validate(); err != nil {
		return nil, &problem.Input{Source: "--etcd-arg", Value: strings.Join(o.Args, " "), Err: err,
			Want: "settings that etcd accepts together"}
	}
	s := &Server{}
	s.opts, s.cfg = o, cfg
	return s, nil
}

// JoinAt sets the client URLs of the members that a server without data joins. It
// must be called before the component starts.
func (s *Server) JoinAt(urls []string) { s.opts.Join = urls }

// Name is that of the member.
func (s *Server) Name() string { return s.opts.Name }

// ClientURL is where clients reach the member.
func (s *Server) ClientURL() string { return s.cfg.ListenClientUrls[0].String() }

// peerURL is where other members reach the member.
func (s *peer) peerURL() string { return s.cfg.AdvertisePeerUrls[0].String() }

// Component returns the supervised member.
func (s *Server) Component() component.Component {
	return component.Component{Name: "etcd", Critical: true, Run: s.run}
}

// errFatal is what etcd said before it would have ended its process.
type errFatal struct {
	msg   string
	cause error // nil if etcd gave none
}

func (e *errFatal) Error() string { return "etcd: " + e.msg }

func (e *errFatal) Unwrap() error { return e.cause }

func (s *Server) run(ctx context.Context, ready func()) error {
	if err := os.MkdirAll(s.opts.Dir, 0o700); err != nil {
		return s.unusable(err)
	}
	if s.opts.Address == "" {
		return s.serve(ctx, ready)
	}
	for try := 1; ; try++ {
		if err := s.enter(ctx); err != nil {
			return err
		}
		err := s.serve(ctx, ready)
		// etcd asks any member who is one, and that one may not know yet.
		if err == nil || len(s.opts.Join) == 0 ||
			wal.Exist(filepath.Join(s.opts.Dir, "member", "wal")) || try == maxJoins {
			return err
		}
		s.opts.Log.WithError(err).Debug("could not start as a new member yet")
		if pause(ctx, retryPause) != nil {
			return nil
		}
	}
}

// maxJoins is how often a new member tries to start.
const maxJoins = 20

// serve starts the member and waits for its end.
func (s *Server) serve(ctx context.Context, ready func()) (err error) {
	s.tune()
	fatal := make(chan error, 1)
	hook := &fatalHook{fatal: fatal}
	level := zap.NewAtomicLevelAt(zap.ErrorLevel) // its start warns of its defaults
	s.cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(s.opts.Zap.WithOptions(zap.IncreaseLevel(level),
		zap.WithFatalHook(hook), zap.WithPanicHook(hook)))

	streams, endStreams := context.WithCancel(context.Background())
	defer endStreams()
	s.cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{endingStreams(streams)}
	e, err := s.start(fatal)
	if err != nil {
		return s.unusable(err)
	}
	began := false // it was ready to serve
	defer func() {
		var gone *errFatal
		if errors.As(err, &gone) || !began {
			abandon(e, began)
		} else {
			leave(e, endStreams)
		}
	}()
	level.SetLevel(zap.DebugLevel)
	defer level.SetLevel(zap.DPanicLevel) // it reports each listener that Close closes as an error

	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	if s.opts.Address != "" {
		timeout.Stop() // it waits for others, however long they take
		defer time.AfterFunc(patience, func() {
			select {
			case <-e.Server.ReadyNotify():
			default:
				s.opts.Log.Warn("The datastore still waits: most of its servers have to run. " +
					"If they are lost for good, start one with --cluster-reset")
			}
		}).Stop()
	}
	select {
	case <-e.Server.ReadyNotify():
	case err := <-fatal:
		return s.unusable(err)
	case err := <-e.Err():
		return s.unusable(err)
	case <-e.Server.StopNotify():
		return s.stopped(ctx, e)
	case <-timeout.C:
		return s.unusable(fmt.Errorf("not ready within %s", startTimeout))
	case <-ctx.Done():
		return nil
	}
	began = true
	if err := s.settle(ctx, e); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	callers := newGate()
	s.local = newLocal(e.Server, callers)
	s.running.Store(e)
	defer callers.close(localPatience)
	defer s.running.Store(nil)
	defer s.keepRoom(ctx, e)()
	ready()
	select {
	case err := <-fatal:
		return s.unusable(err)
	case err := <-e.Err():
		return s.unusable(err)
	case <-e.Server.StopNotify():
		return s.stopped(ctx, e)
	case <-ctx.Done():
		return nil
	}
}

// localPatience bounds how long a member that is to close waits for calls of
// this process.
const localPatience = time.Second

// start calls StartEtcd on a goroutine of its own, because what etcd calls
// fatal leaves the goroutine it happens on.
func (s *Server) start(fatal <-chan error) (*embed.Etcd, error) {
	type result struct {
		e   *embed.Etcd
		err error
	}
	done := make(chan result, 1)
	go func() {
		res := result{err: errAborted}
		defer func() {
			if p := recover(); p != nil {
				res = result{err: fmt.Errorf("etcd: %v", p)}
			}
			done <- res
		}()
		res.e, res.err = embed.StartEtcd(s.cfg)
	}()
	res := <-done
	if errors.Is(res.err, errAborted) {
		select {
		case res.err = <-fatal:
		default:
		}
	}
	return res.e, res.err
}

var errAborted = errors.New("etcd gave up without a reason")

// unusable says which directory is meant and what can be done about it.
func (s *peer) unusable(err error) error {
	p := &problem.Precondition{What: "datastore in " + s.opts.Dir, Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		p.Fix = "free some disk space"
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EIO):
		p.Fix = "look into dmesg, check the disk, and mount it for writing again"
	case errors.Is(err, syscall.EADDRINUSE):
		p.What = fmt.Sprintf("ports %d and %d on 127.0.0.1 (datastore)", ClientPort, PeerPort)
		p.Fix = "stop the process that holds them"
	default:
		p.Fix = "if the directory is damaged, move it away and bring a snapshot back with a4s etcd-snapshot restore"
	}
	return p
}

// fatalHook replaces zap's "write, then exit the process" and "write, then
// panic": it reports the message and ends only the goroutine.
type fatalHook struct{ fatal chan<- error }

// OnWrite implements zapcore.CheckWriteHook.
func (h *fatalHook) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	msg := ce.Message
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	if cause, ok := enc.Fields["error"]; ok {
		msg = fmt.Sprintf("%s: %v", msg, cause)
	}
	report := &errFatal{msg: strings.TrimSpace(msg)}
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			report.cause = cause
		}
	}
	select {
	case h.fatal <- report:
	default:
	}
	goexit()
}
