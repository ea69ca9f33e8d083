package serving

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// loading is how long a client should wait, in seconds, before it asks a server again
// whose cache is not filled.
const loading = 1

// listStream lists what a stream has: as of the revision of the list the tenants that the
// group owned then. So the lists of all streams at one revision are complete together. It
// has no pages: who merges lists wants all of them.
func (g *grouped) listStream(
	ctx context.Context, asked partitionapi.Stream, key string, opts storage.ListOptions, list runtime.Object,
) error {
	if opts.Predicate.Continue != "" {
		return apierrors.NewBadRequest("a list of a stream has no pages: continue cannot be set")
	}
	opts.Predicate.Limit = 0
	table, err := g.listOf(ctx, asked.Group, key, opts, list)
	if err != nil {
		return err
	}
	if err := g.keep(table, asked.Group, list); err != nil {
		return storage.NewInternalError(err)
	}
	audit.AddAuditAnnotation(ctx, streamAnnotation, asked.Group)
	asked.Listed(table.Streamed())
	return nil
}

// listOf lists what has a stream in it, from the cache if that holds it, and from the
// datastore otherwise. It returns who owned what at the revision of the list.
func (g *grouped) listOf(
	ctx context.Context, group, key string, opts storage.ListOptions, list runtime.Object,
) (*ownership.Table, error) {
	for {
		changes, err := g.held.still(ctx)
		if err != nil {
			return nil, err
		}
		held, err := g.held.serves(group)
		if err != nil {
			return nil, err
		}
		if !held {
			return g.listUncached(ctx, group, key, opts, list)
		}
		if err := g.Interface.GetList(ctx, key, opts, list); err != nil {
			return nil, err
		}
		rev, err := revisionIn(list)
		if err != nil {
			return nil, err
		}
		if table, ok := g.held.listed(group, rev, changes); ok {
			return table, nil
		}
		if err := runtime.SetZeroValue(list); err != nil {
			return nil, err
		}
		if g.held.unchanged(changes) { // at that revision it did not
			return g.listUncached(ctx, group, key, opts, list)
		}
	}
}

// listUncached lists a stream in the datastore.
func (g *grouped) listUncached(
	ctx context.Context, group, key string, opts storage.ListOptions, list runtime.Object,
) (*ownership.Table, error) {
	from, err := g.stream(group)
	if err != nil {
		return nil, storage.NewInternalError(err)
	}
	if err := from.GetList(ctx, key, opts, list); err != nil {
		return nil, err
	}
	rev, err := revisionIn(list)
	if err != nil {
		return nil, err
	}
	return g.tableOf(ctx, rev)
}

func revisionIn(list runtime.Object) (int64, error) {
	l, err := meta.ListAccessor(list)
	if err != nil {
		return 0, err
	}
	rev, err := strconv.ParseInt(l.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the revision of a list: %w", err)
	}
	return rev, nil
}

// keep leaves in a list what a stream has.
func (g *grouped) keep(table *ownership.Table, group string, list runtime.Object) error {
	all, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	kept := make([]runtime.Object, 0, len(all))
	for _, obj := range all {
		tenant, err := g.tenantOf(obj)
		if err != nil {
			return err
		}
		if table.Streams(group, tenant) {
			kept = append(kept, obj)
		}
	}
	if len(kept) == len(all) {
		return nil
	}
	return meta.SetList(list, kept)
}

// serves reports whether the cache has all of a stream now. It is an error if it has nothing
// yet: it would not be filled while all clients that wait for it read the datastore.
func (h *held) serves(group string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.table == nil {
		return false, apierrors.NewTooManyRequests("the cache of this server is being filled", loading)
	}
	return h.streamed(group, h.table), nil
}

// listed is who owned what at a revision of the cache; ok is false if it did not hold all of
// a stream then, or if something has moved since.
func (h *held) listed(group string, rev int64, changes int) (_ *ownership.Table, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changes != changes || h.table == nil {
		return nil, false
	}
	s, ok := h.tables.At(rev)
	return s.table, ok && h.streamed(group, s.table)
}
