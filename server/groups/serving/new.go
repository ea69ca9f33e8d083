package serving

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/groups/ranged"
)

// Options configures the storage of a resource.
type Options struct {
	// Source says what the group holds.
	Source *ranged.Source
	Layout space.Layout
	// Root is the prefix of all keys in the datastore, as "/registry".
	Root string
	// Cache is what upstream's cache needs, but for the storage.
	Cache cacher.Config
	// Storage makes one without a cache whose client was changed.
	Storage func(change func(*clientv3.Client)) (storage.Interface, func(), error)
}

// New makes the storage of a resource, and what stops it.
func New(o Options) (storage.Interface, func(), error) {
	held := newHeld(o.Source.Group)
	// What watches the datastore asks the cache, which is made of what watches it.
	made := make(chan struct{})
	var look func(context.Context, *clientv3.Event) bool
	held.shown = func(ctx context.Context, e *clientv3.Event) bool {
		select {
		case <-made:
			return look(ctx, e)
		case <-ctx.Done():
			return false
		}
	}
	// Keys of the datastore are those of the storage below the root.
	root := strings.TrimSuffix(o.Root, "/")
	resource := ranged.Resource{Prefix: root + strings.TrimSuffix(o.Cache.ResourcePrefix, "/") + "/", Layout: o.Layout}
	var client *ranged.Client
	part, stopPart, err := o.Storage(func(c *clientv3.Client) {
		client = o.Source.New(resource, c.KV, c.Watcher, held)
		c.KV, c.Watcher = client.KV, client.Watcher
	})
	if err != nil {
		return nil, nil, err
	}
	all, stopAll, err := o.Storage(func(*clientv3.Client) {})
	if err != nil {
		stopPart()
		return nil, nil, err
	}
	stop := func() {
		stopPart()
		stopAll()
	}
	behind := &behind{Interface: part, all: all, prefix: o.Cache.ResourcePrefix}
	o.Cache.Storage = behind
	o.Cache.GetAttrsFunc = ownRevisions(client, root, o.Cache)
	cached, err := cacher.NewCacherFromConfig(o.Cache)
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("making the cache of %s: %w", o.Cache.GroupResource, err)
	}
	look = shown(cached, root, o.Cache.NewFunc)
	close(made)
	delegator := cacher.NewCacheDelegator(cached, behind)
	streams := &streams{make: func(group string) (storage.Interface, func(), error) {
		return o.Storage(func(c *clientv3.Client) {
			client := o.Source.Stream(group, resource, c.KV, c.Watcher)
			c.KV, c.Watcher = client.KV, client.Watcher
		})
	}}
	return &grouped{
			Interface: delegator, all: all, stream: streams.of, tableOf: o.Source.Table, held: held,
			key: o.Cache.KeyFunc, layout: o.Layout, prefix: o.Cache.ResourcePrefix,
		}, func() {
			delegator.Stop()
			cached.Stop()
			streams.stop()
			stop()
		}, nil
}

// ownRevisions gives what a change of ranges put in its true revision. The cache asks
// for the attributes of an object before it keeps it, and after it has read its revision.
func ownRevisions(client *ranged.Client, root string, c cacher.Config) storage.AttrFunc {
	attrs := c.GetAttrsFunc
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		if err := ownRevision(client, root, c, obj); err != nil {
			return nil, nil, err
		}
		return attrs(obj)
	}
}

func ownRevision(client *ranged.Client, root string, c cacher.Config, obj runtime.Object) error {
	o, err := meta.CommonAccessor(obj)
	if err != nil {
		return fmt.Errorf("reading the revision of an object: %w", err)
	}
	rev, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return nil //nolint:nilerr // it does not come from the datastore
	}
	key, err := c.KeyFunc(obj)
	if err != nil {
		return fmt.Errorf("finding the key of an object: %w", err)
	}
	if own, ok := client.OwnRevision(root+key, rev); ok {
		o.SetResourceVersion(strconv.FormatInt(own, 10))
	}
	return nil
}

// shown asks the cache itself: an event is there as soon as its object is, or is not any
// more.
func shown(
	cached *cacher.Cacher, root string, newFunc func() runtime.Object,
) func(context.Context, *clientv3.Event) bool {
	return func(ctx context.Context, e *clientv3.Event) bool {
		err := cached.Get(ctx, strings.TrimPrefix(string(e.Kv.Key), root), storage.GetOptions{ResourceVersion: "0"},
			newFunc())
		if e.Type == clientv3.EventTypeDelete {
			return storage.IsNotFound(err)
		}
		return err == nil
	}
}
