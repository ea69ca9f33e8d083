package topology_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/a4s-io/a4s/server/controlplane/scheduler/topology"
)

const (
	tenantsOfBench = 100
	podsOfNode     = 10
)

// placer is a scheduler whose cache has many nodes, each with pods of several tenants.
type placer struct {
	*scheduler.Scheduler
	snapshot *cache.Snapshot
	made     int
}

func newPlacer(b *testing.B, nodes int, narrow bool) *placer {
	b.Helper()
	p := &placer{snapshot: cache.NewEmptySnapshot()}
	cfg, err := latest.Default()
	if err != nil {
		b.Fatal(err)
	}
	opts := []scheduler.Option{scheduler.WithNodeInfoSnapshot(p.snapshot), scheduler.WithParallelism(1)}
	if narrow {
		for i := range cfg.Profiles {
			topology.Replace(&cfg.Profiles[i])
		}
		opts = append(opts, scheduler.WithFrameworkOutOfTreeRegistry(topology.Plugins()))
	}
	opts = append(opts, scheduler.WithProfiles(cfg.Profiles...))
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	for tenant := range tenantsOfBench {
		if err := factory.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(&appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(tenant), Name: "web", UID: "web"},
			Spec: appsv1.ReplicaSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		}); err != nil {
			b.Fatal(err)
		}
	}
	if p.Scheduler, err = scheduler.New(b.Context(), client, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }, opts...); err != nil {
		b.Fatal(err)
	}
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("250")}
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		p.Cache.AddNode(klog.Background(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name,
				corev1.LabelTopologyZone: fmt.Sprint("zone-", i%3), corev1.LabelArchStable: "amd64",
				corev1.LabelOSStable: "linux"}},
			Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
		})
		for j := range podsOfNode {
			pod := p.pod((i*podsOfNode + j) % tenantsOfBench)
			pod.Spec.NodeName = name
			if err := p.Cache.AddPod(klog.Background(), pod); err != nil {
				b.Fatal(err)
			}
		}
	}
	return p
}

func namespaceOf(tenant int) string { return fmt.Sprint("default.tenant-", tenant) }

// pod is one of a tenant's Deployment.
func (p *placer) pod(tenant int) *corev1.Pod {
	p.made++
	name := fmt.Sprint("web-", p.made)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(tenant), Name: name, UID: types.UID(name),
			Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{
			Name: "web", Image: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}}}}},
	}
}

// place finds a node for a pod, and has it take its room, as a cycle of the scheduler does.
func (p *placer) place(ctx context.Context, b *testing.B, pod *corev1.Pod) {
	b.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Cache.UpdateSnapshot(klog.Background(), p.snapshot); err != nil {
		b.Fatal(err)
	}
	found, err := p.SchedulePod(ctx, p.Profiles[corev1.DefaultSchedulerName], framework.NewCycleState(),
		&framework.QueuedPodInfo{PodInfo: info})
	if err != nil {
		b.Fatal(err)
	}
	pod.Spec.NodeName = found.SuggestedHost
	if err := p.Cache.AddPod(klog.Background(), pod); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPlace is what it takes to find a node for a pod of a Deployment, beside upstream's plugins in the same run.
func BenchmarkPlace(b *testing.B) {
	for _, nodes := range []int{1000, 4000, 10000} {
		for _, narrow := range []bool{false, true} {
			plugins := map[bool]string{false: "upstream", true: "narrow"}[narrow]
			b.Run(fmt.Sprintf("nodes=%d/plugins=%s", nodes, plugins), func(b *testing.B) {
				p := newPlacer(b, nodes, narrow)
				p.place(b.Context(), b, p.pod(0)) // the first one reads all nodes
				b.ReportAllocs()
				for b.Loop() {
					p.place(b.Context(), b, p.pod(p.made%tenantsOfBench))
				}
			})
		}
	}
}
