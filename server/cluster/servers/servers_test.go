package servers

import (
	"context"
	"reflect"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
)

// TestLeaseTellsOfTheServer: what a server says on its Lease is what others read.
func TestLeaseTellsOfTheServer(t *testing.T) {
	applied := int64(7)
	own := Server{Name: "one", Group: "0", Address: "10.0.0.1:6443"}
	r := New(fake.NewClientset(), own, func() int64 { return applied })
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: LeaseName(own.Name), Namespace: metav1.NamespaceSystem,
			Annotations: map[string]string{"kept": "yes"}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &own.Name, RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}
	for _, applied = range []int64{7, 8} {
		if err := r.describe(l); err != nil {
			t.Fatal(err)
		}
		want := own
		want.Ready, want.Applied = true, applied
		if got, ok := Read(l); !ok || !reflect.DeepEqual(got, want) || l.Annotations["kept"] != "yes" {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	leases := r.client.CoordinationV1().Leases(l.Namespace)
	if _, err := leases.Create(t.Context(), l, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	other := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: metav1.NamespaceSystem}}
	if _, err := leases.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if all, err := List(t.Context(), r.client); err != nil || len(all) != 1 || all[0].Applied != 8 {
		t.Errorf("%+v %v", all, err)
	}
	l.Annotations[appliedAnnotation] = "nonsense"
	if got, ok := Read(l); !ok || got.Applied != NoGroup {
		t.Errorf("%+v %v", got, ok)
	}
	// It starts again without a group.
	l.Annotations[appliedAnnotation] = "9"
	if err := New(r.client, own, nil).describe(l); err != nil {
		t.Fatal(err)
	}
	if got, ok := Read(l); !ok || got.Applied != NoGroup {
		t.Errorf("%+v %v", got, ok)
	}
}

// TestFollowing: a server without a name learns of the others, and whether they have a
// member of embedded etcd, and keeps no Lease of its own.
func TestFollowing(t *testing.T) {
	client := fake.NewClientset()
	guest := Server{Name: "guest", Group: "0", Address: "192.0.2.2:6443", NoMember: true}
	follower := New(client, Server{}, nil)
	for _, r := range []*Registry{follower, New(client, guest, nil)} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Component().Run(ctx, func() {}) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	guest.Ready, guest.Applied = true, NoGroup
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) {
			all := follower.All()
			return len(all) == 1 && all[0] == guest, nil
		})
	if err != nil {
		t.Errorf("%v: it knows %+v", err, follower.All())
	}
	leases, err := client.CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(leases.Items) != 1 {
		t.Errorf("%v, %d Leases", err, len(leases.Items))
	}
}
