package origin

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// A kubelet looks for pods when it sees its node. On a node that no server knows yet
// that is the one that the kubelet would register, until a server says another.
func TestTheKubeletSeesTheNodeThatItRegisters(t *testing.T) {
	server := newPodServer(t)
	down(server)
	n := newNode(t, server, t.TempDir(), true)
	f := informers.NewSharedInformerFactoryWithOptions(n.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = "metadata.name=" + nodeName
		}))
	nodes := f.Core().V1().Nodes()
	informer := nodes.Informer()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); f.Shutdown() })
	f.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("without a server there is no list of nodes")
	}
	if all, err := n.client.CoreV1().Nodes().List(t.Context(), ownNode); err != nil ||
		len(all.Items) != 0 {
		t.Errorf("nobody has asked for a node yet: %v, %v", all, err)
	}
	await := func(what string, ok func(*corev1.Node) bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if node, err := nodes.Lister().Get(nodeName); err == nil && ok(node) {
				return
			}
			if time.Now().After(end) {
				t.Fatal("the kubelet does not see ", what)
			}
		}
	}
	own := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{"zone": "own"}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: apiresource.MustParse("110")}}}
	for range 2 { // it goes on asking
		if _, err := n.client.CoreV1().Nodes().Create(t.Context(), own, metav1.CreateOptions{}); err == nil {
			t.Error("the node was made, without a server")
		}
	}
	await("the node that it registers", func(node *corev1.Node) bool {
		return node.Labels["zone"] == "own" && node.Status.Allocatable.Pods().Value() == 110
	})
	up(server)
	await("the node of the server", func(node *corev1.Node) bool { return node.Labels["zone"] == "a" })
}
