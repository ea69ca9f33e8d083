package registry

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Find finds a Tenant, nil when there is none.
type Find func(ctx context.Context, name string) (*tenantapi.Tenant, error)

// UsageStorage returns the REST storage of what each space uses of its limits, by path. Nothing is
// stored: usage is asked whenever somebody reads, about the tenant whose space the request is
// addressed to, and about no other.
func UsageStorage(find Find, usage Usage) map[string]rest.Storage {
	return map[string]rest.Storage{tenantapi.UsageResource: &usageREST{find, usage}}
}

// usageREST can be read, and nothing else.
type usageREST struct {
	find  Find
	usage Usage
}

var (
	_ rest.Getter               = (*usageREST)(nil)
	_ rest.Lister               = (*usageREST)(nil)
	_ rest.Scoper               = (*usageREST)(nil)
	_ rest.ShortNamesProvider   = (*usageREST)(nil)
	_ rest.SingularNameProvider = (*usageREST)(nil)
)

func (*usageREST) New() runtime.Object     { return &tenantapi.TenantUsage{} }
func (*usageREST) NewList() runtime.Object { return &tenantapi.TenantUsageList{} }
func (*usageREST) Destroy()                {}
func (*usageREST) NamespaceScoped() bool   { return false }
func (*usageREST) GetSingularName() string { return "tenantusage" }
func (*usageREST) ShortNames() []string    { return []string{"tu"} }

// Get implements rest.Getter.
func (r *usageREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	u, err := r.read(ctx)
	if err == nil && (u == nil || u.Name != name) {
		return nil, apierrors.NewNotFound(tenantapi.UsageGroupResource(), name)
	}
	if err != nil {
		return nil, err
	}
	return u, nil
}

// List implements rest.Lister. The space of the system has no limits, so there is none in it.
func (r *usageREST) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	list := &tenantapi.TenantUsageList{Items: []tenantapi.TenantUsage{}}
	u, err := r.read(ctx)
	if err != nil || u == nil {
		return list, err
	}
	if options != nil {
		if s := options.LabelSelector; s != nil && !s.Matches(labels.Set(u.Labels)) {
			return list, nil
		}
		if s := options.FieldSelector; s != nil && !s.Matches(fields.Set{"metadata.name": u.Name}) {
			return list, nil
		}
	}
	list.Items = append(list.Items, *u)
	return list, nil
}

// read is that of the space to which a request is addressed, nil if it has none.
func (r *usageREST) read(ctx context.Context) (*tenantapi.TenantUsage, error) {
	name, ok := space.FromContext(ctx)
	if !ok || space.IsSystem(name) || name == space.All {
		return nil, nil
	}
	t, err := r.find(ctx, name)
	switch {
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("looking for the tenant: %w", err))
	case t == nil || t.Name != name:
		return nil, nil
	}
	u := &tenantapi.TenantUsage{Usage: r.usage(t)}
	if u.Usage == nil {
		return nil, apierrors.NewServiceUnavailable("what the tenant uses is still being counted: try again later")
	}
	u.Name, u.CreationTimestamp = space.ClusterName(name, tenantapi.UsageName), t.CreationTimestamp
	return u, nil
}

// ConvertToTable implements rest.TableConvertor: each limit has a row beside its use.
func (*usageREST) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		table.ColumnDefinitions = []metav1.TableColumnDefinition{
			{Name: "Limit", Type: "string", Description: "the name of the limit"},
			{Name: "Used", Type: "string", Description: "how much of it is used now"},
			{Name: "Most", Type: "string", Description: "the bound; none is shown as <none>"},
			{Name: "Counts", Type: "string", Description: "what counts towards the limit"},
		}
	}
	var all []tenantapi.TenantUsage
	switch o := obj.(type) {
	case *tenantapi.TenantUsage:
		all = []tenantapi.TenantUsage{*o}
	case *tenantapi.TenantUsageList:
		all = o.Items
	default:
		return nil, fmt.Errorf("making a table of what a tenant uses: it is a %T", obj)
	}
	for i := range all {
		for _, u := range all[i].Usage {
			most := "<none>"
			if u.Limit != nil {
				most = u.Limit.String()
			}
			table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{u.Name, u.Used.String(), most, u.Counts},
				Object: runtime.RawExtension{Object: &all[i]}})
		}
	}
	return table, nil
}
