package limits

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

type written map[string]int

func (w written) Wrote(tenant string) { w[tenant]++ }

// noTenants has none, so nothing is bounded.
type noTenants struct{}

func (noTenants) Get(context.Context, string) (*tenantapi.Tenant, error) { return nil, nil }

// answers is a storage that answers every write the same.
type answers struct {
	storage.Interface
	err error
}

func (a answers) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	return a.err
}

func (a answers) GuaranteedUpdate(context.Context, string, runtime.Object, bool, *storage.Preconditions,
	storage.UpdateFunc, runtime.Object,
) error {
	return a.err
}

func (a answers) Delete(context.Context, string, runtime.Object, *storage.Preconditions, storage.ValidateObjectFunc,
	runtime.Object, storage.DeleteOptions,
) error {
	return a.err
}

func (answers) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

// TestWritesAreCounted: writes of what tenants own are counted for them, whoever writes,
// unless they fail.
func TestWritesAreCounted(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		what, key string
		err       error
		want      written
	}{
		{"of a tenant", "/pods/" + space.Namespace("a", "default") + "/web", nil, written{"a": 3}},
		{"of the system", "/pods/kube-system/dns", nil, written{}},
		{"that fail", "/pods/" + space.Namespace("a", "default") + "/web", refused, written{}},
	} {
		counted := written{}
		s := &limited{Interface: answers{err: c.err}, limits: New(Options{Tenants: noTenants{}, Load: counted}),
			stored: stored{layout: space.Namespaced}, prefix: "/pods"}
		obj := &tenantapi.Tenant{}
		for _, err := range []error{
			s.Create(t.Context(), c.key, obj, obj, 0),
			s.GuaranteedUpdate(t.Context(), c.key, obj, false, nil, nil, nil),
			s.Delete(t.Context(), c.key, obj, nil, nil, nil, storage.DeleteOptions{}),
		} {
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %v", c.what, err)
			}
		}
		if !maps.Equal(counted, c.want) {
			t.Errorf("writes %s: %v, want %v", c.what, counted, c.want)
		}
	}
}

// TestLateWrites: what the datastore may still write keeps its room until that is known, and
// what it refused does not.
func TestLateWrites(t *testing.T) {
	one := int64(1)
	for err, late := range map[error]bool{rpctypes.ErrTimeout: true, rpctypes.ErrGRPCTimeout: true,
		context.Canceled: true, context.DeadlineExceeded: true, rpctypes.ErrNoSpace: false,
		storage.NewKeyExistsError("x", 1): false} {
		synctest.Test(t, func(t *testing.T) {
			tenant := &tenantapi.Tenant{Spec: tenantapi.TenantSpec{Limits: &tenantapi.TenantLimits{Objects: &one}}}
			tenant.Name = "a"
			l := New(Options{Tenants: &oneTenant{tenant}})
			close(l.accounting.loaded)
			s := &limited{Interface: answers{err: err}, limits: l, prefix: "/configmaps",
				codec: unstructured.UnstructuredJSONScheme, stored: stored{layout: space.Namespaced,
					resource: schema.GroupResource{Resource: "configmaps"}, counts: true, belongs: true}}
			create := func() error {
				obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
				return s.Create(t.Context(), "/configmaps/"+space.Namespace("a", "default")+"/x", obj, obj, 0)
			}
			if got := create(); !errors.Is(got, err) {
				t.Fatalf("%v, want %v", got, err)
			}
			if got := create(); apierrors.IsForbidden(got) != late {
				t.Errorf("after %v: %v", err, got)
			}
			time.Sleep(lateWrite)
			synctest.Wait()
			if got := create(); !errors.Is(got, err) {
				t.Errorf("long after %v: %v", err, got)
			}
			time.Sleep(lateWrite)
			synctest.Wait()
			if n := len(l.accounting.accounts); n > 0 {
				t.Errorf("after %v there are %d accounts", err, n)
			}
		})
	}
}
