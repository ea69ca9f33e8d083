package hollow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/workload"
)

const (
	// renewal is how often a kubelet renews its lease, leaseSeconds how long
	// the lease is good.
	renewal      = 10 * time.Second
	leaseSeconds = 40
	// cpus is how many processors a node has.
	cpus = 32
	// again is how long a node waits before it tries again what failed.
	again = time.Second
)

// node is one hollow node.
type node struct {
	number   int
	name     string
	access   *rest.Config
	own      *source // the server that has the node
	leases   coordinationclient.LeaseInterface
	failures *failures
	room     room
	capacity int64 // of pods

	// lease is the one that the server has, as far as the node knows.
	lease *coordinationv1.Lease
	// started is how many pods the node has started.
	started atomic.Int64

	mu sync.Mutex
	// pods is the range of the node's pods, once the server has given it one.
	pods netip.Prefix
}

func newNode(number int, pods int64, access *rest.Config, f *failures) (*node, error) {
	config := rest.CopyConfig(access)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.UserAgent = "hollow-node"
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	coordination, err := coordinationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	n := &node{
		number: number, name: Name(number), access: config, failures: f, room: newRoom(cpus), capacity: pods,
		leases: coordination.Leases(corev1.NamespaceNodeLease),
	}
	n.own, err = n.from(config.Host)
	return n, err
}

// from is what the node takes pods from, by its URL. Another URL is another connection.
func (n *node) from(url string) (*source, error) {
	config := rest.CopyConfig(n.access)
	config.Host = url
	core, err := coreclient.NewForConfig(config)
	return &source{node: n, core: core}, err
}

// ip is an address of the node, which nobody has.
func (n *node) ip() string { return fmt.Sprintf("10.250.%d.%d", n.number/250, n.number%250+1) }

// podIP is another address of the range that the server has given the node. Until it has, the
// node asks.
func (n *node) podIP(ctx context.Context) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for !n.pods.IsValid() {
		got, err := n.own.core.Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if got.Spec.PodCIDR != "" {
			if n.pods, err = netip.ParsePrefix(got.Spec.PodCIDR); err != nil {
				return "", err
			}
			break
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(again / 10):
		}
	}
	ip := n.pods.Addr()
	for range n.started.Add(1)%250 + 1 {
		ip = ip.Next()
	}
	return ip.String(), nil
}

// register makes the Node, as one that is ready, and its lease.
func (n *node) register(ctx context.Context) error {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(cpus, resource.DecimalSI),
		corev1.ResourceMemory:           resource.MustParse("128Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("200Gi"),
		corev1.ResourcePods:             *resource.NewQuantity(n.capacity, resource.DecimalSI),
	}
	made, err := n.own.core.Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{
			corev1.LabelHostname: n.name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity, Conditions: conditions(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: n.ip()}, {Type: corev1.NodeHostName, Address: n.name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: "v1.37.0", OperatingSystem: "linux", Architecture: "amd64", OSImage: "hollow",
				ContainerRuntimeVersion: "hollow://1", KernelVersion: "hollow",
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	now, seconds := metav1.NowMicro(), int32(leaseSeconds)
	n.lease, err = n.leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: n.name, UID: made.UID,
		}}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &n.name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, metav1.CreateOptions{})
	return err
}

// conditions are those of a kubelet that is ready, and of a node of a4s with a
// ready runtime, which upstream does not ask for.
func conditions() []corev1.NodeCondition {
	now := metav1.Now()
	var all []corev1.NodeCondition
	for t, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady:               corev1.ConditionTrue,
		workload.Container.Condition(): corev1.ConditionTrue,
		corev1.NodeMemoryPressure:      corev1.ConditionFalse,
		corev1.NodeDiskPressure:        corev1.ConditionFalse,
		corev1.NodePIDPressure:         corev1.ConditionFalse,
	} {
		all = append(all, corev1.NodeCondition{
			Type: t, Status: status, Reason: "Hollow", LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	return all
}

// renewAlways renews the lease until the context ends.
func (n *node) renewAlways(ctx context.Context) {
	// Not all nodes at the same moment.
	next := time.After(rand.N(renewal))
	for {
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
		next = time.After(renewal)
		if err := n.renew(ctx); err != nil && ctx.Err() == nil {
			n.failures.add(fmt.Errorf("renewing the lease of %s: %w", n.name, err))
			next = time.After(again)
		}
	}
}

// renew writes the lease on top of what the server has.
func (n *node) renew(ctx context.Context) error {
	wanted := n.lease.DeepCopy()
	now := metav1.NowMicro()
	wanted.Spec.RenewTime = &now
	got, err := n.leases.Update(ctx, wanted, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		// An answer was lost: what was written then is there.
		if got, err = n.leases.Get(ctx, n.name, metav1.GetOptions{}); err == nil {
			n.lease = got
			return n.renew(ctx)
		}
	}
	if err != nil {
		return err
	}
	n.lease = got
	return nil
}
