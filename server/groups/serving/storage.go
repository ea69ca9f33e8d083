package serving

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// streamAnnotation in the audit event of a watch is the stream that it is.
const streamAnnotation = "a4s.io/stream"

// grouped is the storage of a resource. Reads and writes of single objects that do not
// ask for the cache reach the datastore as they do upstream.
type grouped struct {
	storage.Interface // with the cache of the group
	all               storage.Interface
	// stream is the stream of a group without a cache.
	stream func(group string) (storage.Interface, error)
	// tableOf is who owned what at a revision.
	tableOf func(ctx context.Context, rev int64) (*ownership.Table, error)
	held    *held
	key     func(runtime.Object) (string, error)
	layout  space.Layout
	prefix  string // of stored keys
}

// scope is what a request reads.
type scope struct {
	tenant string // "" for everything
}

func (s scope) whole() bool { return s.tenant == "" }

// scope is what a stored key and the space that the request is addressed to say.
// Requests that are addressed to the system see nothing of tenants.
func (g *grouped) scope(ctx context.Context, key string) scope {
	rest := strings.TrimPrefix(strings.TrimPrefix(key, g.prefix), "/")
	addressed, ok := space.FromContext(ctx)
	if tenant := ownership.TenantOf(g.layout, rest); tenant != space.System {
		return scope{tenant: tenant}
	}
	switch {
	case ok && !space.IsSystem(addressed):
		return scope{tenant: addressed}
	case ok || rest != "":
		return scope{tenant: space.System}
	}
	return scope{}
}

// Get implements storage.Interface.
func (g *grouped) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	s := g.scope(ctx, key)
	if opts.ResourceVersion == "" || s.tenant == space.System {
		return g.Interface.Get(ctx, key, opts, out)
	}
	return g.cached(s, func(from storage.Interface) error { return from.Get(ctx, key, opts, out) }, out)
}

// GetList implements storage.Interface.
func (g *grouped) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	s := g.scope(ctx, key)
	asked, streamed := partitionapi.AskedStream(ctx)
	switch {
	case s.whole() && streamed && asked.Listed != nil:
		return g.listStream(ctx, asked, key, opts, list)
	case s.whole() && partitionapi.AsksForPart(ctx):
		return g.getPart(ctx, key, opts, list)
	case s.tenant == space.System:
		return g.Interface.GetList(ctx, key, opts, list)
	default:
		return g.cached(s, func(from storage.Interface) error { return from.GetList(ctx, key, opts, list) }, list)
	}
}

// cached reads from the cache what it holds, and from the datastore what it does not, or
// what moves meanwhile.
func (g *grouped) cached(s scope, read func(storage.Interface) error, out runtime.Object) error {
	changes, ok := g.held.has(s.tenant)
	if !ok {
		return read(g.all)
	}
	err := read(g.Interface)
	if g.held.unchanged(changes) {
		return err
	}
	if err := runtime.SetZeroValue(out); err != nil {
		return err
	}
	return read(g.all)
}

// getPart lists what the group holds, between two moves.
func (g *grouped) getPart(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	for {
		changes, err := g.held.still(ctx)
		if err != nil {
			return err
		}
		if err := g.Interface.GetList(ctx, key, opts, list); err != nil || g.held.unchanged(changes) {
			return err
		}
		if err := runtime.SetZeroValue(list); err != nil {
			return err
		}
	}
}

// Watch implements storage.Interface.
func (g *grouped) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	s := g.scope(ctx, key)
	asked, streamed := partitionapi.AskedStream(ctx)
	switch {
	case s.whole() && streamed && asked.Split != nil:
		asked.Split()
		audit.AddAuditAnnotation(ctx, streamAnnotation, asked.Group)
		return g.watchStream(ctx, asked.Group, key, opts)
	case s.whole() && partitionapi.AsksForPart(ctx):
		return g.watchPart(ctx, key, opts)
	case s.tenant == space.System:
		return g.Interface.Watch(ctx, key, opts)
	default:
		return g.watchTenant(ctx, s.tenant, key, opts)
	}
}

// watchPart watches what the group holds, from between two moves: all objects of a move
// have its revision, and a watch of the cache that begins at a revision has nothing more
// of it.
func (g *grouped) watchPart(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	for {
		changes, err := g.held.still(ctx)
		if err != nil {
			return nil, err
		}
		w, err := g.Interface.Watch(ctx, key, opts)
		if err != nil || g.held.unchanged(changes) {
			return w, err
		}
		w.Stop()
	}
}

// behind is the storage behind the cache of a group: what the cache cannot answer.
type behind struct {
	storage.Interface // of the part
	all               storage.Interface
	prefix            string
}

// GetList implements storage.Interface. Only a list of the part has the ranges: a tenant
// is read whoever holds it, for it may not have been held at the revision asked for.
func (b *behind) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	from := b.all
	addressed, ok := space.FromContext(ctx)
	if strings.Trim(strings.TrimPrefix(key, b.prefix), "/") == "" && (!ok || space.IsSystem(addressed)) {
		from = b.Interface
	}
	return from.GetList(ctx, key, opts, list)
}

// GetCurrentResourceVersion implements storage.Interface.
func (b *behind) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	return b.all.GetCurrentResourceVersion(ctx)
}
