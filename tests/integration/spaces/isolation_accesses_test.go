package spaces_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// plantAccess makes an access to tenant b with the canary in it, and so in its Secret, and another one of the
// same name in the space of b.
func plantAccess(t *testing.T, p *plane, word string) {
	t.Helper()
	accesses, err := tenantapi.NewAccessClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	inB, err := tenantapi.NewAccessClient(tenantapi.InSpace(p.Admin, "b"), nil)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": word}
	for tenant, client := range map[string]*tenantapi.AccessClient{"b": accesses, "": inB} {
		if _, err := client.Create(t.Context(), &tenantapi.TenantAccess{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: labels},
			Spec: tenantapi.TenantAccessSpec{Tenant: tenant, User: word, Role: "view",
				Secret: tenantapi.AccessSecret{Namespace: "default", Name: "access-" + word, Labels: labels}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the access to have its Secret", func(ctx context.Context) (bool, error) {
			got, err := client.Get(ctx, "web", metav1.GetOptions{})
			return err == nil && meta.IsStatusConditionTrue(got.Status.Conditions, tenantapi.AccessReady), err
		})
	}
}

// keepsAccess: the attacker has made and changed none but in the own space, to that space.
func keepsAccess(t *testing.T, p *plane) {
	t.Helper()
	accesses, err := tenantapi.NewAccessClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := accesses.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	others := 0
	for i := range list.Items {
		a := &list.Items[i]
		of, name := a.Of()
		if of == "a" {
			if a.To() != "a" || a.Spec.Tenant != "" && a.Spec.Tenant != "a" {
				t.Errorf("an access of the attacker: %+v", a)
			}
			continue
		}
		others++
		if name != "web" || a.Generation != 1 || a.DeletionTimestamp != nil || a.To() != "b" {
			t.Errorf("an access of %s: %+v", of, a)
		}
	}
	if others != 2 {
		t.Errorf("there are %d accesses of others, want 2", others)
	}
}

// access is what the attacker says an access is to.
func (g *attacker) access() string {
	who := `"user":"` + pick(g, "x", "admin", "system:admin", "mallory") + `",`
	if g.chance(40) {
		who = `"serviceAccount":{"namespace":"` + pick(g, "default", "default.a", "default.b") + `","name":"` +
			pick(g, "default", "web") + `"},`
	}
	return `,"spec":{` + pick(g, "", "", `"tenant":"a",`, `"tenant":"b",`, `"tenant":"system",`, `"tenant":"all",`) +
		who + pick(g, "", `"groups":["system:masters"],`, `"groups":["tenant:b"],`, `"groups":["robots"],`) +
		`"role":"` + pick(g, "cluster-admin", "view", "web-default.b.tenant") + `",` +
		pick(g, "", "", `"namespace":"default",`, `"namespace":"default.b",`) + `"secret":{"namespace":"` +
		pick(g, "default", "default.a", "default.b", "kube-system") + `","name":"` + pick(g, "x", "web", "y") + `"}}`
}
