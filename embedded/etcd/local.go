package etcd

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"google.golang.org/grpc"
)

// Local is how clients of this process call the member, without a socket and
// its TLS, HTTP/2 and goroutines at both ends. It says and refuses what the
// member does to others.
type Local struct {
	kv    pb.KVClient
	lease pb.LeaseClient
	watch pb.WatchClient
}

// leaseTimeout is how long a client tries to begin with the keeping of a lease.
const leaseTimeout = time.Second

// Client is one with watches and leases of its own, until the context ends or
// it is closed. It has no endpoints, and keeps keys, leases and watches only.
func (l *Local) Client(ctx context.Context) *clientv3.Client {
	c := clientv3.NewCtxClient(ctx)
	c.KV = clientv3.NewKVFromKVClient(l.kv, c)
	c.Lease = clientv3.NewLeaseFromLeaseClient(l.lease, c, leaseTimeout)
	c.Watcher = clientv3.NewWatchFromWatchClient(l.watch, c)
	return c
}

// Local returns nil if the member does not run, and if it has or may come to
// have others: what it does then while there is no leader (to try again, to end
// a watch) is done by gRPC's interceptors on the way to it.
func (s *Server) Local() *Local {
	if s.opts.Address != "" || s.running.Load() == nil {
		return nil
	}
	return s.local
}

// newLocal makes the clients of a member. The gate closes before the member.
func newLocal(s *etcdserver.EtcdServer, g *gate) *Local {
	return &Local{
		kv:    &localKV{inner: v3rpc.NewQuotaKVServer(s), gate: g},
		lease: adapter.LeaseServerToLeaseClient(v3rpc.NewQuotaLeaseServer(s)),
		watch: adapter.WatchServerToWatchClient(v3rpc.NewWatchServer(s)),
	}
}

// localKV is a pb.KVClient. Calls run on the goroutine of their caller, in the
// member's datastore, which must not close meanwhile.
type localKV struct {
	inner pb.KVServer
	gate  *gate
}

// Range implements pb.KVClient. A sole member has applied whatever it has
// confirmed, and what it had confirmed before it started when it was ready. So
// what it has is the newest, and it need not agree with itself about that, for
// which a read would wait until writes under way are on the disk.
func (l *localKV) Range(ctx context.Context, in *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	in.Serializable = true // the client made the request for this call
	return pass(ctx, l.gate, in, l.inner.Range)
}

// Put implements pb.KVClient.
func (l *localKV) Put(ctx context.Context, in *pb.PutRequest, _ ...grpc.CallOption) (*pb.PutResponse, error) {
	return pass(ctx, l.gate, in, l.inner.Put)
}

// DeleteRange implements pb.KVClient.
func (l *localKV) DeleteRange(
	ctx context.Context, in *pb.DeleteRangeRequest, _ ...grpc.CallOption,
) (*pb.DeleteRangeResponse, error) {
	return pass(ctx, l.gate, in, l.inner.DeleteRange)
}

// Txn implements pb.KVClient.
func (l *localKV) Txn(ctx context.Context, in *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	return pass(ctx, l.gate, in, l.inner.Txn)
}

// RangeStream implements pb.KVClient. The member reads on a goroutine of its own,
// for as long as the context lasts.
func (l *localKV) RangeStream(
	ctx context.Context, in *pb.RangeRequest, _ ...grpc.CallOption,
) (pb.KV_RangeStreamClient, error) {
	in.Serializable = true // see Range
	if !l.gate.enter() {
		return nil, rpctypes.ErrGRPCStopped
	}
	s := &localStream{ctx: ctx, chunks: make(chan *pb.RangeStreamResponse)}
	go func() {
		defer l.gate.leave()
		defer close(s.chunks)
		s.err = l.inner.RangeStream(in, sendingSide{localStream: s})
	}()
	return receivingSide{localStream: s}, nil
}

// Compact implements pb.KVClient.
func (l *localKV) Compact(
	ctx context.Context, in *pb.CompactionRequest, _ ...grpc.CallOption,
) (*pb.CompactionResponse, error) {
	return pass(ctx, l.gate, in, l.inner.Compact)
}

// pass makes a call through a gate.
func pass[In, Out any](
	ctx context.Context, g *gate, in In, call func(context.Context, In) (Out, error),
) (out Out, err error) {
	if !g.enter() {
		return out, rpctypes.ErrGRPCStopped
	}
	defer g.leave()
	return call(ctx, in)
}

// gate counts who is inside, and lets nobody in any more once it is closed.
type gate struct {
	mu     sync.Mutex
	inside int
	closed bool
	empty  chan struct{} // closed when it is closed and the last has left
}

func newGate() *gate { return &gate{empty: make(chan struct{})} }

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}

// close waits for those who are inside, but not longer than patience: who waits
// for a member that cannot go on is told so when that one stops.
func (g *gate) close(patience time.Duration) {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		if g.inside == 0 {
			close(g.empty)
		}
	}
	g.mu.Unlock()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-g.empty:
	case <-timeout.C:
	}
}
