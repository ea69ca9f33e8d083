package localpods

import (
	"context"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func pod(namespace, name, ip string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: ip}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func attach(t *testing.T, dir, container, namespace, name, address string) string {
	t.Helper()
	path := filepath.Join(dir, "a4s-"+container+"-eth0")
	content := `{"kind":"cniCacheV1","containerId":"` + container + `","networkName":"a4s",
		"cniArgs":[["IgnoreUnknown","1"],["K8S_POD_NAMESPACE","` + namespace + `"],["K8S_POD_NAME","` + name +
		`"],["K8S_POD_UID","uid-of-` + name + `"]],
		"result":{"cniVersion":"1.0.0","interfaces":[{"name":"cni-a4s0"}],"ips":[{"address":"` + address +
		`","gateway":"10.42.0.1",` +
		`"interface":2}]}}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatal("timed out until ", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestPodsOfBothSources(t *testing.T) {
	dir := t.TempDir()
	// An attachment that was left behind, and the one that has its address now.
	stale := attach(t, dir, "old", "default.t9", "gone", "10.42.0.5/24")
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(stale, past, past); err != nil {
		t.Fatal(err)
	}
	attach(t, dir, "c5", "default.t1", "web", "10.42.0.5/24")
	attach(t, dir, "c6", "default.t1", "v6", "fd00:42::6/64")
	attach(t, dir, "c7", "kube-system", "shared", "10.42.0.7/24")
	if err := os.WriteFile(filepath.Join(dir, "other"),
		[]byte(`{"kind":"cniCacheV1","result":{"ips":[{"address":"10.42.0.99/24"}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	shared := func(p *corev1.Pod) { p.Annotations = map[string]string{"a4s.io/shared": "true"} }
	client := fake.NewClientset(
		pod("default.t2", "old-owner", "10.42.0.5"), // the API is behind
		pod("kube-system", "shared", "10.42.0.7", shared),
		pod("default.t1", "unshared", "10.42.0.8", shared), // not a tenant's to give
		pod("default", "labelled", "10.42.0.9", func(p *corev1.Pod) {
			p.Labels = map[string]string{"a4s.io/shared": "true"}
		}),
		pod("default.t1", "host", "192.0.2.2", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		pod("default.t1", "done", "10.42.0.10", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
	)
	watching := make(chan struct{}, 1)
	client.PrependWatchReactor("pods", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		watching <- struct{}{}
		return true, w, err
	})
	p := New(Options{Client: client, NodeName: "n1", Results: dir})
	if tenant, ok := p.Tenant(addr("10.42.0.5")); !ok || tenant != "t1" {
		t.Errorf("before the API was asked: %q, %v", tenant, ok)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- p.run(ctx, func() { close(ready) }) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	<-ready
	<-watching
	want := map[netip.Addr]Pod{
		addr("10.42.0.5"):  {Tenant: "t1"},
		addr("fd00:42::6"): {Tenant: "t1"},
		addr("10.42.0.7"):  {Tenant: "system", Shared: true},
		addr("10.42.0.8"):  {Tenant: "t1"},
		addr("10.42.0.9"):  {Tenant: "system", Shared: true},
	}
	if got := p.All(); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}

	owners := p.Owners()
	if got, want := owners[addr("10.42.0.5")], (Owner{"default.t1", "web", "uid-of-web"}); got != want {
		t.Errorf("the owner is %v, want %v", got, want)
	}
	if got, want := owners[addr("10.42.0.8")], (Owner{"default.t1", "unshared", ""}); got != want {
		t.Errorf("the owner that only the API knows is %v, want %v", got, want)
	}

	changes := make(chan struct{}, 100)
	p.OnChange(func() { changes <- struct{}{} })
	file := attach(t, dir, "c11", "default.t3", "new", "10.42.0.11/24")
	if tenant, ok := p.Tenant(addr("10.42.0.11")); !ok || tenant != "t3" {
		t.Errorf("a pod that was just attached: %q, %v", tenant, ok)
	}
	<-changes
	// The next pod of the same tenant has the address.
	attach(t, dir, "c11", "default.t3", "newer", "10.42.0.11/24")
	<-changes
	if got := p.Owners()[addr("10.42.0.11")].Name; got != "newer" {
		t.Errorf("the owner of an address that changed hands is %s", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	await(t, "a detached pod is forgotten", func() bool { _, ok := p.Tenant(addr("10.42.0.11")); return !ok })
	if err := client.CoreV1().Pods("default").Delete(ctx, "labelled", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "a deleted pod is forgotten", func() bool { _, ok := p.Tenant(addr("10.42.0.9")); return !ok })

	// While the file is being written nothing is lost, and it is read later.
	half := filepath.Join(dir, "a4s-c12-eth0")
	if err := os.WriteFile(half, []byte(`{"kind":"cni`), 0o600); err != nil {
		t.Fatal(err)
	}
	if tenant, ok := p.Tenant(addr("10.42.0.5")); !ok || tenant != "t1" {
		t.Errorf("beside half a file: %q, %v", tenant, ok)
	}
	attach(t, dir, "c12", "default.t3", "new", "10.42.0.12/24")
	await(t, "the file is complete", func() bool { tenant, _ := p.Tenant(addr("10.42.0.12")); return tenant == "t3" })
}
