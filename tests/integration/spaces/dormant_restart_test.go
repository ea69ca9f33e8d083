package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// keepers makes tenants that have nodes for themselves alone, in each way, and waits until their
// spaces are made, which nobody uses.
func (d *dormancy) keepers(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	keeps := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "keeps"}}
	keeps.Spec.Scheduling = &tenantapi.TenantScheduling{NodeSelector: map[string]string{"pool": "keeps"},
		Exclusive: true}
	if _, err := d.tenants.Create(ctx, keeps, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.isAwaited(t, "keeps")
	const spec = `"spec":{"scheduling":{"nodeSelector":{"pool":"x"},"exclusive":true}}}`
	if _, err := d.tenants.Patch(ctx, "applied", types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"Tenant","metadata":{"name":"applied"},`+spec),
		metav1.PatchOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	d.isAwaited(t, "applied")
	d.sleeper(t, "later")
	if _, err := d.tenants.Patch(ctx, "later", types.MergePatchType, []byte(`{`+spec),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"keeps", "applied", "later"} {
		planes.Eventually(t, "the space of "+name+" to be made", func(ctx context.Context) (bool, error) {
			made, err := d.tenants.Get(ctx, name, metav1.GetOptions{})
			return err == nil && made.Made(), err
		})
	}
}

// isAwaited checks that a server which starts reads a Tenant, as soon as who made it has the answer: its space may not
// be made by then.
func (d *dormancy) isAwaited(t *testing.T, name string) {
	t.Helper()
	r, err := d.etcd.Get(t.Context(), "/a4s/awaited-tenants/"+name)
	if err != nil || len(r.Kvs) != 1 {
		t.Errorf("%s has the marks %+v, %v", name, r, err)
	}
}

// TestDormantTenantsAfterARestart: a server that starts knows the tenants that are used,
// and reads none of those that nobody has written since they were made.
func TestDormantTenantsAfterARestart(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	cfg := planes.Settings(t.TempDir())
	up := func() *dormancy {
		p := planes.Start(t, cfg)
		tenants, err := tenantapi.NewClient(p.Admin, nil)
		if err != nil {
			t.Fatal(err)
		}
		return &dormancy{plane: &plane{Plane: p, admin: p.Client, etcd: p.Etcd(t)}, tenants: tenants}
	}
	d := up()
	for i := range 30 {
		planes.CreateTenant(t, d.Admin, fmt.Sprintf("sleeps-%02d", i))
	}
	d.sleeper(t, "edited")
	d.allow(t, "edited", "example.com/plan", "small")
	d.keepers(t)
	d.bareTenant(t, "used")
	d.bareTenant(t, "sleeps-once") // among those that sleep
	if cfg.DatastoreEndpoint == "" {
		// Who reads it fails.
		if _, err := d.etcd.Put(t.Context(), "/registry/tenants/unread", "nobody can read this"); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Group.Stop(); err != nil {
		t.Fatal(err)
	}

	d = up()
	names := d.namesOf(t, tenantapi.SelectDormant+"=false")
	if want := []string{"applied", "keeps", "later", "sleeps-once", "system", "used"}; !slices.Equal(names, want) {
		t.Errorf("%q are not dormant, want %q", names, want)
	}
	for name, want := range map[string]string{
		"used": tenantapi.ReasonMade, "keeps": tenantapi.ReasonMade, "applied": tenantapi.ReasonMade,
		"later": tenantapi.ReasonMade, "edited": tenantapi.ReasonDormant, "sleeps-07": tenantapi.ReasonDormant,
	} {
		if r := d.reason(t, name); r != want {
			t.Errorf("%s is %s, want %s", name, r, want)
		}
		if code, body := get(t, d.Admin, "/tenants/"+name+"/api/v1/namespaces/default"); code != http.StatusOK {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	// The controller knows them: those from before the start, and those used since.
	for _, name := range []string{"used", "sleeps-once", "sleeps-07", "sleeps-08"} {
		if err := d.tenants.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"used", "sleeps-once", "sleeps-07", "sleeps-08"} {
		planes.Eventually(t, name+" to be gone", func(ctx context.Context) (bool, error) {
			_, err := d.tenants.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
	}
}
