package registry

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// one is a storage of one tenant.
type one struct{ storage.Interface }

func (one) Get(_ context.Context, _ string, _ storage.GetOptions, out runtime.Object) error {
	out.(*tenantapi.Tenant).Name = "t1" //nolint:errcheck // the test's own type
	return nil
}

// TestWhatIsNotStoredIsShown: in an answer.
func TestWhatIsNotStoredIsShown(t *testing.T) {
	usage := Usage(func(*tenantapi.Tenant) []tenantapi.LimitUsage { return make([]tenantapi.LimitUsage, 1) })
	used := func(obj runtime.Object) bool {
		tenant, ok := obj.(*tenantapi.Tenant)
		return ok && len(tenant.Status.Usage) == 1
	}
	store := &genericregistry.Store{
		NewFunc: func() runtime.Object { return &tenantapi.Tenant{} },
		KeyFunc: func(context.Context, string) (string, error) { return "/t1", nil },
		Storage: genericregistry.DryRunnableStorage{Storage: one{}},
	}
	for _, s := range []shown{{Store: store}, {Store: store, show: Shown{Usage: usage}.show}} {
		obj, err := s.Get(t.Context(), "t1", &metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := s.show != nil; used(obj) != want {
			t.Errorf("%+v, want it shown: %v", obj, want)
		}
	}
}
