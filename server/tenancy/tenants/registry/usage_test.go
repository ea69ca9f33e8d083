package registry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// usageOf is the storage of tenants that use as many pods as their names have letters.
func usageOf(t *testing.T, tenants ...string) *usageREST {
	t.Helper()
	find := func(_ context.Context, name string) (*tenantapi.Tenant, error) {
		if name == "broken" {
			return nil, errors.New("no datastore")
		}
		for _, known := range tenants {
			if known == name {
				made := metav1.NewTime(time.Unix(1e9, 0))
				return &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: made}}, nil
			}
		}
		return nil, nil
	}
	most := resource.MustParse("9")
	r, ok := UsageStorage(find, func(of *tenantapi.Tenant) []tenantapi.LimitUsage {
		if of.Name == "uncounted" {
			return nil
		}
		return []tenantapi.LimitUsage{
			{Name: "pods", Used: *resource.NewQuantity(int64(len(of.Name)), resource.DecimalSI), Limit: &most,
				Counts: "pods that have not ended"},
			{Name: "cpu", Used: resource.MustParse("1500m"), Counts: "what they request"},
		}
	})[tenantapi.UsageResource].(*usageREST)
	if !ok {
		t.Fatal("there is no storage")
	}
	return r
}

// TestUsageIsThatOfTheSpace: a request sees the one of its space, and no other.
func TestUsageIsThatOfTheSpace(t *testing.T) {
	r := usageOf(t, "a", "bcd", "uncounted")
	in := func(tenant string) context.Context { return space.WithTenant(t.Context(), tenant) }
	nowhere := map[string]context.Context{"a short path of the system": t.Context(), "the system": in(space.System),
		"all": in(space.All), "no tenant": in("nobody"), "an empty name": in("")}
	for what, ctx := range nowhere {
		list, err := r.List(ctx, nil)
		if err != nil || len(list.(*tenantapi.TenantUsageList).Items) != 0 {
			t.Errorf("%s: %v, %v", what, list, err)
		}
		for _, name := range []string{"usage", "usage.a.tenant", "a"} {
			if _, err := r.Get(ctx, name, nil); !apierrors.IsNotFound(err) {
				t.Errorf("%s gets %s: %v", what, name, err)
			}
		}
	}
	for tenant, pods := range map[string]int64{"a": 1, "bcd": 3} {
		name := space.ClusterName(tenant, "usage")
		for _, other := range []string{"usage", "usage.a.tenant", "usage.bcd.tenant", "x." + tenant + ".tenant"} {
			_, err := r.Get(in(tenant), other, nil)
			if apierrors.IsNotFound(err) == (other == name) || err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("%s gets %s: %v", tenant, other, err)
			}
		}
		obj, err := r.List(in(tenant), nil)
		list, ok := obj.(*tenantapi.TenantUsageList)
		if err != nil || !ok || len(list.Items) != 1 || list.Items[0].Name != name ||
			list.Items[0].Usage[0].Used.Value() != pods || list.Items[0].CreationTimestamp.IsZero() {
			t.Errorf("%s lists %v, %v", tenant, obj, err)
		}
	}
	if _, err := r.Get(in("broken"), "x", nil); !apierrors.IsInternalError(err) {
		t.Errorf("without a datastore: %v", err)
	}
	if _, err := r.List(in("uncounted"), nil); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("before it is counted: %v", err)
	}
}

// TestUsageIsOnlyRead: nothing but reading is offered.
func TestUsageIsOnlyRead(t *testing.T) {
	var r any = usageOf(t)
	switch r.(type) {
	case rest.Creater, rest.Updater, rest.GracefulDeleter, rest.CollectionDeleter, rest.Patcher, rest.Watcher,
		rest.Connecter:
		t.Errorf("%T can more", r)
	}
}

func TestUsageIsSelected(t *testing.T) {
	r, ctx := usageOf(t, "a"), space.WithTenant(t.Context(), "a")
	for what, c := range map[string]struct {
		options metainternalversion.ListOptions
		want    int
	}{
		"by its name": {metainternalversion.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", "usage.a.tenant")}, 1},
		"by another name": {metainternalversion.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", "x.a.tenant")}, 0},
		"by a label": {metainternalversion.ListOptions{
			LabelSelector: labels.SelectorFromSet(labels.Set{"x": "y"})}, 0},
	} {
		obj, err := r.List(ctx, &c.options)
		if list, ok := obj.(*tenantapi.TenantUsageList); err != nil || !ok || len(list.Items) != c.want {
			t.Errorf("%s: %v, %v", what, obj, err)
		}
	}
}

// TestUsageInATable: a row for each limit, one object and a list alike.
func TestUsageInATable(t *testing.T) {
	r, ctx := usageOf(t, "a"), space.WithTenant(t.Context(), "a")
	list, err := r.List(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	one, err := r.Get(ctx, "usage.a.tenant", nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = "[[pods 1 9 pods that have not ended] [cpu 1500m <none> what they request]]"
	for _, of := range []runtime.Object{one, list} {
		table, err := r.ConvertToTable(ctx, of, nil)
		if err != nil {
			t.Fatal(err)
		}
		var rows [][]any
		for _, row := range table.Rows {
			rows = append(rows, row.Cells)
			if u, ok := row.Object.Object.(*tenantapi.TenantUsage); !ok || u.Name != "usage.a.tenant" {
				t.Errorf("a row is of %v", row.Object.Object)
			}
		}
		if fmt.Sprint(rows) != want || len(table.ColumnDefinitions) != 4 {
			t.Errorf("%v, want %s", rows, want)
		}
	}
	if table, err := r.ConvertToTable(ctx, one, &metav1.TableOptions{NoHeaders: true}); err != nil ||
		len(table.ColumnDefinitions) != 0 {
		t.Errorf("without headers: %v, %v", table, err)
	}
	if _, err := r.ConvertToTable(ctx, &tenantapi.Tenant{}, nil); err == nil {
		t.Error("a table of something else")
	}
}
