package storage

import (
	"context"
	"path"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// A tenant that nobody has used is never written again after it was made, unless an
// administrator edits it, and has no namespaces. etcd knows both of keys alone, without
// reading a value. So a list of the tenants that are not dormant reads those few and not
// the million that are, which would be most of the time that a start takes.
// What is read too much is sorted out by the selector of the list.

const (
	// perRead is how many objects are read at once; etcd takes 128.
	perRead = 100
	// worthwhile is what part of the keys may be awake: of more, all objects are read in
	// the usual way. So they are where no key has a version (kine).
	worthwhile = 4
)

// awakeOnly marks the context of a list of tenants that are not dormant.
type awakeOnly struct{}

// uncachedTenants leaves the cache of tenants out.
type uncachedTenants struct {
	inner       generic.RESTOptionsGetter
	connections *Connections
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (u uncachedTenants) GetRESTOptions(
	resource schema.GroupResource, example runtime.Object,
) (generic.RESTOptions, error) {
	opts, err := u.inner.GetRESTOptions(resource, example)
	if err != nil || resource != tenantapi.GroupResource() {
		return opts, err
	}
	opts.Decorator = func(
		config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, trigger storage.IndexerFuncs,
		indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		if config.Transport.EgressLookup != nil {
			return generic.UndecoratedStorage(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		}
		s, destroy, err := u.connections.storage(config, prefix, newFunc, newListFunc, nil)
		return s, sync.OnceFunc(destroy), err
	}
	return opts, nil
}

// tenantStore is the storage of tenants.
type tenantStore struct{ storage.Interface }

// GetList implements storage.Interface.
func (s tenantStore) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if f := opts.Predicate.Field; f != nil && opts.Recursive {
		if dormant, ok := f.RequiresExactMatch(tenantapi.SelectDormant); ok && dormant == "false" {
			ctx = context.WithValue(ctx, awakeOnly{}, true)
		}
	}
	return s.Interface.GetList(ctx, key, opts, list)
}

// awake is a client of the datastore that reads the tenants that can be other than
// dormant, where a context says so.
type awake struct {
	kubernetes.Interface
	kv clientv3.KV
	// namespaces is the prefix of their keys.
	namespaces string
}

func newAwake(client *kubernetes.Client, root string) *awake {
	return &awake{Interface: client, kv: client.KV, namespaces: path.Join("/", root, "namespaces") + "/"}
}

// List implements kubernetes.Interface.
func (a *awake) List(ctx context.Context, prefix string, opts kubernetes.ListOptions) (
	resp kubernetes.ListResponse, err error,
) {
	if ctx.Value(awakeOnly{}) == nil {
		return a.Interface.List(ctx, prefix, opts)
	}
	asked := opts
	if opts.Revision == 0 { // one for all that is read here
		now, err := a.kv.Get(ctx, prefix)
		if err != nil {
			return resp, err
		}
		opts.Revision = now.Header.Revision
	}
	keys, more, few, err := a.find(ctx, prefix, opts)
	switch {
	case status.Code(err) == codes.Unimplemented || err == nil && !few:
		return a.Interface.List(ctx, prefix, asked)
	case err != nil:
		return resp, err
	}
	resp.Revision = opts.Revision
	for len(keys) > 0 {
		n := min(len(keys), perRead)
		kvs, err := a.read(ctx, keys[:n], opts.Revision)
		if err != nil {
			return resp, err
		}
		resp.Kvs, keys = append(resp.Kvs, kvs...), keys[n:]
	}
	resp.Count = int64(len(resp.Kvs))
	if more { // there is at least one, which is all that a list with a selector asks
		resp.Count++
	}
	return resp, nil
}

// find finds the keys of a page, and whether there are more. They are few if it is worth
// it to read them alone.
func (a *awake) find(ctx context.Context, prefix string, opts kubernetes.ListOptions) (
	keys []string, more, few bool, err error,
) {
	used := map[string]bool{space.System: true} // it is never dormant
	err = a.eachKey(ctx, a.namespaces, clientv3.GetPrefixRangeEnd(a.namespaces), opts.Revision,
		func(kv *mvccpb.KeyValue) bool {
			tenant, _, ok := strings.Cut(string(kv.Key[len(a.namespaces):]), "/")
			if ok {
				used[tenant] = true
			}
			return true
		})
	if err != nil {
		return nil, false, false, err
	}
	from, all := prefix, 0
	if opts.Continue != "" {
		from = opts.Continue
	}
	err = a.eachKey(ctx, from, clientv3.GetPrefixRangeEnd(prefix), opts.Revision, func(kv *mvccpb.KeyValue) bool {
		all++
		if kv.Version == 1 && !used[string(kv.Key[len(prefix):])] {
			return true
		}
		if more = opts.Limit > 0 && int64(len(keys)) == opts.Limit; !more {
			keys = append(keys, string(kv.Key))
		}
		return !more
	})
	return keys, more, len(keys)*worthwhile <= all, err
}

// eachKey calls f with the keys of a range, which have no values, until it returns false.
func (a *awake) eachKey(
	ctx context.Context, from, end string, revision int64, f func(*mvccpb.KeyValue) bool,
) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	// A stream, since each page of its own would have the datastore count all keys up to
	// the end.
	stream, err := a.kv.GetStream(ctx, from,
		clientv3.WithRange(end), clientv3.WithRev(revision), clientv3.WithKeysOnly())
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		for range stream { // until it has noticed
		}
	}()
	for chunk := range stream {
		if err := chunk.Err(); err != nil {
			return err
		}
		for _, kv := range chunk.Kvs {
			if !f(kv) {
				return nil
			}
		}
	}
	return ctx.Err()
}

// read reads objects as they were.
func (a *awake) read(ctx context.Context, keys []string, revision int64) ([]*mvccpb.KeyValue, error) {
	ops := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		ops[i] = clientv3.OpGet(key, clientv3.WithRev(revision))
	}
	answer, err := a.kv.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return nil, err // as it is: the storage knows it by its value
	}
	var kvs []*mvccpb.KeyValue
	for _, r := range answer.Responses {
		kvs = append(kvs, r.GetResponseRange().Kvs...)
	}
	return kvs, nil
}
