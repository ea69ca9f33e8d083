package storage

import (
	"context"
	"fmt"
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
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apistorage"
)

// A tenant that nobody has used is never written again after it was made, unless an
// administrator edits it, and has no namespaces. etcd knows both of keys alone, without
// reading a value. So a list of the tenants that are not dormant reads those few and not
// the million that are, which would be most of the time that a start takes.
// What is read too much is sorted out by the selector of the list.
//
// A tenant that was made just now and is not dormant has neither until its space is made, and the
// server that was to do that can end before. So a mark of it is written before it is, in a key of
// its own, which goes before it goes.

const (
	// perRead is how many objects are read at once; etcd takes 128.
	perRead = 100
	// worthwhile is what part of the keys may be awake: of more, all objects are read in
	// the usual way. So they are where no key has a version (kine).
	worthwhile = 4
	// marks is the prefix of the keys of marks.
	marks = "/a4s/awaited-tenants/"
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
	opts.Decorator = apistorage.Make(func(s apistorage.Storing) (storage.Interface, factory.DestroyFunc, error) {
		if s.Config.Transport.EgressLookup != nil {
			return apistorage.Raw(s)
		}
		stored, destroy, err := u.connections.storage(s, nil)
		return stored, sync.OnceFunc(destroy), err
	}).Decorator()
	return opts, nil
}

// tenantStore is the storage of tenants.
type tenantStore struct {
	storage.Interface
	kv clientv3.KV
}

// Create implements storage.Interface.
func (s tenantStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if err := s.mark(ctx, obj); err != nil {
		return err
	}
	return s.Interface.Create(ctx, key, obj, out, ttl)
}

// GuaranteedUpdate implements storage.Interface. Server-side apply makes by it what is not there.
func (s tenantStore) GuaranteedUpdate(
	ctx context.Context, key string, out runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	update storage.UpdateFunc, cached runtime.Object,
) error {
	return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions,
		func(is runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
			next, ttl, err := update(is, meta)
			if err == nil && meta.ResourceVersion == 0 {
				err = s.mark(ctx, next)
			}
			return next, ttl, err
		}, cached)
}

// mark marks a new tenant that is not dormant.
func (s tenantStore) mark(ctx context.Context, obj runtime.Object) error {
	t, ok := obj.(*tenantapi.Tenant)
	if !ok || t.Name == space.System || t.Dormant() {
		return nil
	}
	if _, err := s.kv.Put(ctx, marks+t.Name, ""); err != nil {
		return fmt.Errorf("marking tenant %s as one whose space is to be made: %w", t.Name, err)
	}
	return nil
}

// Delete implements storage.Interface. Whatever goes was written more than once: that it is deleted has been.
func (s tenantStore) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions,
) error {
	if _, err := s.kv.Delete(ctx, marks+path.Base(key)); err != nil {
		return fmt.Errorf("taking the mark off that has the space of a tenant made: %w", err)
	}
	return s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts)
}

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
	err = a.eachKey(ctx, marks, clientv3.GetPrefixRangeEnd(marks), opts.Revision, func(kv *mvccpb.KeyValue) bool {
		used[string(kv.Key[len(marks):])] = true
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
