package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/join"
	"github.com/a4s-io/a4s/server/cluster/members"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/server/nodeapi"
)

// resetFlag is in the directory of the datastore after a reset, until the
// server has started in the normal way: a service manager that starts it again
// and again must not reset again and again.
const resetFlag = "reset-flag"

// peers is what one server of several has to do with the others.
type peers struct {
	// clustered says that the datastore has, or may have, other members.
	clustered bool
	// token is set on a server that joins at this start.
	token *jointoken.Token
	// bundle is what a running server sent.
	bundle *joinapi.ServerBundle
}

func (p *Plan) etcdDir() string { return filepath.Join(p.dir, "db", "etcd") }

// preparePeers finds out whether this server is one of several and whether it
// has to join them.
func (p *Plan) preparePeers() error {
	if e, err := dsn.Parse(p.cfg.DatastoreEndpoint); err != nil || e.Kind != dsn.Embedded {
		return p.refusePeers() // newStore says what is wrong with the endpoint
	}
	disk, err := etcd.ReadDisk(p.etcdDir())
	if err != nil {
		disk = &etcd.Disk{} // there is something; the check of the datastore says what is wrong
	}
	p.peers.clustered = p.cfg.ClusterInit || len(p.cfg.JoinURLs) > 0 || disk.Clustered()
	if p.cfg.ClusterReset {
		return p.checkReset(disk)
	}
	if disk != nil || len(p.cfg.JoinURLs) == 0 {
		return nil
	}
	text := p.cfg.Token
	if text == "" {
		// Perhaps only its datastore is gone.
		if text, err = jointoken.ReadFile(jointoken.ServerFile, filepath.Join(p.dir, jointoken.ServerFile)); err != nil {
			text = ""
		}
	}
	token, err := join.ParseToken(text)
	if err != nil {
		return err
	}
	p.peers.token = &token
	return nil
}

// refusePeers refuses what only servers with embedded etcd can do.
func (p *Plan) refusePeers() error {
	for _, f := range []struct {
		flag string
		set  bool
	}{{"--cluster-init", p.cfg.ClusterInit}, {"--server", len(p.cfg.JoinURLs) > 0}, {"--cluster-reset", p.cfg.ClusterReset}} {
		if f.set {
			return &problem.Input{Source: f.flag, Err: errors.New("--datastore-endpoint names a datastore that is not this server's own"), Want: "one of the two"}
		}
	}
	return nil
}

func (p *Plan) checkReset(disk *etcd.Disk) error {
	if disk == nil {
		return &problem.Precondition{What: "--cluster-reset", Err: fmt.Errorf("there is no datastore in %s", p.etcdDir()), Fix: "run it on a server that has data"}
	}
	if _, err := os.Stat(p.resetFlag()); err == nil {
		return &problem.Precondition{What: "--cluster-reset", Err: errors.New("the last start was a reset already"),
			Fix: "start the server without --cluster-reset; to reset again nevertheless, remove " + p.resetFlag()}
	}
	return nil
}

func (p *Plan) resetFlag() string { return filepath.Join(filepath.Dir(p.etcdDir()), resetFlag) }

// fetchShared asks a running server for what all servers share.
func (p *Plan) fetchShared(ctx context.Context) error {
	if p.peers.token == nil {
		return nil
	}
	log := p.log.WithField("component", "join")
	bundle, err := join.Fetch(ctx, join.Options{URLs: p.cfg.JoinURLs, Token: *p.peers.token, Settings: p.settings(), Log: log})
	if err != nil {
		return err
	}
	p.peers.bundle = bundle
	if err := pki.InstallShared(p.pki.Dir, bundle.PKI); err != nil {
		return err
	}
	if len(bundle.Encryption) > 0 {
		if err := os.MkdirAll(filepath.Dir(p.files.encryption), 0o700); err != nil {
			return err
		}
		if err := atomicfile.Write(p.files.encryption, bundle.Encryption, 0o600); err != nil {
			return fmt.Errorf("writing the encryption configuration: %w", err)
		}
	}
	// They may have been replaced since this machine was a server before.
	for _, name := range []string{jointoken.ServerFile, jointoken.AgentFile} {
		if err := os.Remove(filepath.Join(p.dir, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	log.Info("Got what all servers of the cluster share")
	return nil
}

// sharedTokens are the passwords to start with: those of the cluster when this
// server joins it.
func (p *Plan) sharedTokens() (server, agent string, err error) {
	b := p.peers.bundle
	if b == nil {
		return p.cfg.Token, p.cfg.AgentToken, nil
	}
	if p.cfg.AgentToken != "" {
		own, err := jointoken.Parse("--agent-token", p.cfg.AgentToken)
		if err != nil {
			return "", "", err
		}
		if own.Password != b.AgentToken {
			return "", "", &problem.Input{Source: "--agent-token", Err: errors.New("the cluster has another one"), Want: "none, or the same on all servers"}
		}
	}
	return b.ServerToken, b.AgentToken, nil
}

// settings are those on which all servers of a cluster must agree.
func (p *Plan) settings() []joinapi.ServerSetting {
	c := p.cfg
	return []joinapi.ServerSetting{
		{Flag: "--cluster-cidr", Value: c.ClusterCIDR},
		{Flag: "--service-cidr", Value: c.ServiceCIDR},
		{Flag: "--service-node-port-range", Value: c.ServiceNodePortRange},
		{Flag: "--cluster-dns", Value: c.ClusterDNS},
		{Flag: "--cluster-domain", Value: c.ClusterDomain},
		{Flag: "--flannel-backend", Value: c.FlannelBackend},
		{Flag: "--default-tenant", Value: c.DefaultTenant},
		{Flag: "--secrets-encryption", Value: strconv.FormatBool(c.SecretsEncryption)},
	}
}

// bundle is what this server gives to one that joins.
func (p *Plan) bundle() (*joinapi.ServerBundle, error) {
	b := &joinapi.ServerBundle{Settings: p.settings(), ServerToken: p.tokens.Server().Password, AgentToken: p.tokens.Agent().Password}
	var err error
	if b.PKI, err = pki.ReadShared(p.pki.Dir); err != nil {
		return nil, fmt.Errorf("reading what servers share: %w", err)
	}
	if b.Encryption, err = os.ReadFile(p.files.encryption); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the encryption configuration: %w", err)
	}
	if m := p.members(); m != nil {
		for _, member := range m.Members() {
			if !member.Learner {
				b.Datastore = append(b.Datastore, member.ClientURLs...)
			}
		}
	}
	return b, nil
}

// members is the datastore as one whose members can change, nil if it is not.
func (p *Plan) members() members.Datastore {
	s, ok := p.store.(etcdStore)
	if !ok || !p.peers.clustered {
		return nil
	}
	return s.Server
}

// listMembers tells administrators of the members.
func (p *Plan) listMembers() []joinapi.Member {
	s, ok := p.store.(etcdStore)
	if !ok {
		return nil
	}
	var out []joinapi.Member
	for _, m := range s.Members() {
		one := joinapi.Member{Name: m.Name, ID: m.HexID(), Learner: m.Learner}
		if len(m.PeerURLs) > 0 {
			if u, err := url.Parse(m.PeerURLs[0]); err == nil {
				one.Address = u.Hostname()
			}
		}
		out = append(out, one)
	}
	return out
}

func (p *Plan) removeMember(ctx context.Context, name string) error {
	s, ok := p.store.(etcdStore)
	if !ok {
		return nodeapi.ErrNoMember
	}
	switch what, m := etcd.PlanRemoval(s.Members(), name); what {
	case etcd.RemoveMember:
		return s.RemoveMember(ctx, m.ID)
	case etcd.RemoveRefused:
		return nodeapi.ErrLastMember
	default:
		return nodeapi.ErrNoMember
	}
}

// serverSANs are names and addresses of all servers of the cluster.
func (p *Plan) serverSANs() []string {
	m := p.members()
	if m == nil {
		return nil
	}
	var out []string
	for _, member := range m.Members() {
		if member.Name != "" {
			out = append(out, member.Name)
		}
		for _, text := range member.PeerURLs {
			if u, err := url.Parse(text); err == nil {
				out = append(out, u.Hostname())
			}
		}
	}
	return out
}

// Reset makes this server the only one of its cluster, with the data that it
// has, and ends. The plan must not be started.
func Reset(ctx context.Context, p *Plan) error {
	if err := p.MakeFiles(ctx); err != nil {
		return err
	}
	store, ok := p.store.(etcdStore)
	if !ok {
		return &problem.Input{Source: "--cluster-reset", Err: errors.New("this server has no datastore of its own"), Want: "embedded etcd"}
	}
	if err := store.Reset(ctx); err != nil {
		return err
	}
	if err := atomicfile.Write(p.resetFlag(), nil, 0o600); err != nil {
		return err
	}
	logrus.Info("This server is the only one of its cluster now. Start it again without --cluster-reset")
	logrus.Infof("Every other server has to be stopped, its %s moved away, and to join again with --server", filepath.Dir(p.etcdDir()))
	return nil
}

// started forgets an earlier reset.
func (p *Plan) started() error {
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

var _ datastore.Datastore = etcdStore{}
