package storage

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// The Service by which pods find the API, its Endpoints and its EndpointSlice
// are stored once, in the system space, where the API server keeps them right.
// Every other space shows the same three as its own. What reads without a space,
// as the proxies of the nodes and all controllers do, sees the stored ones only.

// isAPI reports whether a key is that of one of these objects in a space other
// than the system's. Nothing can be stored there.
func (m *confinement) isAPI(key string) bool {
	if !kinds.OfAPI(m.keys.resource.Group, m.keys.resource.Resource) {
		return false
	}
	tenant := m.keys.tenantOfKey(key)
	return !space.IsSystem(tenant) && m.keys.below(key) == belowAPI(tenant)
}

// belowAPI is the composite key of the objects below the prefix.
func belowAPI(tenant string) string {
	return space.Namespace(tenant, metav1.NamespaceDefault) + "/" + kinds.APIObject
}

// showsAPI reports whether what a request reads has the object in it, and in which
// space. What is to be deleted has not.
func (m *mapped) showsAPI(ctx context.Context, key string) (tenant string, ok bool) {
	if !kinds.OfAPI(m.keys.resource.Group, m.keys.resource.Resource) {
		return "", false
	}
	tenant, ok = space.FromContext(ctx)
	if !ok || space.IsSystem(tenant) {
		return "", false
	}
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Verb == "deletecollection" {
		return "", false
	}
	switch m.keys.below(key) {
	case "", space.Namespace(tenant, metav1.NamespaceDefault), belowAPI(tenant):
		return tenant, true
	}
	return "", false
}

// ofAPI is where the object is stored.
func (k *objectKeys) ofAPI() string {
	return k.prefix + "/" + metav1.NamespaceDefault + "/" + kinds.APIObject
}

// getAPI reads the object as a space has it.
func (m *mapped) getAPI(ctx context.Context, tenant string, opts storage.GetOptions, out runtime.Object) error {
	if err := m.Interface.Get(ctx, m.keys.ofAPI(), opts, out); err != nil {
		return err
	}
	accessor, err := meta.Accessor(out)
	if err != nil || accessor.GetName() == "" {
		return err // it is not there, and need not be
	}
	return asOf(tenant, out)
}

// asOf makes the object that of a space. What administrators and components of
// the cluster noted on it is theirs.
func asOf(tenant string, obj runtime.Object) error {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	accessor.SetNamespace(space.Namespace(tenant, metav1.NamespaceDefault))
	accessor.SetAnnotations(nil)
	accessor.SetManagedFields(nil)
	accessor.SetOwnerReferences(nil)
	accessor.SetFinalizers(nil)
	return nil
}

// addAPI puts the object behind the last page of a list.
func (m *mapped) addAPI(ctx context.Context, tenant string, asked storage.ListOptions, list runtime.Object) error {
	if own, err := meta.ListAccessor(list); err != nil || own.GetContinue() != "" {
		return err
	}
	obj := m.keys.newFunc()
	if err := m.getAPI(ctx, tenant, storage.GetOptions{IgnoreNotFound: true, ResourceVersion: "0"}, obj); err != nil {
		return err
	}
	if accessor, err := meta.Accessor(obj); err != nil || accessor.GetName() == "" {
		return err
	}
	if asked.Predicate.GetAttrs != nil {
		if matches, err := asked.Predicate.Matches(obj); err != nil || !matches {
			return err
		}
	}
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return fmt.Errorf("adding to a list: %w", err)
	}
	into := reflect.ValueOf(items).Elem()
	into.Set(reflect.Append(into, reflect.ValueOf(obj).Elem()))
	return nil
}

// withoutAPI leaves out what an earlier version stored in the object's place.
func (m *mapped) withoutAPI(tenant string, opts *storage.ListOptions) {
	p := &opts.Predicate
	if p.Field == nil {
		p.Field = fields.Everything()
	}
	p.Field = exceptAPI{Selector: p.Field, namespace: space.Namespace(tenant, metav1.NamespaceDefault)}
}

// exceptAPI selects what the selector within does, but for the object's place.
type exceptAPI struct {
	fields.Selector
	namespace string
}

// Matches implements fields.Selector.
func (s exceptAPI) Matches(f fields.Fields) bool {
	if f.Get(nameField) == kinds.APIObject && f.Get(namespaceField) == s.namespace {
		return false
	}
	return s.Selector.Matches(f)
}

// Empty implements fields.Selector: it always selects.
func (exceptAPI) Empty() bool { return false }

// DeepCopySelector implements fields.Selector.
func (s exceptAPI) DeepCopySelector() fields.Selector {
	return exceptAPI{Selector: s.Selector.DeepCopySelector(), namespace: s.namespace}
}

const namespaceField = "metadata.namespace"

// apiOnly selects the stored object, if the selector within selects it in the
// space that shows it.
type apiOnly struct {
	fields.Selector
	namespace string
}

// Matches implements fields.Selector.
func (s apiOnly) Matches(f fields.Fields) bool {
	return f.Get(tenantField) == space.System && f.Get(nameField) == kinds.APIObject &&
		f.Get(namespaceField) == metav1.NamespaceDefault &&
		s.Selector.Matches(elsewhere{f, s.namespace})
}

// RequiresExactMatch implements fields.Selector.
func (s apiOnly) RequiresExactMatch(field string) (string, bool) {
	switch field {
	case nameField:
		return kinds.APIObject, true
	case namespaceField:
		return metav1.NamespaceDefault, true
	}
	return s.Selector.RequiresExactMatch(field)
}

// Empty implements fields.Selector: it always selects.
func (apiOnly) Empty() bool { return false }

// DeepCopySelector implements fields.Selector.
func (s apiOnly) DeepCopySelector() fields.Selector {
	return apiOnly{Selector: s.Selector.DeepCopySelector(), namespace: s.namespace}
}

// elsewhere are the attributes of an object in another namespace.
type elsewhere struct {
	fields.Fields
	namespace string
}

// Get implements fields.Fields.
func (e elsewhere) Get(field string) string {
	if field == namespaceField {
		return e.namespace
	}
	return e.Fields.Get(field)
}

// withAPI makes one watch of that of a space and one of the stored object.
func (m *mapped) withAPI(
	ctx context.Context, tenant string, asked storage.ListOptions, own watch.Interface,
) (watch.Interface, error) {
	initial := asked.SendInitialEvents != nil && *asked.SendInitialEvents
	opts := asked
	p := &opts.Predicate
	if p.Field == nil {
		p.Field = fields.Everything()
	}
	p.Field = apiOnly{Selector: p.Field, namespace: space.Namespace(tenant, metav1.NamespaceDefault)}
	if p.GetAttrs != nil {
		p.GetAttrs = m.keys.withTenant(p.GetAttrs)
	}
	p.IndexFields, p.IndexLabels, p.AllowWatchBookmarks, opts.Recursive = nil, nil, initial, false
	// The cache looks for the events of a watch by what the request names.
	where := request.WithNamespace(ctx, metav1.NamespaceDefault)
	if info, ok := request.RequestInfoFrom(ctx); ok {
		named := *info
		named.Namespace, named.Name = metav1.NamespaceDefault, kinds.APIObject
		where = request.WithRequestInfo(where, &named)
	}
	stored, err := m.Interface.Watch(where, m.keys.ofAPI(), opts)
	if err != nil {
		own.Stop()
		return nil, err
	}
	w := &apiWatch{own: own, stored: stored, events: make(chan watch.Event), stop: make(chan struct{})}
	go w.run(ctx, initial, func(obj runtime.Object) runtime.Object {
		obj = obj.DeepCopyObject()
		if asOf(tenant, obj) != nil {
			return nil
		}
		return obj
	})
	return w, nil
}

// apiWatch is the watch of a space and of the object that it shows.
type apiWatch struct {
	own, stored watch.Interface
	events      chan watch.Event
	stop        chan struct{}
	once        sync.Once
}

// ResultChan implements watch.Interface.
func (w *apiWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *apiWatch) Stop() { w.once.Do(func() { close(w.stop) }) }

// run passes on what both tell until one of them ends. Bookmarks are those of
// the space: that which ends the initial events comes after those of the object.
func (w *apiWatch) run(ctx context.Context, initial bool, show func(runtime.Object) runtime.Object) {
	defer close(w.events)
	defer w.own.Stop()
	defer w.stored.Stop()
	own := w.own.ResultChan()
	if initial {
		own = nil
	}
	for {
		var event watch.Event
		var ok bool
		select {
		case <-w.stop:
			return
		case <-ctx.Done():
			return
		case event, ok = <-own:
		case event, ok = <-w.stored.ResultChan():
			if ok && event.Type == watch.Bookmark {
				own = w.own.ResultChan()
				continue
			}
			if ok { // there is no object in what a closed channel gives
				event = shown(event, show)
				ok = event.Object != nil
			}
		}
		if !ok {
			return
		}
		select {
		case w.events <- event:
		case <-w.stop:
			return
		case <-ctx.Done():
			return
		}
	}
}
