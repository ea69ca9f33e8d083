package limits

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

const (
	// followAgain is the pause before everything is read anew.
	followAgain = time.Second
	// A page of keys with their values has at most pageKeys, and fewer when
	// they are large.
	pageKeys = 64
	pageSize = 4 << 20
)

// Run counts what tenants use, until the context ends.
func (l *Limits) Run(ctx context.Context) {
	go l.showAll(ctx)
	for ctx.Err() == nil {
		if err := l.follow(ctx); err != nil && ctx.Err() == nil && l.log != nil {
			l.log.WithError(err).Debug("What tenants use is counted anew")
		}
		select {
		case <-ctx.Done():
		case <-time.After(followAgain):
		}
	}
}

// follow reads everything and then what changes.
func (l *Limits) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	l.keys.mu.Lock()
	root := path.Join("/", l.keys.root) + "/"
	client, err := l.keys.connect()
	l.keys.mu.Unlock()
	if err != nil {
		return err
	}
	l.accounting.begin()
	revision, err := l.readAll(ctx, client, root)
	if err != nil {
		return fmt.Errorf("reading what tenants use: %w", err)
	}
	l.accounting.end(revision)
	for answer := range client.Watch(ctx, root, clientv3.WithPrefix(), clientv3.WithRev(revision+1),
		clientv3.WithFragment()) {
		if err := answer.Err(); err != nil {
			return fmt.Errorf("watching what tenants use: %w", err)
		}
		for _, e := range answer.Events {
			key := string(e.Kv.Key)
			switch s, tenant, ok := l.keys.owner(root, key); {
			case !ok:
			case e.Type == clientv3.EventTypeDelete:
				l.accounting.remove(tenant, key, e.Kv.ModRevision)
			default:
				l.count(ctx, tenant, s, e.Kv)
			}
		}
	}
	return errors.New("the watch has ended")
}

// count counts what a key holds. What quotas name can change meanwhile: then it is done
// once more, because the reading that the change began may have been here before.
func (l *Limits) count(ctx context.Context, tenant string, s stored, kv *mvccpb.KeyValue) {
	key := string(kv.Key)
	for {
		c := l.quotas.of(tenant)
		l.accounting.put(tenant, key, kv.ModRevision, sizeOf(key, len(kv.Value)), s.class(),
			s.charge(ctx, key, kv.Value, c))
		if l.quotas.of(tenant) == c {
			return
		}
	}
}

// readAll counts what there is, as of one revision. It passes over what is nobody's,
// Tenants among them, of which there can be a million.
func (l *Limits) readAll(ctx context.Context, client *clientv3.Client, root string) (revision int64, err error) {
	now, err := client.Get(ctx, root)
	if err != nil {
		return 0, err
	}
	revision = now.Header.Revision
	for _, r := range between(strings.TrimSuffix(root, "/"), l.keys.nobodys()) {
		read := func(kv *mvccpb.KeyValue) {
			if s, tenant, ok := l.keys.owner(root, string(kv.Key)); ok {
				l.count(ctx, tenant, s, kv)
			}
		}
		if err := readRange(ctx, client, r, revision, read); err != nil {
			return 0, err
		}
	}
	return revision, nil
}

// readRange reads a range, in the way that the datastore knows.
func readRange(
	ctx context.Context, client *clientv3.Client, r keyRange, revision int64, read func(*mvccpb.KeyValue),
	options ...clientv3.OpOption,
) error {
	err := stream(ctx, client, r, revision, read, options...)
	if status.Code(err) == codes.Unimplemented { // by an older etcd
		err = pages(ctx, client, r, revision, read, options...)
	}
	return err
}

// stream reads a range. The datastore goes through it once, where it would count the
// rest of it for each page.
func stream(
	ctx context.Context, client *clientv3.Client, r keyRange, revision int64, read func(*mvccpb.KeyValue),
	options ...clientv3.OpOption,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options = append(options, clientv3.WithRange(r.end), clientv3.WithRev(revision))
	chunks, err := client.GetStream(ctx, r.from, options...)
	if err != nil {
		return err
	}
	for chunk := range chunks {
		if err = chunk.Err(); err != nil {
			continue // it is the last
		}
		for _, kv := range chunk.Kvs {
			read(kv)
		}
	}
	return err
}

// pages reads a range page by page.
func pages(
	ctx context.Context, client *clientv3.Client, r keyRange, revision int64, read func(*mvccpb.KeyValue),
	options ...clientv3.OpOption,
) error {
	options = append(options, clientv3.WithRange(r.end), clientv3.WithRev(revision))
	for limit, from := int64(4), r.from; ; {
		page, err := client.Get(ctx, from, append(options[:len(options):len(options)], clientv3.WithLimit(limit))...)
		if err != nil {
			return err
		}
		size := 0
		for _, kv := range page.Kvs {
			size += len(kv.Value)
			read(kv)
		}
		if !page.More || len(page.Kvs) == 0 {
			return nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		if limit = min(2*limit, pageKeys); size > pageSize {
			limit = max(1, limit/8)
		}
	}
}

// nobodys are the places of what belongs to no tenant.
func (k *keys) nobodys() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var places []string
	for place, s := range k.resources {
		if !s.belongs {
			places = append(places, place)
		}
	}
	return places
}

// sizeOf is what a key and its value take.
func sizeOf(key string, value int) int64 { return int64(len(key) + value) }

// owner is the tenant whose key this is, and of what resource it is.
func (k *keys) owner(root, key string) (s stored, tenant string, ok bool) {
	rest, ok := strings.CutPrefix(key, root)
	first, tail, deep := strings.Cut(rest, "/")
	if !ok || !deep {
		return s, "", false
	}
	second, below, deeper := strings.Cut(tail, "/")
	k.mu.Lock()
	found := k.resources[key[:len(root)+len(first)+1+len(second)]] // by group or the like
	if found == nil {
		if found = k.resources[key[:len(root)+len(first)]]; found != nil {
			below = tail
		}
	}
	if found != nil {
		s = *found
	}
	k.mu.Unlock()
	switch {
	case found == nil && deeper && strings.Contains(first, ".") && !kinds.Groups()[first]:
		// Of a CRD that nothing serves yet, or no more.
		s = stored{resource: schema.GroupResource{Group: first, Resource: second}, layout: anyLayout, counts: true,
			belongs: true, custom: true}
	case found == nil || !s.belongs:
		return s, "", false
	}
	tenant, _, deep = strings.Cut(below, "/")
	if !deep || tenant == "" {
		return s, "", false
	}
	// A namespaced key with one segment less is of the system's namespace of
	// that name. Of a custom resource it can be of a tenant, too, whose own
	// CRD has another scope than the system's.
	segments := strings.Count(below, "/")
	if s.layout == space.Namespaced && !s.custom && segments != 2 ||
		s.layout != space.Namespaced && !s.custom && segments != 1 {
		return s, "", false
	}
	return s, tenant, true
}

// class is what the keys of the resource cost.
func (s stored) class() class {
	var c class
	if s.counts {
		c |= isObject
	}
	switch {
	case s.resource == schema.GroupResource{Resource: "namespaces"}:
		c |= isNamespace
	case isEvents(s.resource):
		c |= isEvent
	case s.resource == schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}:
		c |= isCRD
	case s.resource == schema.GroupResource{Resource: tenantapi.Accesses}:
		c |= isAccess
	}
	return c
}

// charge is what a stored value costs besides. c says what quotas of the tenant name.
func (s stored) charge(ctx context.Context, key string, value []byte, c *counting) charge {
	if s.decode == nil || !charged(s.resource) {
		return charge{quota: c.uses(s.resource, nil)}
	}
	obj, err := s.decode(ctx, key, value)
	if err != nil {
		return charge{quota: c.uses(s.resource, nil)} // nobody can use it either
	}
	out := chargeOf(obj)
	out.quota = c.uses(s.resource, obj)
	return out
}
