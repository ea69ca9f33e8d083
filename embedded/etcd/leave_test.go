package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// running is a member on sockets in a directory.
type running struct {
	*embed.Etcd
	client     string
	endStreams context.CancelFunc
	left       bool // it is closed
}

// startMembers starts a cluster. Its members are closed at the end of the test.
func startMembers(t *testing.T, n int) []*running {
	t.Helper()
	initial := ""
	cfgs := make([]*embed.Config, n)
	for i := range cfgs {
		cfg := embed.NewConfig()
		cfg.Name = fmt.Sprintf("m%d", i)
		cfg.Dir = t.TempDir()
		client, peer := url.URL{Scheme: "unix", Host: fmt.Sprintf("localhost:%d", 10*i+1)},
			url.URL{Scheme: "unix", Host: fmt.Sprintf("localhost:%d", 10*i+2)}
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		cfg.LogLevel = "fatal"
		initial += fmt.Sprintf(",%s=%s", cfg.Name, peer.String())
		cfgs[i] = cfg
	}
	t.Chdir(t.TempDir()) // the sockets
	started := make(chan error, n)
	out := make([]*running, n)
	for i, cfg := range cfgs {
		cfg.InitialCluster = initial[1:]
		ctx, cancel := context.WithCancel(t.Context())
		cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{endingStreams(ctx)}
		out[i] = &running{client: cfg.ListenClientUrls[0].String(), endStreams: cancel}
		go func() {
			var err error
			out[i].Etcd, err = embed.StartEtcd(cfg)
			started <- err
		}()
	}
	for range cfgs {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range out {
		t.Cleanup(func() {
			if !m.left {
				abandon(m.Etcd, false)
			}
		})
		select {
		case <-m.Server.ReadyNotify():
		case <-time.After(time.Minute):
			t.Fatal("a member is not ready")
		}
	}
	return out
}

func (m *running) dial(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.client}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// watch opens a stream that its client never ends.
func (m *running) watch(t *testing.T) clientv3.WatchChan {
	t.Helper()
	c := m.dial(t)
	events := c.Watch(clientv3.WithRequireLeader(t.Context()), "key", clientv3.WithCreatedNotify())
	if first := <-events; first.Err() != nil || !first.Created {
		t.Fatalf("the watch began with %+v", first)
	}
	return events
}

// A leader to which others hold streams closes at once, and another one leads by then.
func TestLeaderLeaves(t *testing.T) {
	members := startMembers(t, 3)
	var leader, other *running
	for leader == nil {
		for i, m := range members {
			if m.Server.Leader() == m.Server.MemberID() {
				leader, other = m, members[(i+1)%len(members)]
			}
		}
	}
	leader.watch(t)
	term := other.Server.Term()
	began := time.Now()
	leave(leader.Etcd, leader.endStreams)
	leader.left = true
	if took := time.Since(began); took >= handoverPatience+closePatience {
		t.Errorf("it took %v", took)
	}
	if now := other.Server.Leader(); now == leader.Server.MemberID() || now == 0 || other.Server.Term() == term {
		t.Errorf("%v leads in term %d, after %d", now, other.Server.Term(), term)
	}
	// It goes as a server removes it: of a young cluster it can be removed when the other has
	// noticed that it is gone.
	if err := repeatRemoval(t.Context(), func(ctx context.Context) error {
		_, err := other.Server.RemoveMember(ctx, uint64(leader.Server.MemberID()))
		return err
	}); err != nil {
		t.Errorf("its member is not removed: %v", err)
	}
}

// A member without a majority closes soon as well, with a request that waits for one.
func TestMemberWithoutMajorityLeaves(t *testing.T) {
	members := startMembers(t, 2)
	one, two := members[0], members[1]
	one.watch(t)
	two.Server.HardStop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, asked := one.dial(t), make(chan error, 1)
	go func() {
		_, err := c.Put(ctx, "key", "value")
		asked <- err
	}()
	began := time.Now()
	leave(one.Etcd, one.endStreams)
	one.left = true
	if took := time.Since(began); took >= handoverPatience+closePatience+time.Second {
		t.Errorf("it took %v", took)
	}
	select {
	case <-one.Server.StopNotify():
	default:
		t.Error("the member still runs")
	}
	cancel()
	<-asked
}

// One that was never ready does, too.
func TestMemberThatWaitsIsAbandoned(t *testing.T) {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.LogLevel = "m0", t.TempDir(), "fatal"
	u := func(port int) []url.URL { return []url.URL{{Scheme: "unix", Host: fmt.Sprintf("localhost:%d", port)}} }
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = u(1), u(1)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = u(2), u(2)
	cfg.InitialCluster = "m0=unix://localhost:2,m1=unix://localhost:12"
	t.Chdir(t.TempDir())
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	abandon(e, false)
	if took := time.Since(began); took >= closeTimeout {
		t.Errorf("it took %v", took)
	}
}

// A removal is repeated while the others find a leader, and not when it is refused.
func TestRemovalIsRepeated(t *testing.T) {
	refused := errors.New("refused")
	lost := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	answer := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for _, tc := range []struct {
		name  string
		tries []func(context.Context) error // the last one is repeated
		want  error
		wait  bool // it takes all the time it has
	}{
		{"at once", []func(context.Context) error{answer(nil)}, nil, false},
		{"proposed to a leader that is gone", []func(context.Context) error{lost, answer(nil)}, nil, false},
		{"removed by the first try", []func(context.Context) error{lost, answer(rpctypes.ErrMemberNotFound)},
			nil, false},
		{"no leader", []func(context.Context) error{answer(rpctypes.ErrNoLeader), answer(nil)}, nil, false},
		{"no leader here", []func(context.Context) error{answer(etcderrors.ErrTimeoutDueToLeaderFail), answer(nil)},
			nil, false},
		{"not healthy yet", []func(context.Context) error{answer(etcderrors.ErrUnhealthy), answer(nil)}, nil, false},
		{"never healthy", []func(context.Context) error{answer(rpctypes.ErrUnhealthy)}, rpctypes.ErrUnhealthy, true},
		{"never an answer", []func(context.Context) error{lost}, context.DeadlineExceeded, true},
		{"refused", []func(context.Context) error{answer(refused)}, refused, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, tries := time.Now(), 0
				err := repeatRemoval(t.Context(), func(ctx context.Context) error {
					try := tc.tries[min(tries, len(tc.tries)-1)]
					tries++
					return try(ctx)
				})
				if !errors.Is(err, tc.want) {
					t.Errorf("it ended with %v", err)
				}
				if waited := time.Since(began) >= removeTimeout; waited != tc.wait {
					t.Errorf("it took %v", time.Since(began))
				}
			})
		})
	}
}
