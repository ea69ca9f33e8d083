package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.uber.org/zap"

	"github.com/a4s-io/a4s/internal/problem"
)

const (
	// askTimeout bounds one request to another member.
	askTimeout = 5 * time.Second
	// changeTimeout bounds one change of the members.
	changeTimeout = 15 * time.Second
	// retryPause is between two tries to join or to be promoted.
	retryPause = time.Second
)

// peer is a member as the others know it: how it joins, leaves and finds them.
type peer struct {
	opts Options
	cfg  *embed.Config
}

// dial makes a client of some members.
func (s *peer) dial(endpoints []string) (*clientv3.Client, error) {
	tls, err := transport.TLSInfo{CertFile: s.opts.ClientCertFile, KeyFile: s.opts.ClientKeyFile,
		TrustedCAFile: s.opts.TrustedCAFile}.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the datastore's clients: %w", err)
	}
	return clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: tls, DialTimeout: askTimeout, Logger: zap.NewNop()})
}

func fromResponse(members []*etcdserverpb.Member) []Member {
	out := make([]Member, 0, len(members))
	for _, m := range members {
		out = append(out, Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs,
			Learner: m.IsLearner})
	}
	return out
}

func list(ctx context.Context, c *clientv3.Client) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := c.MemberList(ctx)
	if err != nil {
		return view{}, err
	}
	return view{cluster: r.Header.ClusterId, members: fromResponse(r.Members)}, nil
}

// answers says whether something listens where a member was.
func answers(m Member) bool {
	for _, text := range m.ClientURLs {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "127.0.0.1" {
			continue
		}
		if conn, err := net.DialTimeout("tcp", u.Host, askTimeout/2); err == nil {
			_ = conn.Close()
			return true
		}
	}
	return false
}

// clientURLs are where other machines reach members.
func clientURLs(members []Member) []string {
	var out []string
	for _, m := range members {
		for _, text := range m.ClientURLs {
			if u, err := url.Parse(text); err == nil && u.Hostname() != "127.0.0.1" {
				out = append(out, text)
			}
		}
	}
	return out
}

// enter prepares the membership before the member starts: one with data looks
// at how the others know it, one without joins if it was told to.
func (s *peer) enter(ctx context.Context) error {
	disk, err := ReadDisk(s.opts.Dir)
	switch {
	case err != nil:
		return s.unusable(err)
	case disk != nil:
		return s.rejoin(ctx, disk)
	case len(s.opts.Join) > 0:
		return s.join(ctx)
	}
	return nil
}

// rejoin asks the others what they think of this member. When none answers,
// the member starts as it is: it may be the first of all.
func (s *peer) rejoin(ctx context.Context, disk *Disk) error {
	v, c := s.askOthers(ctx, disk)
	if c == nil {
		return nil
	}
	defer c.Close()
	switch judge(disk, s.peerURL(), v) {
	case standingRemoved:
		return s.removed()
	case standingForeign:
		return &problem.Precondition{What: "datastore in " + s.opts.Dir,
			Err: errors.New("it is of a cluster that the other servers have left: " +
				"it was restored from a snapshot or set up anew"),
			Fix: s.fixRejoin()}
	case standingMoved:
		s.opts.Log.Infof("Telling the other servers that the datastore of this one is at %s now", s.peerURL())
		ctx, cancel := context.WithTimeout(ctx, changeTimeout)
		defer cancel()
		if _, err := c.MemberUpdate(ctx, disk.Self, []string{s.peerURL()}); err != nil {
			// It tries again when it has started.
			s.opts.Log.WithError(err).Warn("Could not tell the other servers the new address yet")
		}
	}
	return nil
}

// askOthers returns what the first other member that answers says, and a
// client of it, or nil.
func (s *peer) askOthers(ctx context.Context, disk *Disk) (view, *clientv3.Client) {
	type answer struct {
		v view
		c *clientv3.Client
	}
	urls := clientURLs(disk.Others())
	ch := make(chan answer, len(urls))
	ask := func(u string) answer {
		c, err := s.dial([]string{u})
		if err != nil {
			return answer{}
		}
		v, err := list(ctx, c)
		if err != nil {
			_ = c.Close()
			return answer{}
		}
		return answer{v, c}
	}
	for _, u := range urls {
		go func() { ch <- ask(u) }()
	}
	var first answer
	for range urls {
		switch a := <-ch; {
		case a.c == nil:
		case first.c == nil:
			first = a
		default:
			_ = a.c.Close()
		}
	}
	return first.v, first.c
}

// removed is the error of a member that was taken out of its cluster.
func (s *peer) removed() error {
	return &problem.Precondition{What: "datastore in " + s.opts.Dir, Err: errRemoved, Fix: s.fixRejoin()}
}

var errRemoved = errors.New("this server was removed from its cluster")

func (s *peer) fixRejoin() string {
	return fmt.Sprintf("to join again, move %s away and start with --server and --token of a running server",
		filepath.Dir(s.opts.Dir))
}

// join becomes a member of a running cluster, without a vote at first. It
// tries until ctx ends, because what stands in the way is mostly another server
// that joins or starts at the same time.
func (s *peer) join(ctx context.Context) error {
	c, err := s.dial(s.opts.Join)
	if err != nil {
		return err
	}
	defer c.Close()
	last := ""
	for {
		err := s.tryJoin(ctx, c)
		var in *problem.Input
		switch {
		case err == nil:
			return nil
		case errors.As(err, &in), ctx.Err() != nil:
			return err
		}
		if text := explain(err); text != last {
			s.opts.Log.Warnf("Waiting to join the datastore: %s", text)
			last = text
		}
		if err := pause(ctx, retryPause); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d/2 + rand.N(d)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// explain says in the words of the user why a change of members has to wait.
func explain(err error) string {
	switch {
	case errors.Is(err, rpctypes.ErrTooManyLearners):
		return "other servers are joining"
	case errors.Is(err, rpctypes.ErrUnhealthy), errors.Is(err, rpctypes.ErrMemberNotEnoughStarted):
		return "not all of its members are healthy"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, rpctypes.ErrTimeout),
		errors.Is(err, rpctypes.ErrNoLeader):
		return "it does not answer, perhaps because most of its members are down"
	}
	return err.Error()
}

func (s *peer) tryJoin(ctx context.Context, c *clientv3.Client) error {
	// What an interrupted start has left is no data.
	if err := os.RemoveAll(filepath.Join(s.opts.Dir, "member")); err != nil {
		return err
	}
	v, err := list(ctx, c)
	if err != nil {
		return err
	}
	action, id, err := planJoin(v.members, s.opts.Name, s.peerURL(), answers)
	if err != nil {
		return &problem.Input{Source: "--node-name", Value: s.opts.Name, Err: err,
			Want: "a name that no other server has"}
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	if action == joinReplace {
		s.opts.Log.Infof("Replacing the member of the datastore that this server was before: its data is gone")
		if _, err := c.MemberRemove(ctx, id); err != nil && !errors.Is(err, rpctypes.ErrMemberNotFound) {
			return err
		}
	}
	if action != joinReuse {
		added, err := c.MemberAddAsLearner(ctx, []string{s.peerURL()})
		if err != nil {
			return err
		}
		v.members, id = fromResponse(added.Members), added.Member.ID
	}
	s.cfg.InitialCluster = initialCluster(v.members, id, s.opts.Name)
	s.cfg.ClusterState = embed.ClusterStateFlagExisting
	s.opts.Log.Infof("Joining a datastore of %d members", len(v.members)-1)
	return nil
}

// initialCluster lists the members for etcd, which matches them by address: a
// name only has to be one that no other has.
func initialCluster(members []Member, self uint64, name string) string {
	var out []string
	for _, m := range members {
		label := fmt.Sprintf("member-%x", m.ID)
		if m.ID == self {
			label = name
		}
		for _, u := range m.PeerURLs {
			out = append(out, label+"="+u)
		}
	}
	return strings.Join(out, ",")
}

// settle finishes what the start of a member began: a learner gets its vote,
// and all know the address.
func (s *peer) settle(ctx context.Context, e *embed.Etcd) error {
	self := e.Server.Cluster().Member(e.Server.MemberID())
	if self != nil && !self.IsLearner && s.opts.Address != "" && !same(self.PeerURLs, s.peerURL()) {
		ctx, cancel := context.WithTimeout(ctx, changeTimeout)
		defer cancel()
		moved := membership.Member{ID: self.ID,
			RaftAttributes: membership.RaftAttributes{PeerURLs: []string{s.peerURL()}}}
		if _, err := e.Server.UpdateMember(ctx, moved); err != nil {
			return fmt.Errorf("changing the address of the datastore to %s: %w", s.peerURL(), err)
		}
		s.opts.Log.Infof("The datastore is reached by other servers at %s now", s.peerURL())
	}
	return s.promote(ctx, e)
}

func same(urls []string, one string) bool { return len(urls) == 1 && urls[0] == one }

// promote waits until the member has a vote.
func (s *peer) promote(ctx context.Context, e *embed.Etcd) error {
	if !e.Server.IsLearner() {
		return nil
	}
	started, last := time.Now(), ""
	var others []Member
	for _, m := range e.Server.Cluster().Members() {
		if m.ID != e.Server.MemberID() {
			others = append(others, fromMembership(m))
		}
	}
	c, err := s.dial(clientURLs(others))
	if err != nil {
		return err
	}
	defer c.Close()
	for e.Server.IsLearner() {
		ask, cancel := context.WithTimeout(ctx, changeTimeout)
		_, err := c.MemberPromote(ask, uint64(e.Server.MemberID()))
		cancel()
		switch {
		case err == nil, errors.Is(err, rpctypes.ErrMemberNotLearner),
			errors.Is(err, rpctypes.ErrMemberLearnerNotReady):
		default:
			if text := explain(err); text != last {
				s.opts.Log.Warnf("Waiting for a vote in the datastore: %s", text)
				last = text
			}
		}
		select {
		case <-e.Server.StopNotify():
			return s.stopped(ctx, e)
		default:
		}
		if err := pause(ctx, retryPause/2); err != nil {
			return err
		}
	}
	s.opts.Log.Infof("The datastore has caught up and votes after %s", time.Since(started).Round(time.Millisecond))
	return nil
}

// stopped says why a member ended by itself.
func (s *peer) stopped(ctx context.Context, e *embed.Etcd) error {
	if !e.Server.IsMemberExist(e.Server.MemberID()) {
		return s.removed()
	}
	disk := &Disk{Self: uint64(e.Server.MemberID()), Cluster: uint64(e.Server.Cluster().ID())}
	for _, m := range e.Server.Cluster().Members() {
		disk.Members = append(disk.Members, fromMembership(m))
	}
	if v, c := s.askOthers(ctx, disk); c != nil {
		_ = c.Close()
		if judge(disk, s.peerURL(), v) == standingRemoved {
			return s.removed()
		}
	}
	return s.unusable(errors.New("stopped by itself"))
}

// Members are those of the running cluster as this member knows them, none
// while it does not run.
func (s *Server) Members() []Member {
	e := s.running.Load()
	if e == nil {
		return nil
	}
	var out []Member
	for _, m := range e.Server.Cluster().Members() {
		out = append(out, fromMembership(m))
	}
	return out
}

var errNotRunning = errors.New("the datastore of this server does not run")

// RemoveMember takes a member out of the cluster, see repeatRemoval.
func (s *Server) RemoveMember(ctx context.Context, id uint64) error {
	e := s.running.Load()
	if e == nil {
		return errNotRunning
	}
	return repeatRemoval(ctx, func(ctx context.Context) error {
		_, err := e.Server.RemoveMember(ctx, id)
		return err
	})
}

// Reset makes the member the only one of its cluster, with the data that it
// has, and stops it again.
func (s *Server) Reset(ctx context.Context) error {
	s.cfg.ForceNewCluster = true
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return s.serve(ctx, func() { cancel() })
}
