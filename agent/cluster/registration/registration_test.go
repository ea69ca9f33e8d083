package registration

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// told is what servers say of the restore.
type told struct {
	mu      sync.Mutex
	at      string
	changed chan struct{}
}

func (o *told) get() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at, o.changed
}

func (o *told) set(at string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = at
	close(o.changed)
	o.changed = make(chan struct{})
}

// start runs a keeper, with a way to wait.
func start(t *testing.T) (*Keeper, *fake.Clientset, *told, func(what string, check func() bool)) {
	t.Helper()
	client, restored := fake.NewClientset(), &told{changed: make(chan struct{})}
	k := New(Options{NodeName: "n", Client: client, Restored: restored.get, Log: logrus.NewEntry(logrus.New())})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Component().Run(ctx, func() {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return k, client, restored, func(what string, check func() bool) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 2*time.Minute, true,
			func(context.Context) (bool, error) { return check(), nil }); err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

func node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "7", Labels: map[string]string{
			"own": "x", "kubernetes.io/hostname": "n", "topology.kubernetes.io/zone": "z", "a4s.io/lb-partition": "p",
			"node-role.kubernetes.io/worker": "", "x.node-restriction.kubernetes.io/y": "z"},
			Annotations: map[string]string{"a": "b"}},
		Spec: corev1.NodeSpec{PodCIDR: "10.42.3.0/24", PodCIDRs: []string{"10.42.3.0/24"}, Unschedulable: true,
			Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True"}},
			VolumesAttached: []corev1.AttachedVolume{{Name: "v"}}},
	}
}

func TestForgottenNodeIsMadeAgain(t *testing.T) {
	k, client, restored, until := start(t)
	var failures atomic.Int32
	client.PrependReactor("create", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failures.Add(1) == 1, nil, errors.New("the server has just started")
	})
	k.Saw(node())
	restored.set("2026-01-01T00:00:00.000Z")
	var n *corev1.Node
	until("the node", func() (there bool) {
		var err error
		n, err = client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		return err == nil
	})
	want := map[string]string{"own": "x", "kubernetes.io/hostname": "n", "topology.kubernetes.io/zone": "z",
		"a4s.io/lb-partition": "p"}
	if !maps.Equal(n.Labels, want) || n.Annotations["a"] != "b" || n.UID == "u" {
		t.Errorf("its metadata are %+v", n.ObjectMeta)
	}
	if n.Spec.PodCIDR != "10.42.3.0/24" || len(n.Spec.PodCIDRs) != 1 || len(n.Spec.Taints) != 1 ||
		!n.Spec.Unschedulable {
		t.Errorf("its spec is %+v", n.Spec)
	}
	if len(n.Status.Conditions) != 1 || len(n.Status.VolumesAttached) > 0 {
		t.Errorf("its status is %+v", n.Status)
	}
}

func TestDeletedNodeStaysAway(t *testing.T) {
	k, client, restored, until := start(t)
	asked := func() (n int) {
		for _, a := range client.Actions() {
			if a.GetVerb() == "get" {
				n++
			}
		}
		return n
	}
	// One that was never seen is the kubelet's to make.
	restored.set("1")
	k.Saw(node())
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := asked()
	restored.set("2")
	until("a look after the restore", func() bool { return asked() > before })
	if err := client.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	restored.set("2") // said again, by another server
	if _, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it was made again: %v", err)
	}
	restored.set("3")
	until("the node after another restore", func() bool {
		_, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		return err == nil
	})
}
