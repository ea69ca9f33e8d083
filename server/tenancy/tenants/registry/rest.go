package registry

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
)

// registered is evaluated when the package is initialized: a scheme must not
// change once servers and controllers read it.
var registered = tenantapi.AddToScheme(legacyscheme.Scheme)

// pageSize is how many tenants one answer has.
const pageSize = 10000

var errSystemSpace = errors.New("the space of the cluster itself cannot be deleted")

// Usage is what a tenant uses of its limits.
type Usage func(*tenantapi.Tenant) []tenantapi.LimitUsage

// Shown is what is not stored of a tenant, and found out for whoever reads it: what it uses of its
// limits, and what holds of what it and its template say. Each can be nil.
type Shown struct {
	Usage     Usage
	Effective func(*tenantapi.Tenant) *tenantapi.EffectiveSpec
}

// Placer makes and deletes tenants in the partitions that they belong to.
type Placer interface {
	Create(ctx context.Context, t *tenantapi.Tenant, o *metav1.CreateOptions,
		here func(context.Context) (*tenantapi.Tenant, error)) (*tenantapi.Tenant, error)
	// Delete also says whether the tenant is gone already.
	Delete(ctx context.Context, name string, o *metav1.DeleteOptions,
		here func(context.Context, *metav1.DeleteOptions) (t *tenantapi.Tenant, gone bool, err error),
	) (t *tenantapi.Tenant, gone bool, err error)
}

// Options say what the storage goes by. All can be left out.
type Options struct {
	// Shown is asked whenever somebody reads a tenant.
	Shown Shown
	// Gone is called with the name of a tenant that was deleted here, before the answer: a watch would tell of it
	// when another tenant may have the name already.
	Gone func(name string)
	// Placer decides where tenants are made.
	Placer Placer
	// Reserved tells the issuers of the cluster, which are none of a tenant's.
	Reserved func(issuer string) bool
	// Authorizer says whether who writes a template may give access to its tenants, and who makes an access in
	// the space of a tenant has what it gives. Bind says the latter of roles.
	Authorizer authorizer.Authorizer
	Bind       MayBind
}

// Storage returns the REST storage of tenants, of their templates, of accesses to them and of the status of
// all three, by path.
func Storage(getter generic.RESTOptionsGetter, o Options) (map[string]rest.Storage, error) {
	if registered != nil {
		return nil, registered
	}
	templates, templateStatus, err := templateStorage(getter)
	if err != nil {
		return nil, err
	}
	templates.authorizer = o.Authorizer
	spec := newStrategy().without(o.Reserved)
	store, err := apiregistry.Kind[*tenantapi.Tenant]{
		Resource: tenantapi.Resource, Singular: "tenant",
		New:      func() runtime.Object { return &tenantapi.Tenant{} },
		NewList:  func() runtime.Object { return &tenantapi.TenantList{} },
		Strategy: spec.Strategy, Columns: columns(), Selectable: selectable,
		Change: func(store *genericregistry.Store) {
			store.ReturnDeletedObject = true
			store.CreateStrategy, store.UpdateStrategy = spec, spec
			store.DeleteStrategy, store.ResetFieldsStrategy = spec, spec
			if o.Gone != nil {
				store.AfterDelete = func(obj runtime.Object, _ *metav1.DeleteOptions) {
					if t, ok := obj.(*tenantapi.Tenant); ok {
						o.Gone(t.Name)
					}
				}
			}
		},
	}.Store(getter)
	if err != nil {
		return nil, err
	}
	ofStatus := *store
	status := statusStrategy{spec}
	ofStatus.UpdateStrategy, ofStatus.ResetFieldsStrategy = status, status
	templates.tenants = store.List
	accesses, ofAccesses, err := accessStorage(getter, rights{o.Authorizer, o.Bind})
	if err != nil {
		return nil, err
	}
	return map[string]rest.Storage{
		tenantapi.Resource: &tenantREST{store: shown{store, o.Shown.show}, placer: o.Placer, templates: templates,
			open: templates.open, wake: wake(shown{&ofStatus, o.Shown.show})},
		tenantapi.Resource + "/status":  &statusREST{shown{&ofStatus, o.Shown.show}},
		tenantapi.Templates:             templates,
		tenantapi.Templates + "/status": templateStatus,
		tenantapi.Accesses:              accesses,
		tenantapi.Accesses + "/status":  ofAccesses,
	}, nil
}

// show adds to what is read what is not stored.
func (s Shown) show(obj runtime.Object) {
	switch o := obj.(type) {
	case *tenantapi.Tenant:
		if o.Name == space.System {
			return
		}
		if s.Usage != nil {
			o.Status.Usage = s.Usage(o)
		}
		if s.Effective != nil {
			o.Status.Effective = s.Effective(o)
		}
	case *tenantapi.TenantList:
		for i := range o.Items {
			s.show(&o.Items[i])
		}
	}
}

// tenantREST offers all of the store but the deletion of a collection, which
// would go past Delete (and nobody empties all spaces by one request).
type tenantREST struct {
	store  shown
	placer Placer // nil for none
	// templates are those of this partition.
	templates *templateREST
	// open reports whether the template of a tenant gives access to it; wake has the space of one made.
	open func(context.Context, *tenantapi.Tenant) (bool, error)
	wake func(ctx context.Context, name string) (runtime.Object, error)
}

var (
	_ rest.StandardStorage        = (*deleterOfCollections)(nil)
	_ rest.ShortNamesProvider     = (*tenantREST)(nil)
	_ rest.SingularNameProvider   = (*tenantREST)(nil)
	_ rest.StorageVersionProvider = (*tenantREST)(nil)
	_ rest.ResetFieldsStrategy    = (*tenantREST)(nil)
	_ rest.Patcher                = (*statusREST)(nil)
)

// deleterOfCollections shows at compile time that nothing else is missing.
type deleterOfCollections struct {
	tenantREST
	rest.CollectionDeleter
}

func (r *tenantREST) New() runtime.Object                    { return r.store.New() }
func (r *tenantREST) NewList() runtime.Object                { return r.store.NewList() }
func (r *tenantREST) Destroy()                               { r.store.Destroy() }
func (r *tenantREST) NamespaceScoped() bool                  { return r.store.NamespaceScoped() }
func (r *tenantREST) GetSingularName() string                { return r.store.GetSingularName() }
func (r *tenantREST) ShortNames() []string                   { return []string{"te"} }
func (r *tenantREST) StorageVersion() runtime.GroupVersioner { return r.store.StorageVersion() }
func (r *tenantREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

func (r *tenantREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// List returns at most pageSize tenants, with a token for those that follow: a
// million of them would not fit into one answer.
func (r *tenantREST) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	if options == nil {
		options = &metainternalversion.ListOptions{}
	}
	if options.Limit <= 0 || options.Limit > pageSize {
		options = options.DeepCopy()
		options.Limit = pageSize
	}
	return r.store.List(ctx, options)
}

func (r *tenantREST) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	return r.store.Watch(ctx, options)
}

func (r *tenantREST) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	t, ok := obj.(*tenantapi.Tenant)
	if !ok {
		return r.store.Create(ctx, obj, validate, options)
	}
	ctx = awaited(ctx)
	if r.placer == nil {
		if err := r.templates.fill(ctx, t); err != nil {
			return nil, err
		}
		obj, err := r.store.Create(ctx, t, validate, options)
		return r.woken(ctx, obj, options.DryRun, err)
	}
	made, err := r.placer.Create(ctx, t, options, func(ctx context.Context) (*tenantapi.Tenant, error) {
		// Not before: a tenant has a template of the partition that it is in.
		if err := r.templates.fill(ctx, t); err != nil {
			return nil, err
		}
		obj, err := r.store.Create(ctx, t, validate, options)
		obj, err = r.woken(ctx, obj, options.DryRun, err)
		made, _ := obj.(*tenantapi.Tenant)
		return made, err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (r *tenantREST) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	ctx = awaited(ctx)
	obj, created, err := r.store.Update(ctx, name, rest.WrapUpdatedObjectInfo(info, r.filled), create,
		apiregistry.ThenUpdate(update, r.templates.warn), forceCreate, options)
	obj, err = r.woken(ctx, obj, options.DryRun, err)
	return obj, created, err
}

// woken has the space of a dormant tenant made, after it was written, whose template gives access to it: somebody
// waits for it who makes no request before. It is written so at once (awaited), unless its template got its first
// access in that moment. If it fails, the next change of the Tenant does it, and so does a server that begins to lead.
func (r *tenantREST) woken(
	ctx context.Context, obj runtime.Object, dryRun []string, err error,
) (runtime.Object, error) {
	t, ok := obj.(*tenantapi.Tenant)
	if err != nil || !ok || len(dryRun) > 0 || !t.Dormant() || t.DeletionTimestamp != nil {
		return obj, err
	}
	open, err := r.open(ctx, t)
	if err == nil && open {
		obj, err = r.wake(ctx, t.Name)
	}
	if err != nil {
		// Not with the reason of the cause: the Tenant was not refused.
		return nil, apierrors.NewInternalError(fmt.Errorf("the Tenant %s is written, but its space is not made, "+
			"which the accesses of its template wait for; write it again: %w", t.Name, err))
	}
	return obj, nil
}

// wake returns what has the space of a dormant tenant made.
func wake(status shown) func(context.Context, string) (runtime.Object, error) {
	info := rest.DefaultUpdatedObjectInfo(nil, func(
		_ context.Context, _, old runtime.Object,
	) (runtime.Object, error) {
		t := old.(*tenantapi.Tenant).DeepCopy()
		if t.DeletionTimestamp == nil {
			toBeMade(t)
		}
		return t, nil
	})
	return func(ctx context.Context, name string) (runtime.Object, error) {
		obj, _, err := status.Update(ctx, name, info, nil, nil, false, &metav1.UpdateOptions{})
		return obj, err
	}
}

// filled gives a Tenant that is made by an update, as server-side apply does, what Create gives to others. Of a
// dormant one that is there it notes whether its template, which may be another one now, gives access to it.
func (r *tenantREST) filled(ctx context.Context, obj, was runtime.Object) (runtime.Object, error) {
	t, ok := obj.(*tenantapi.Tenant)
	old, _ := was.(*tenantapi.Tenant)
	switch {
	case !ok || old == nil:
		return obj, nil
	case old.UID == "":
		return t, r.templates.fill(ctx, t)
	case !old.Dormant():
		return t, nil
	}
	open, err := r.open(ctx, t)
	note(ctx, open)
	return t, err
}

// Delete marks a tenant, unless that is forbidden; its controller empties the space and lets it
// go.
func (r *tenantREST) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	if name == space.System {
		return nil, false, apierrors.NewForbidden(tenantapi.GroupResource(), name, errSystemSpace)
	}
	validate = unprotected(validate)
	if r.placer == nil {
		return r.store.Delete(ctx, name, validate, options)
	}
	deleted, gone, err := r.placer.Delete(ctx, name, options, func(
		ctx context.Context, options *metav1.DeleteOptions,
	) (*tenantapi.Tenant, bool, error) {
		obj, gone, err := r.store.Delete(ctx, name, validate, options)
		t, _ := obj.(*tenantapi.Tenant)
		return t, gone, err
	})
	if err != nil {
		return nil, false, err
	}
	return deleted, gone, nil
}

func (r *tenantREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}

// statusREST changes the status alone.
type statusREST struct{ store shown }

func (r *statusREST) New() runtime.Object { return r.store.New() }

// Destroy leaves the store to the storage of tenants, which shares it.
func (r *statusREST) Destroy() {}

func (r *statusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

func (r *statusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

func (r *statusREST) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, create, update, false, options)
}

func (r *statusREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}
