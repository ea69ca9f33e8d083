package kine

import (
	"context"
	"errors"

	"github.com/k3s-io/kine/pkg/server"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// bridge adds to kine's server what the API server does not ask of an etcd,
// but a4s does: several reads in one transaction, and deletions by key or
// prefix. kine knows the shapes of transaction of the API server only.
type bridge struct {
	*server.KVServerBridge
}

var (
	_ etcdserverpb.KVServer          = (*bridge)(nil)
	_ etcdserverpb.WatchServer       = (*bridge)(nil)
	_ etcdserverpb.LeaseServer       = (*bridge)(nil)
	_ etcdserverpb.ClusterServer     = (*bridge)(nil)
	_ etcdserverpb.MaintenanceServer = (*bridge)(nil)
)

func (b *bridge) register(s *grpc.Server) {
	etcdserverpb.RegisterKVServer(s, b)
	etcdserverpb.RegisterWatchServer(s, b)
	etcdserverpb.RegisterLeaseServer(s, b)
	etcdserverpb.RegisterClusterServer(s, b)
	etcdserverpb.RegisterMaintenanceServer(s, b)
	h := health.NewServer()
	h.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(s, h)
}

// Range implements etcdserverpb.KVServer. NATS answers with values whether they
// are wanted or not.
func (b *bridge) Range(ctx context.Context, r *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	answer, err := b.KVServerBridge.Range(ctx, r)
	if err == nil && r.KeysOnly {
		for _, kv := range answer.Kvs {
			kv.Value = nil
		}
	}
	return answer, err
}

// Txn implements etcdserverpb.KVServer.
func (b *bridge) Txn(ctx context.Context, r *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	if !onlyReads(r) {
		return b.KVServerBridge.Txn(ctx, r)
	}
	out := &etcdserverpb.TxnResponse{Succeeded: true}
	for _, op := range r.Success {
		read := op.GetRequestRange()
		if read.Revision == 0 && out.Header != nil {
			read.Revision = out.Header.Revision // all of the same moment
		}
		answer, err := b.Range(ctx, read)
		if err != nil {
			return nil, err
		}
		if out.Header == nil {
			out.Header = answer.Header
		}
		out.Responses = append(out.Responses,
			&etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: answer}})
	}
	return out, nil
}

func onlyReads(r *etcdserverpb.TxnRequest) bool {
	if len(r.Compare) > 0 || len(r.Failure) > 0 || len(r.Success) == 0 {
		return false
	}
	for _, op := range r.Success {
		if op.GetRequestRange() == nil {
			return false
		}
	}
	return true
}

// perPage is how many keys are read at once to be deleted.
const perPage = 500

// DeleteRange implements etcdserverpb.KVServer. Keys go one by one: what comes
// to be meanwhile may stay, as it may right after.
func (b *bridge) DeleteRange(
	ctx context.Context, r *etcdserverpb.DeleteRangeRequest,
) (*etcdserverpb.DeleteRangeResponse, error) {
	if r.PrevKv {
		return nil, status.Error(codes.Unimplemented, "prevKv is not implemented")
	}
	out := &etcdserverpb.DeleteRangeResponse{Header: &etcdserverpb.ResponseHeader{}}
	from := r.Key
	for {
		read := &etcdserverpb.RangeRequest{Key: from, RangeEnd: r.RangeEnd, KeysOnly: true}
		if len(r.RangeEnd) > 0 {
			read.Limit = perPage
		}
		page, err := b.Range(ctx, read)
		if err != nil {
			return nil, err
		}
		out.Header.Revision = max(out.Header.Revision, page.Header.Revision)
		for _, kv := range page.Kvs {
			from = append(kv.Key, 0)
			revision, err := b.remove(ctx, kv.Key)
			if err != nil {
				return nil, err
			}
			if revision > 0 {
				out.Deleted++
				out.Header.Revision = max(out.Header.Revision, revision)
			}
		}
		if !page.More {
			return out, nil
		}
	}
}

// errContended means that a key changed each time it was to be deleted.
var errContended = errors.New("the key keeps changing")

// remove deletes one key, whatever it holds. The revision is 0 if it was gone.
func (b *bridge) remove(ctx context.Context, key []byte) (int64, error) {
	for range 10 {
		there, err := b.Range(ctx, &etcdserverpb.RangeRequest{Key: key, KeysOnly: true})
		if err != nil || len(there.Kvs) == 0 {
			return 0, err
		}
		answer, err := b.KVServerBridge.Txn(ctx, deletion(key, there.Kvs[0].ModRevision))
		if err != nil {
			return 0, err
		}
		if answer.Succeeded {
			return answer.Header.Revision, nil
		}
	}
	return 0, status.Error(codes.Aborted, errContended.Error())
}

// deletion is the shape in which the API server deletes.
func deletion(key []byte, revision int64) *etcdserverpb.TxnRequest {
	return &etcdserverpb.TxnRequest{
		Compare: []*etcdserverpb.Compare{{
			Key: key, Target: etcdserverpb.Compare_MOD, Result: etcdserverpb.Compare_EQUAL,
			TargetUnion: &etcdserverpb.Compare_ModRevision{ModRevision: revision},
		}},
		Success: []*etcdserverpb.RequestOp{{Request: &etcdserverpb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &etcdserverpb.DeleteRangeRequest{Key: key},
		}}},
		Failure: []*etcdserverpb.RequestOp{
			{Request: &etcdserverpb.RequestOp_RequestRange{RequestRange: &etcdserverpb.RangeRequest{Key: key}}},
		},
	}
}
