package spaces_test

import (
	"context"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
)

// attackerGoes is far more than the deletion of the attacker's tenant takes on a busy machine.
const attackerGoes = 10 * time.Minute

// plantClass makes what the attacker tries to hold, and returns its UID, which every
// tenant can read.
func plantClass(t *testing.T, p *plane) string {
	t.Helper()
	class, err := p.admin.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "isolation"}, Provisioner: "example.com/none"}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(class.UID)
}

// holding makes what is to hold the deletion of something else, or of the tenant.
func (g *attacker) holding() (path, body string) {
	path, head := "/api/v1/namespaces/default/"+pick(g, "configmaps", "secrets", "serviceaccounts"), ""
	if g.chance(40) {
		path = "/apis/" + isolationGroup + "/v1/namespaces/default/foos"
		head = `"apiVersion":"` + isolationGroup + `/v1","kind":"Foo",`
	}
	owner := pick(g, `"apiVersion":"v1","kind":"ConfigMap","name":"web"`,
		`"apiVersion":"v1","kind":"ConfigMap","name":"never"`,
		`"apiVersion":"`+isolationGroup+`/v1","kind":"Foo","name":"web"`)
	return path, `{` + head + `"metadata":{"generateName":"h-","finalizers":["` +
		pick(g, "example.com/hold", "foregroundDeletion", "orphan", "kubernetes.io/pvc-protection") +
		`"],"ownerReferences":[{` + owner + `,"uid":"` + g.held + `","blockOwnerDeletion":true}]}}`
}

// classGoes deletes what the attacker has tried to hold.
func classGoes(t *testing.T, p *plane) {
	t.Helper()
	foreground := metav1.DeletePropagationForeground
	classes := p.admin.StorageV1().StorageClasses()
	if err := classes.Delete(t.Context(), "isolation",
		metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the storage class to be gone", func(ctx context.Context) (bool, error) {
		_, err := classes.Get(ctx, "isolation", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// tenantGoes deletes a tenant, by force.
func tenantGoes(t *testing.T, p *plane, name string) {
	t.Helper()
	admin, err := tenantadmin.New(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	uid, _, err := admin.Delete(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), attackerGoes)
	defer cancel()
	dropped := 0
	drop := tenantadmin.NewDropper(admin, name, func(string) { dropped++ })
	if err := admin.WaitGone(ctx, name, uid, nil, drop.Drop); err != nil {
		t.Errorf("the attacker stays: %v", err)
	}
	t.Logf("the finalizers of %d objects were dropped", dropped)
}
