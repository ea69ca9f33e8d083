package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/listsize"
)

// Visible knows which CRDs of the system tenants are shown.
type Visible interface {
	// Shown are the names of those that a tenant is shown if it has none of its
	// own of the name, Shows whether it is shown the system's in any case.
	Shown(tenant string) []string
	Shows(tenant, name string, own bool) bool
	// Returned says that something was shown as of a version, and Misses whether
	// something may have changed since one.
	Returned(resourceVersion string)
	Misses(tenant, resourceVersion string) bool
}

// Shown adds the CRDs of the system that serve a tenant to what the
// tenant reads. They are read as they are stored, and shown as project says.
type Shown struct {
	of Visible

	mu      sync.Mutex
	watches map[*shownWatch]struct{}
}

// NewShown is for one storage of CRDs.
func NewShown(of Visible) *Shown {
	return &Shown{of: of, watches: map[*shownWatch]struct{}{}}
}

// Changed tells watches that something else may be shown: to one tenant, or to
// all if it is "", and of one CRD, or of all if that is empty. What a
// tenant changes in its own they see themselves.
func (s *Shown) Changed(tenant string, r schema.GroupResource) {
	if tenant != "" && !r.Empty() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if tenant == "" || w.tenant == tenant {
			w.wakes(r)
		}
	}
}

// viewer is the tenant that reads, "" if it is the system. The garbage collector
// reads as its owners are in a space: it asks for the composite name.
func viewer(ctx context.Context, name string) string {
	tenant, addressed := space.FromContext(ctx)
	if !addressed && name != "" {
		if u, ok := request.UserFrom(ctx); ok && authn.IsController(u) {
			tenant, _ = space.SplitClusterName(name)
		}
	}
	if space.IsSystem(tenant) || tenant == space.All {
		return ""
	}
	return tenant
}

// shared reads a CRD of the system as it is shown to a tenant.
func (d *store) shared(ctx context.Context, tenant, name string) (*apiextensions.CustomResourceDefinition, error) {
	obj, err := d.REST.Get(space.WithTenant(ctx, space.System), name, &metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("a definition is a %T", obj))
	}
	return project(tenant, crd), nil
}

// own reads a tenant's own CRD from the cache, nil if there is none.
func (d *store) own(ctx context.Context, tenant, name string) (runtime.Object, error) {
	obj, err := d.REST.Get(ctx, space.ClusterName(tenant, name), &metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj, err
}

// Get implements rest.Getter.
func (d *store) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	own, err := d.REST.Get(ctx, name, options)
	tenant := viewer(ctx, name)
	if tenant == "" || err != nil && !apierrors.IsNotFound(err) {
		return own, err
	}
	_, native := space.SplitClusterName(name)
	if !d.shown.of.Shows(tenant, native, err == nil) {
		return own, err
	}
	shared, sharedErr := d.shared(ctx, tenant, native)
	if apierrors.IsNotFound(sharedErr) {
		return own, err // it has gone just now
	}
	if sharedErr != nil {
		return nil, sharedErr
	}
	return shared, nil
}

// asked is what a list or watch selects.
func asked(options *internalversion.ListOptions) storage.SelectionPredicate {
	label, field := labels.Everything(), fields.Everything()
	if options != nil && options.LabelSelector != nil {
		label = options.LabelSelector
	}
	if options != nil && options.FieldSelector != nil {
		field = options.FieldSelector
	}
	return customresourcedefinition.MatchCustomResourceDefinition(label, field)
}

// selects reports whether a CRD that is shown to a tenant is asked for: in
// requests of the tenant it has a composite name.
func selects(
	p storage.SelectionPredicate, tenant string, shown *apiextensions.CustomResourceDefinition,
) (bool, error) {
	composite := *shown
	composite.Name = space.ClusterName(tenant, shown.Name)
	return p.Matches(&composite)
}

// List implements rest.Lister. What a tenant is shown of the system's comes
// behind its own.
func (d *store) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	tenant := viewer(ctx, "")
	if tenant == "" {
		return d.REST.List(ctx, options)
	}
	page := pageOf(options)
	list := &apiextensions.CustomResourceDefinitionList{}
	if page.resumed {
		list.ResourceVersion = page.version
	} else {
		var err error
		if list, err = d.listOwn(ctx, tenant, options); err != nil {
			return nil, err
		}
	}
	d.shown.of.Returned(list.ResourceVersion)
	p := asked(options)
	var shown []apiextensions.CustomResourceDefinition
	for _, name := range d.shown.of.Shown(tenant) {
		own, err := d.own(ctx, tenant, name)
		if err != nil {
			return nil, err
		}
		if own != nil && !d.shown.of.Shows(tenant, name, true) || page.resumed && name <= page.after {
			continue
		}
		crd, err := d.shared(ctx, tenant, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if ok, err := selects(p, tenant, crd); err != nil {
			return nil, err
		} else if ok {
			shown = append(shown, *crd)
		}
	}
	page.add(list, shown)
	listsize.Note(ctx, list)
	return list, nil
}

// listOwn lists a tenant's own CRDs, without those in whose place it is
// shown the system's.
func (d *store) listOwn(
	ctx context.Context, tenant string, options *internalversion.ListOptions,
) (*apiextensions.CustomResourceDefinitionList, error) {
	list, err := d.listStored(ctx, options)
	if err != nil {
		return nil, err
	}
	if options != nil && options.ResourceVersion != "" &&
		options.ResourceVersionMatch != metav1.ResourceVersionMatchExact &&
		d.shown.of.Misses(tenant, list.ResourceVersion) {
		// A watch could not begin there: what has changed since is of another
		// resource, and this one stands still.
		latest := options.DeepCopy()
		latest.ResourceVersion, latest.ResourceVersionMatch = "", ""
		if list, err = d.listStored(ctx, latest); err != nil {
			return nil, err
		}
	}
	kept := make([]apiextensions.CustomResourceDefinition, 0, len(list.Items))
	for i := range list.Items {
		if _, native := space.SplitClusterName(list.Items[i].Name); !d.shown.of.Shows(tenant, native, true) {
			kept = append(kept, list.Items[i])
		}
	}
	list.Items = kept
	return list, nil
}

func (d *store) listStored(
	ctx context.Context, options *internalversion.ListOptions,
) (*apiextensions.CustomResourceDefinitionList, error) {
	obj, err := d.REST.List(ctx, options)
	if err != nil {
		return nil, err
	}
	list, ok := obj.(*apiextensions.CustomResourceDefinitionList)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("a list of definitions is a %T", obj))
	}
	return list, nil
}

// page is what a client wants of a list at once. Its own CRDs come first,
// in upstream's pages; the token of a page behind them says where it begins.
type page struct {
	limit          int64
	all            bool // nothing is selected
	resumed        bool
	version, after string
}

// shownToken begins a token, which no token of upstream begins with.
const shownToken = "shown."

func pageOf(options *internalversion.ListOptions) page {
	if options == nil {
		return page{all: true}
	}
	selected := asked(options)
	p := page{limit: options.Limit, all: selected.Label.Empty() && selected.Field.Empty()}
	if rest, ok := strings.CutPrefix(options.Continue, shownToken); ok {
		// Whatever it says, it says what has been seen.
		at, after, _ := strings.Cut(rest, ".")
		if _, err := strconv.ParseUint(at, 10, 64); err == nil {
			p.resumed, p.version, p.after = true, at, after
		}
	}
	return p
}

// add puts as much of what is shown behind a page of the tenant's own as there
// is room for, and says how to get at the rest.
func (p page) add(list *apiextensions.CustomResourceDefinitionList, shown []apiextensions.CustomResourceDefinition) {
	if list.Continue != "" {
		if list.RemainingItemCount != nil && p.all {
			more := *list.RemainingItemCount + int64(len(shown))
			list.RemainingItemCount = &more
		}
		return
	}
	room := len(shown)
	if p.limit > 0 {
		room = min(room, max(0, int(p.limit)-len(list.Items)))
	}
	list.Items = append(list.Items, shown[:room]...)
	left := int64(len(shown) - room)
	if left == 0 {
		return
	}
	after := p.after
	if room > 0 {
		after = shown[room-1].Name
	}
	list.Continue = shownToken + list.ResourceVersion + "." + after
	if p.all {
		list.RemainingItemCount = &left
	}
}

// refuse is why a user of a tenant cannot change what is shown under a name.
// makes says that the write makes what is not there, deletes that it is gone
// afterwards.
func (d *store) refuse(ctx context.Context, composite string, makes, deletes bool) error {
	tenant, native := space.SplitClusterName(composite)
	if tenant == space.System || ofSystem(ctx) {
		return nil
	}
	if d.forced(native) {
		return d.forbid(composite)
	}
	if !d.shown.of.Shows(tenant, native, true) && !d.shown.of.Shows(tenant, native, false) {
		return nil
	}
	own, err := d.own(ctx, tenant, native)
	if err != nil {
		return err
	}
	if !d.shown.of.Shows(tenant, native, own != nil) || own == nil && makes || own != nil && deletes {
		return nil
	}
	why := "it belongs to the administrators of the cluster, who let it serve this tenant, and only they can change it"
	if own == nil {
		why += ": create a definition of this name to have one of your own"
	} else {
		why += "; your own definition of this name does not serve, because of the tenant's policy, and can be deleted"
	}
	return apierrors.NewForbidden(apiextensions.Resource("customresourcedefinitions"), composite, errors.New(why))
}

// nameOf is the native name of a CRD in an event.
func nameOf(obj runtime.Object) (string, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return "", err
	}
	_, native := space.SplitClusterName(accessor.GetName())
	return native, nil
}
