package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/join"
	"github.com/a4s-io/a4s/server/cluster/members"
	"github.com/a4s-io/a4s/server/cluster/settings"
	"github.com/a4s-io/a4s/server/datastore"
)

// resetFlag is in the directory of the datastore after a reset, until the
// server has started in the normal way: a service manager that starts it again
// and again must not reset again and again.
const resetFlag = "reset-flag"

// peers is what one server of several has to do with the others.
type peers struct {
	cfg *config.Server
	dir string // <data-dir>/server
	// clustered says that the datastore has, or may have, other members.
	clustered bool
	// shared is the etcd of others that servers share, nil for none.
	shared *dsn.Endpoint
	// known says that a server without a member knows those of the others.
	known bool
	// token is set on a server that joins at this start.
	token *jointoken.Token
	// bundle is what a running server sent.
	bundle *joinapi.ServerBundle
}

// etcdDir is where embedded etcd has its data.
func etcdDir(serverDir string) string { return filepath.Join(serverDir, "db", "etcd") }

// prepare finds out whether this server is one of several and whether it
// has to join them.
func (p *peers) prepare() error {
	e, err := dsn.Parse(p.cfg.DatastoreEndpoint)
	switch {
	case err == nil && e.Kind == dsn.Etcd:
		return p.prepareShared(e)
	case err != nil || e.Kind != dsn.Embedded:
		return p.refuse() // newStore says what is wrong with the endpoint
	}
	disk, err := etcd.ReadDisk(etcdDir(p.dir))
	if err != nil {
		disk = &etcd.Disk{} // there is something; the check of the datastore says what is wrong
	}
	if done, err := p.prepareMemberless(disk); done || err != nil {
		return err
	}
	p.clustered = p.cfg.ClusterInit || len(p.cfg.JoinURLs) > 0 || disk.Clustered()
	if p.cfg.ClusterReset {
		return p.checkReset(disk)
	}
	if disk != nil || len(p.cfg.JoinURLs) == 0 {
		return nil
	}
	return p.needToken()
}

// several reports whether there are, or may be, other servers.
func (p *peers) several() bool { return p.clustered || p.shared != nil }

// prepareMemberless is prepare for a server that uses the embedded etcd of others, and
// refuses to lose sight of it.
func (p *peers) prepareMemberless(disk *etcd.Disk) (done bool, err error) {
	known, err := datastore.UsesMembers(p.dir)
	switch {
	case err != nil:
		return true, err
	case p.cfg.DisableEtcd && disk != nil:
		return true, &problem.Precondition{What: "--disable-etcd",
			Err: fmt.Errorf("this server has a member of the datastore, in %s", etcdDir(p.dir)),
			Fix: "start it without --disable-etcd; or stop it, remove its member on another server " +
				"(a4s etcd-member remove NAME) and move that directory away"}
	case p.cfg.DisableEtcd:
		p.clustered, p.known = true, known
		// It asks at each start: what servers share may have changed while it was away.
		return true, p.needToken()
	case known && disk == nil && len(p.cfg.JoinURLs) == 0:
		return true, &problem.Precondition{What: "datastore of this server",
			Err: errors.New("it has been that of other servers so far (--disable-etcd), and now it would be a new " +
				"and empty one"),
			Fix: "start with --disable-etcd and --server, or with --server to get a member; to begin a new cluster " +
				"move " + p.dir + " away"}
	}
	return false, nil
}

// prepareShared is prepare with an etcd that any number of servers can share. A server
// that does not know yet whose it is joins one that does.
func (p *peers) prepareShared(e *dsn.Endpoint) error {
	for _, f := range []struct {
		flag string
		set  bool
	}{{"--cluster-init", p.cfg.ClusterInit}, {"--cluster-reset", p.cfg.ClusterReset}} {
		if f.set {
			return &problem.Input{Source: f.flag,
				Err:  errors.New("--datastore-endpoint names an etcd that somebody else runs"),
				Want: "no " + f.flag + "; further servers join with --server and the same --datastore-endpoint"}
		}
	}
	p.shared = e
	record, err := datastore.ReadRecord(p.dir)
	if err != nil || record.Cluster != "" || len(p.cfg.JoinURLs) == 0 {
		return err
	}
	return p.needToken()
}

// needToken reads the token with which this server joins.
func (p *peers) needToken() error {
	text := p.cfg.Token
	var err error
	if text == "" {
		// Perhaps only its datastore is gone.
		if text, err = jointoken.ReadFile(jointoken.ServerFile,
			filepath.Join(p.dir, jointoken.ServerFile)); err != nil {
			text = ""
		}
	}
	token, err := join.ParseToken(text)
	if err != nil {
		return err
	}
	p.token = &token
	return nil
}

// refuse refuses what a datastore behind kine cannot do.
func (p *peers) refuse() error {
	for _, f := range []struct {
		flag string
		set  bool
	}{{"--cluster-init", p.cfg.ClusterInit}, {"--server", len(p.cfg.JoinURLs) > 0},
		{"--cluster-reset", p.cfg.ClusterReset}} {
		if f.set {
			return &problem.Input{
				Source: f.flag,
				Err:    errors.New("--datastore-endpoint names a datastore that servers cannot share"),
				Want:   "embedded etcd or an etcd for several servers",
			}
		}
	}
	return nil
}

func (p *peers) checkReset(disk *etcd.Disk) error {
	if disk == nil {
		return &problem.Precondition{What: "--cluster-reset",
			Err: fmt.Errorf("there is no datastore in %s", etcdDir(p.dir)), Fix: "run it on a server that has data"}
	}
	if _, err := os.Stat(p.resetFlag()); err == nil {
		return &problem.Precondition{What: "--cluster-reset", Err: errors.New("the last start was a reset already"),
			Fix: "start the server without --cluster-reset; to reset again nevertheless, remove " + p.resetFlag()}
	}
	return nil
}

func (p *peers) resetFlag() string { return filepath.Join(filepath.Dir(etcdDir(p.dir)), resetFlag) }

// fetchShared asks a running server for what all servers share.
func (p *peers) fetchShared(ctx context.Context, f *files, log *logrus.Entry) error {
	if p.token == nil {
		return nil
	}
	log = log.WithField("component", "join")
	bundle, err := p.fetch(ctx, log)
	if err != nil || bundle == nil {
		return err
	}
	p.bundle = bundle
	if err := pki.InstallShared(f.pki.Dir, bundle.PKI); err != nil {
		return err
	}
	if len(bundle.Encryption) > 0 {
		if err := os.MkdirAll(filepath.Dir(f.encryption), 0o700); err != nil {
			return err
		}
		if err := atomicfile.Write(f.encryption, bundle.Encryption, 0o600); err != nil {
			return fmt.Errorf("writing the encryption configuration: %w", err)
		}
	}
	// They may have been replaced since this machine was a server before.
	for _, name := range []string{jointoken.ServerFile, jointoken.AgentFile} {
		if err := os.Remove(filepath.Join(p.dir, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if p.shared != nil {
		// The last: without it the server joins again.
		if err := datastore.Join(p.dir, p.shared, bundle.Cluster); err != nil {
			return err
		}
	}
	log.Info("Got what all servers of the cluster share")
	return nil
}

// againTimeout bounds how long a server that could do without asks what servers share.
const againTimeout = 10 * time.Second

// fetch returns nil if nobody answers a server that has it from an earlier start. One that answers, and has other
// settings, is right.
func (p *peers) fetch(ctx context.Context, log *logrus.Entry) (*joinapi.ServerBundle, error) {
	agree := settings.OfServers(p.cfg)
	if p.known {
		// What may change does so on one server after the other.
		agree = settings.OfServersForGood(p.cfg)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, againTimeout)
		defer cancel()
	}
	bundle, err := join.Fetch(ctx,
		join.Options{URLs: p.cfg.JoinURLs, Token: *p.token, Settings: agree,
			Shared: p.shared != nil, Log: log})
	if err != nil && p.known && !errors.Is(err, join.ErrDiffers) {
		log.WithError(err).Warn("Starting with what servers shared at the last start")
		return nil, nil
	}
	return bundle, err
}

// sharedTokens are the passwords to start with: those of the cluster when this
// server joins it.
func sharedTokens(cfg *config.Server, b *joinapi.ServerBundle) (server, agent string, err error) {
	if b == nil {
		return cfg.Token, cfg.AgentToken, nil
	}
	if cfg.AgentToken != "" {
		own, err := jointoken.Parse("--agent-token", cfg.AgentToken)
		if err != nil {
			return "", "", err
		}
		if own.Password != b.AgentToken {
			return "", "", &problem.Input{Source: "--agent-token", Err: errors.New("the cluster has another one"),
				Want: "none, or the same on all servers"}
		}
	}
	return b.ServerToken, b.AgentToken, nil
}

// started forgets an earlier reset.
func (p *peers) started() error {
	if err := os.Remove(p.resetFlag()); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// HoldMember ties the Node of this process to its member of the datastore:
// deleting the one removes the other.
func (r *Running) HoldMember(ctx context.Context, node string) error {
	if !r.clustered {
		return nil
	}
	client, err := kubernetes.NewForConfig(r.Admin)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := members.Hold(ctx, client, node); err != nil {
		return fmt.Errorf("tying node %s to its datastore: %w", node, err)
	}
	return nil
}
