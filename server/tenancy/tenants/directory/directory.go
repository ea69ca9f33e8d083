package directory

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	objects "github.com/a4s-io/a4s/server/tenancy/tenants/templates"
)

// Directory is a watched list of tenants.
type Directory struct {
	client     *tenantapi.Client
	store      cache.Store
	controller cache.Controller
	gone       []func(name string)
	changed    func(old, t *tenantapi.Tenant)
	onTemplate func(name string, t *tenantapi.TenantTemplate)
	*templates
	followers followers
}

// New makes a directory that is filled by Run. cfg is a client of the system.
// What it keeps shares its strings in the pool.
func New(cfg *rest.Config, pool *interning.Pool) (*Directory, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // whoever asks has waited for their turn
	client, err := tenantapi.NewClient(cfg, nil)
	if err != nil {
		return nil, err
	}
	d := &Directory{client: client}
	d.store, d.controller = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: tenantapi.ListWatch(client),
		ObjectType:    &tenantapi.Tenant{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { d.update(nil, obj) },
			UpdateFunc: d.update,
			DeleteFunc: d.deleted,
		},
		// Nobody asks it for managed fields, nor for what is found out for readers and not stored.
		Transform: func(obj any) (any, error) {
			if t, ok := obj.(*tenantapi.Tenant); ok {
				t.Status.Usage, t.Status.Effective = nil, nil
			}
			return pool.Transform(obj)
		},
	})
	if d.templates, err = newTemplates(cfg, pool, d.template); err != nil {
		return nil, err
	}
	return d, nil
}

// OnGone has f called with the name of every tenant that is gone. It must be
// called before Run, and may be called again.
func (d *Directory) OnGone(f func(name string)) { d.gone = append(d.gone, f) }

// OnChange has f called with every tenant that is new (old is nil then) or has
// changed. It must be called before Run.
func (d *Directory) OnChange(f func(old, t *tenantapi.Tenant)) { d.changed = f }

// OnTemplate has f called with every template that is new, has changed or, with nil, is gone. It must be
// called before Run.
func (d *Directory) OnTemplate(f func(name string, t *tenantapi.TenantTemplate)) { d.onTemplate = f }

func (d *Directory) template(name string, t *tenantapi.TenantTemplate) {
	if d.onTemplate != nil {
		d.onTemplate(name, t)
	}
	d.followers.template(name)
}

func (d *Directory) update(old, obj any) {
	before, _ := old.(*tenantapi.Tenant)
	t, ok := obj.(*tenantapi.Tenant)
	if ok && before != nil && before.UID != t.UID {
		// Its end was missed: the watch was interrupted.
		d.deleted(before)
		before = nil
	}
	if ok && d.changed != nil {
		d.changed(before, t)
	}
	if ok {
		d.followers.tenant(before, t)
	}
}

func (d *Directory) deleted(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if t, ok := obj.(*tenantapi.Tenant); ok {
		for _, gone := range d.gone {
			gone(t.Name)
		}
		d.followers.tenant(t, nil)
	}
}

// Run watches tenants and templates until ctx ends.
func (d *Directory) Run(ctx context.Context, ready func()) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { d.templates.controller.RunWithContext(ctx) })
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), d.controller.HasSynced, d.templates.controller.HasSynced) {
			ready()
		}
	})
	d.controller.RunWithContext(ctx)
	return nil
}

// Get finds a tenant, nil when there is none. What it returns must not be
// changed.
func (d *Directory) Get(ctx context.Context, name string) (*tenantapi.Tenant, error) {
	if t := d.Known(name); t != nil {
		return t, nil
	}
	if name != space.System && space.ValidateTenant(name) != nil {
		return nil, nil
	}
	t, err := d.client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking for tenant %s: %w", name, err)
	}
	return t, nil
}

// Exists reports whether there is a Tenant of this name.
func (d *Directory) Exists(ctx context.Context, name string) (bool, error) {
	t, err := d.Get(ctx, name)
	return t != nil, err
}

// Names are those of all tenants that are known, in no order.
func (d *Directory) Names() []string { return d.store.ListKeys() }

// ReadsNodes reports whether users of a tenant may read the nodes of the cluster.
func (d *Directory) ReadsNodes(ctx context.Context, name string) (bool, error) {
	t, err := d.Get(ctx, name)
	return t != nil && t.Spec.Nodes == tenantapi.NodesReadOnly, err
}

// Synced reports whether the tenants and the templates are known that there were at the start.
func (d *Directory) Synced() bool {
	return d.controller.HasSynced() && d.templates.controller.HasSynced()
}

// Terminating reports whether a tenant is known to be being deleted.
func (d *Directory) Terminating(name string) bool {
	t := d.Known(name)
	return t != nil && t.DeletionTimestamp != nil
}

// Known finds a tenant that is known by now, or nil. What it returns must not be
// changed.
func (d *Directory) Known(name string) *tenantapi.Tenant {
	obj, ok, err := d.store.GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	t, _ := obj.(*tenantapi.Tenant)
	return t
}

// Keeper is the template that an object of a tenant is of, by its composite name, and what the object
// is called in there; template is "" if it is of none. Nothing is kept in the space of a tenant that is being
// deleted: what is in the way of that can be taken off.
func (d *Directory) Keeper(
	ctx context.Context, tenant string, r schema.GroupResource, namespace, name string,
) (template, object string, err error) {
	kind, ok := objects.KindOf(r)
	if !ok {
		return "", "", nil
	}
	t, err := d.Get(ctx, tenant)
	if err != nil || t == nil || t.Status.Template == nil || t.DeletionTimestamp != nil {
		return "", "", err
	}
	ref := kind.Ref(namespace, name)
	if !t.Status.Template.Has(ref) {
		return "", "", nil
	}
	return t.Status.Template.Name, ref.String(), nil
}
