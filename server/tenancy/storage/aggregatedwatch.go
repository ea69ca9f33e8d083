package storage

import (
	"context"
	"fmt"
	"path"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/server/tenancy/roles"
)

// watched shows, in a watch of the roles of a space, the shared ones as they
// are in it. A change of a role of the space is also one of each of them that then
// gives something else. A watch with a selector does not see all roles of the space:
// it is told with the next change of the shared role itself.
func (m *rolesInSpaces) watched(
	ctx context.Context, tenant string, asked storage.ListOptions, inner watch.Interface,
) watch.Interface {
	labels, fields := asked.Predicate.Label, asked.Predicate.Field
	w := &aggregatedWatch{
		Interface: inner, m: m, tenant: tenant, events: make(chan watch.Event),
		whole: (labels == nil || labels.Empty()) && (fields == nil || fields.Empty()),
		// What comes first is as it is now, all of it.
		initial: asked.SendInitialEvents != nil && *asked.SendInitialEvents,
		sent:    map[string][]rbacv1.PolicyRule{},
	}
	go w.run(ctx)
	return w
}

type aggregatedWatch struct {
	watch.Interface
	m              *rolesInSpaces
	tenant         string
	events         chan watch.Event
	whole, initial bool
	// sent is what the watch was told last, by name.
	sent map[string][]rbacv1.PolicyRule
}

// ResultChan implements watch.Interface.
func (w *aggregatedWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *aggregatedWatch) run(ctx context.Context) {
	defer close(w.events)
	for event := range w.Interface.ResultChan() {
		out, err := w.shown(ctx, event)
		if err != nil {
			failed := metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
				Message: err.Error(), Code: 500}
			out = []watch.Event{{Type: watch.Error, Object: &failed}}
		}
		for _, event := range out {
			select {
			case w.events <- event:
			case <-ctx.Done():
				w.Stop()
				return
			}
		}
	}
}

// shown is what the watch is told of an event.
func (w *aggregatedWatch) shown(ctx context.Context, event watch.Event) ([]watch.Event, error) {
	switch event.Type {
	case watch.Bookmark:
		if accessor, err := meta.Accessor(event.Object); err == nil &&
			accessor.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			w.initial = false
		}
		return []watch.Event{event}, nil
	case watch.Error:
		return []watch.Event{event}, nil
	}
	obj := event.Object
	if shared, ok := obj.(runtime.CacheableObject); ok {
		obj = shared.GetObject()
	}
	role, err := versioned(obj)
	if err != nil {
		return nil, err
	}
	if roles.Shared(role.Name) {
		if role.AggregationRule == nil {
			return []watch.Event{event}, nil
		}
		event.Object = obj.DeepCopyObject()
		return []watch.Event{event}, w.aggregate(ctx, event.Object)
	}
	out := []watch.Event{event}
	if !w.whole || w.initial {
		return out, nil
	}
	shared, err := w.m.shared()
	if err != nil {
		return nil, err
	}
	for _, s := range shared {
		if s.AggregationRule == nil {
			continue
		}
		before, known := w.sent[s.Name]
		changed, err := w.read(ctx, s.Name, role.ResourceVersion)
		switch {
		case storage.IsNotFound(err):
		case err != nil:
			return nil, err
		case !known || !equality.Semantic.DeepEqual(before, w.sent[s.Name]):
			out = append(out, watch.Event{Type: watch.Modified, Object: changed})
		}
	}
	return out, nil
}

// read gets a shared role as it is in the space now, as of a version.
func (w *aggregatedWatch) read(ctx context.Context, name, version string) (runtime.Object, error) {
	obj := w.m.keys.newFunc()
	if err := w.m.Interface.Get(ctx, path.Join(w.m.keys.prefix, name),
		storage.GetOptions{ResourceVersion: "0"}, obj); err != nil {
		return nil, err
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("reading a ClusterRole: %w", err)
	}
	accessor.SetResourceVersion(version)
	return obj, w.aggregate(ctx, obj)
}

// aggregate makes a shared role that of the space and notes what it is.
func (w *aggregatedWatch) aggregate(ctx context.Context, obj runtime.Object) error {
	if err := w.m.asIn(ctx, w.tenant, obj); err != nil {
		return err
	}
	role, err := versioned(obj)
	if err != nil {
		return err
	}
	w.sent[role.Name] = slices.Clone(role.Rules)
	return nil
}
