package hollownode

import (
	"context"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/workload"
)

// leaseSeconds is how long a node is taken for alive after its lease was renewed.
const leaseSeconds = int32(40)

const (
	// pace is how often a lease is renewed, and patience how long one try may take.
	pace, patience = 5 * time.Second, 10 * time.Second
)

// New is a node of 4 CPUs that is ready, with these labels and its own.
func New(name string, labels map[string]string) *corev1.Node {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	has := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: "linux"}},
		Status: corev1.NodeStatus{Capacity: has, Allocatable: has}}
	maps.Copy(n.Labels, labels)
	for _, condition := range []corev1.NodeConditionType{corev1.NodeReady, workload.Container.Condition()} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: condition,
			Status: corev1.ConditionTrue, Reason: "Hollow", LastHeartbeatTime: now, LastTransitionTime: now})
	}
	return n
}

// Renew renews the lease of a node that was made, or makes it.
func Renew(ctx context.Context, client kubernetes.Interface, n *corev1.Node) error {
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	at, seconds := metav1.NowMicro(), leaseSeconds
	spec := coordinationv1.LeaseSpec{HolderIdentity: &n.Name, LeaseDurationSeconds: &seconds, RenewTime: &at}
	lease, err := leases.Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}},
			Spec: spec}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec = spec
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// Live has a node say until ctx ends that it is there, to the first of these clients that is answered. All servers
// may be down.
func Live(ctx context.Context, n *corev1.Node, clients ...kubernetes.Interface) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		for _, client := range clients {
			limited, cancel := context.WithTimeout(ctx, patience)
			err := Renew(limited, client, n)
			cancel()
			if err == nil {
				break
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
