package registry

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

type internalListOptions = metainternalversion.ListOptions

var (
	_ rest.RESTCreateStrategy = directoryStrategy{}
	_ rest.RESTUpdateStrategy = directoryStrategy{}
	_ rest.RESTDeleteStrategy = directoryStrategy{}
)

// directoryStrategy is that of partitions and of placements.
type directoryStrategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	// validate judges an object; old is nil for a new one.
	validate func(obj, old runtime.Object) field.ErrorList
}

func newDirectoryStrategy(validate func(obj, old runtime.Object) field.ErrorList) directoryStrategy {
	return directoryStrategy{legacyscheme.Scheme, names.SimpleNameGenerator, validate}
}

func (directoryStrategy) NamespaceScoped() bool                            { return false }
func (directoryStrategy) AllowCreateOnUpdate(context.Context) bool         { return false }
func (directoryStrategy) AllowUnconditionalUpdate(context.Context) bool    { return false }
func (directoryStrategy) Canonicalize(runtime.Object)                      {}
func (directoryStrategy) PrepareForCreate(context.Context, runtime.Object) {}
func (directoryStrategy) PrepareForUpdate(context.Context, runtime.Object, runtime.Object) {
}
func (directoryStrategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (directoryStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (s directoryStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return s.validate(obj, nil)
}

func (s directoryStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return s.validate(obj, old)
}

func validateTenantName(name string) error { return space.ValidateTenant(name) }

// metaAttributes are what selectors can select by.
func metaAttributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("reading what selectors select by: %w", err)
	}
	return m.GetLabels(), fields.Set{"metadata.name": m.GetName()}, nil
}

// columns prints objects for people.
type columns struct {
	definitions []metav1.TableColumnDefinition
	row         func(obj runtime.Object, name, age string) []any
}

var _ rest.TableConvertor = columns{}

// ConvertToTable implements rest.TableConvertor.
func (c columns) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	var t metav1.Table
	if list, err := meta.ListAccessor(obj); err == nil {
		t.ResourceVersion = list.GetResourceVersion()
		t.Continue = list.GetContinue()
		t.RemainingItemCount = list.GetRemainingItemCount()
	} else if common, err := meta.CommonAccessor(obj); err == nil {
		t.ResourceVersion = common.GetResourceVersion()
	}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		t.ColumnDefinitions = c.definitions
	}
	var err error
	t.Rows, err = metatable.MetaToTableRow(obj,
		func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
			return c.row(obj, name, age), nil
		})
	return &t, err
}

func partitionTable() columns {
	return columns{
		definitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "the name of the partition"},
			{Name: "Roles", Type: "string", Description: "whether it has tenants, nodes or both"},
			{Name: "Servers", Type: "string", Description: "the names of its servers"},
			{Name: "Service-CIDR", Type: "string", Description: "the range of its Services"},
			{Name: "Age", Type: "string", Description: "the time since it was registered"},
			{Name: "Cluster-CIDR", Type: "string", Priority: 1, Description: "the range of pods on its nodes"},
			{Name: "Node-Ports", Type: "string", Priority: 1, Description: "the range of its node ports"},
			{Name: "Addresses", Type: "string", Priority: 1, Description: "where its servers are"},
		},
		row: func(obj runtime.Object, name, age string) []any {
			p := obj.(*partitionapi.Partition)
			servers := ""
			for _, s := range p.Spec.Servers {
				servers = joined(servers, s.Name)
			}
			roles, addresses := "", ""
			for _, role := range p.Spec.Roles {
				roles = joined(roles, string(role))
			}
			for _, address := range p.Addresses() {
				addresses = joined(addresses, address)
			}
			return []any{name, roles, servers, p.Spec.ServiceCIDR, age, p.Spec.ClusterCIDR, p.Spec.NodePortRange,
				addresses}
		},
	}
}

func joined(list, more string) string {
	if list == "" {
		return more
	}
	return list + "," + more
}

func placementTable() columns {
	return columns{
		definitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "the name of the tenant"},
			{Name: "Partition", Type: "string", Description: "the partition that has the tenant"},
			{Name: "Phase", Type: "string", Description: "how far its making or its end has come"},
			{Name: "Age", Type: "string", Description: "the time since its name was taken"},
		},
		row: func(obj runtime.Object, name, age string) []any {
			p := obj.(*partitionapi.TenantPlacement)
			return []any{name, p.Spec.Partition, string(p.Status.Phase), age}
		},
	}
}
