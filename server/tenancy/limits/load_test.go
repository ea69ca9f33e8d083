package limits

import (
	"context"
	"errors"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
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
