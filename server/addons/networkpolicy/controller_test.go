package networkpolicy

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/a4s-io/a4s/server/controlplane/interning"
)

func apiPod(namespace, name, node, ip string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	if ip != "" {
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: ip}}}
	}
	return p
}

func denyAll(namespace string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deny"},
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		}}
}

// follow applies what the watch tells until cond holds.
func (n *node) follow(t *testing.T, w *Watch, what string, cond func() bool) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for n.apply(w.Next()); !cond(); n.apply(w.Next()) {
		select {
		case <-w.Changed():
		case <-late:
			t.Fatalf("timed out until %s; the node knows %+v", what, n)
		}
	}
}

func TestPodsAreWatchedWhenThereIsAPolicy(t *testing.T) {
	client := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "one"}},
		apiPod("one", "web", "n1", "10.42.0.1"), apiPod("two.t1", "far", "n2", "10.42.1.1"),
	)
	listed := make(chan string, 10)
	client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		listed <- a.GetResource().Resource
		return false, nil, nil
	})
	watches := map[string]chan struct{}{"networkpolicies": make(chan struct{}), "pods": make(chan struct{}),
		"namespaces": make(chan struct{})}
	client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		close(watches[a.GetResource().Resource])
		return true, w, err
	})
	c := New(client, interning.New(), nil)
	if _, ok := c.Watch("n1"); ok {
		t.Error("a node is told before anything is known")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	var w *Watch
	for ok := false; !ok; w, ok = c.Watch("n1") {
		time.Sleep(time.Millisecond)
	}
	if lines := w.Next(); len(lines) != 1 || !lines[0].Off {
		t.Errorf("without policies a node is told %+v", lines)
	}
	if got := <-listed; got != "networkpolicies" || len(listed) != 0 {
		t.Errorf("without policies %s and %d more were listed", got, len(listed))
	}

	create := func(np *networkingv1.NetworkPolicy) {
		t.Helper()
		if _, err := client.NetworkingV1().NetworkPolicies(np.Namespace).
			Create(ctx, np, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var n node
	<-watches["networkpolicies"] // the client forgets what comes between list and watch
	create(denyAll("one"))
	n.follow(t, w, "the pod is isolated", func() bool {
		return !n.off && n.pods["one/web"] != nil && len(n.pods["one/web"].Ingress) == 1
	})
	if len(n.pods) != 1 {
		t.Errorf("the node is told of %v", n.pods)
	}
	<-watches["pods"]
	// A pod learns of when it is bound, before it has an address.
	if _, err := client.CoreV1().Pods("one").
		Create(ctx, apiPod("one", "next", "n1", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.follow(t, w, "the pod without an address is isolated",
		func() bool { p := n.pods["one/next"]; return p != nil && len(p.Ingress) == 1 })

	// One that watches later is told everything at once.
	second, _ := c.Watch("n2")
	var far node
	far.apply(second.Next())
	if p := far.pods["two.t1/far"]; p == nil || len(p.Ingress) != 0 || len(far.pods) != 1 {
		t.Errorf("the second node is told %v", far.pods)
	}
	second.Stop()
	if err := client.NetworkingV1().NetworkPolicies("one").Delete(ctx, "deny", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.follow(t, w, "there are no policies", func() bool { return n.off })
	create(denyAll("one"))
	n.follow(t, w, "everything is told again", func() bool { return !n.off && len(n.pods) == 2 })

	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	<-w.Done()
	if _, ok := c.Watch("n1"); ok {
		t.Error("a node is told although nobody watches")
	}
}

// What a tenant writes means nobody else's pods, even if the edge let it pass;
// what the system writes may mean everybody's.
func TestPeersOfTenants(t *testing.T) {
	everybody := []networkingv1.NetworkPolicyIngressRule{
		{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}}},
	}
	for _, tc := range []struct {
		namespace string
		want      []string
	}{
		{"one.t1", []string{"10.42.0.2", "10.42.0.3"}},
		{"one", []string{"10.42.0.1", "10.42.0.2", "10.42.0.3", "10.42.0.4"}},
	} {
		c := New(nil, interning.New(), nil)
		for _, p := range []*corev1.Pod{apiPod("one", "a", "n1", "10.42.0.1"), apiPod("one.t1", "b", "n1",
			"10.42.0.2"), apiPod("two.t1", "c", "n1", "10.42.0.3"), apiPod("one.t2", "d", "n1", "10.42.0.4")} {
			c.observe(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}, false)
			c.observe(p, false)
		}
		np := denyAll(tc.namespace)
		np.Spec.Ingress = everybody
		c.observe(np, false)
		c.round()
		w, _ := c.Watch("n1")
		var n node
		n.apply(w.Next())
		var got []string
		for m := range n.sets[n.policies[tc.namespace+"/deny"].Ingress[0].Peers] {
			got = append(got, m.Addr.String())
		}
		if slices.Sort(got); !slices.Equal(got, tc.want) {
			t.Errorf("peers of the policy in %s are %v, want %v", tc.namespace, got, tc.want)
		}
	}
}

func TestMirrorPodsAndSidecars(t *testing.T) {
	o := apiPod("one", "static", "n1", "::ffff:10.42.0.1")
	o.UID = "of-the-api"
	o.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "of-the-node"}
	stays := corev1.ContainerRestartPolicyAlways
	o.Spec.InitContainers = []corev1.Container{
		{Ports: []corev1.ContainerPort{{Name: "gone", ContainerPort: 1}}},
		{RestartPolicy: &stays, Ports: []corev1.ContainerPort{{Name: "side", ContainerPort: 2}}},
	}
	o.Spec.Containers = []corev1.Container{
		{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 3, Protocol: corev1.ProtocolUDP}}},
		{},
	}
	kept, err := trimmer(interning.New())(o)
	if err != nil {
		t.Fatal(err)
	}
	p := podOf(kept.(*corev1.Pod))
	if p.uid != "of-the-node" || !slices.Equal(p.addrs, []netip.Addr{netip.MustParseAddr("10.42.0.1")}) ||
		!slices.Equal(p.ports, []port{{"web", "UDP", 3}, {"side", "TCP", 2}}) {
		t.Errorf("%+v", p)
	}
}
