package ranged

import (
	"context"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/a4s-io/a4s/internal/ownership"
)

// kv lists what the group holds of one resource.
type kv struct {
	clientv3.KV
	source   *Source
	resource Resource
}

// lists reports whether a request is for a list of the resource: of all of it, or of
// what follows a key of it up to its end.
func (k *kv) lists(key string, op clientv3.Op) bool {
	return len(op.RangeBytes()) > 0 && strings.HasPrefix(key, k.resource.Prefix) &&
		string(op.RangeBytes()) == clientv3.GetPrefixRangeEnd(k.resource.Prefix)
}

// Get implements clientv3.KV. Lists have the ranges that the group holds at their
// revision. The count of one that has more, or of which only that is asked, is that of the
// ranges: what is foreign among the keys of the system counts.
func (k *kv) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	op := clientv3.OpGet(key, opts...)
	if !k.lists(key, op) {
		return k.KV.Get(ctx, key, opts...)
	}
	v, rev, err := k.source.at(ctx, op.Rev())
	if err != nil {
		return nil, err
	}
	out := &clientv3.GetResponse{Header: &pb.ResponseHeader{Revision: rev}}
	asked := ownership.Range{From: key, To: string(op.RangeBytes())}
	for _, r := range k.source.ranges(v, k.resource) {
		part, ok := r.Cut(asked)
		if !ok {
			continue
		}
		if err := k.read(ctx, v, part, rev, op, out); err != nil {
			return nil, err
		}
	}
	if !out.More && !op.IsCountOnly() {
		// Upstream takes what is counted and not there for a further page.
		out.Count = int64(len(out.Kvs))
	}
	return out, nil
}

// read adds a range to what was read. With a limit it reads pages, for foreign keys may
// be among them, and sets More when there is no room for what follows.
func (k *kv) read(
	ctx context.Context, v *view, part ownership.Range, rev int64, op clientv3.Op, out *clientv3.GetResponse,
) error {
	opts := []clientv3.OpOption{clientv3.WithRange(part.To), clientv3.WithRev(rev)}
	if op.IsKeysOnly() {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	limit := int(op.Limit())
	full := limit > 0 && len(out.Kvs) >= limit
	if op.IsCountOnly() || full {
		got, err := k.KV.Get(ctx, part.From, append(opts, clientv3.WithCountOnly())...)
		if err != nil {
			return err
		}
		out.Count += got.Count
		out.More = out.More || full && got.Count > 0
		return nil
	}
	from, counted := part.From, false
	for {
		page := opts
		if limit > 0 {
			page = append(opts[:len(opts):len(opts)], clientv3.WithLimit(int64(limit)))
		}
		got, err := k.KV.Get(ctx, from, page...)
		if err != nil {
			return err
		}
		if !counted {
			out.Count, counted = out.Count+got.Count, true
		}
		for i, pair := range got.Kvs {
			if k.source.foreign(v, k.resource, string(pair.Key)) {
				continue
			}
			out.Kvs = append(out.Kvs, pair)
			if limit > 0 && len(out.Kvs) == limit {
				out.More = out.More || got.More || i < len(got.Kvs)-1
				return nil
			}
		}
		if !got.More || len(got.Kvs) == 0 {
			return nil
		}
		from = next(got.Kvs)
	}
}

// next is the key after the last one.
func next(kvs []*mvccpb.KeyValue) string { return string(kvs[len(kvs)-1].Key) + "\x00" }

// GetStream implements clientv3.KV. Upstream takes pages when lists cannot be streamed.
func (k *kv) GetStream(
	ctx context.Context, key string, opts ...clientv3.OpOption,
) (clientv3.GetStreamChan, error) {
	if k.lists(key, clientv3.OpGet(key, opts...)) {
		return nil, status.Error(codes.Unimplemented, "lists of service groups are not streamed")
	}
	return k.KV.GetStream(ctx, key, opts...)
}
