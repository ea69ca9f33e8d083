package nodecopies

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func full() *corev1.Node {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "7", Generation: 2, CreationTimestamp: at,
			Labels: map[string]string{"a": "1", "b": "2"}, Annotations: map[string]string{"c": "3"},
			Finalizers: []string{"x/y"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}},
		Spec: corev1.NodeSpec{PodCIDR: "10.42.0.0/24", Taints: []corev1.Taint{{Key: "k", Effect: "NoSchedule"}}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")},
			Conditions: []corev1.NodeCondition{
				{Type: "Ready", Status: "True", LastHeartbeatTime: at, LastTransitionTime: at},
				{Type: "DiskPressure", Status: "False", LastHeartbeatTime: at, LastTransitionTime: at}},
			Images:          []corev1.ContainerImage{{Names: []string{"i"}, SizeBytes: 3}},
			VolumesInUse:    []corev1.UniqueVolumeName{"v"},
			VolumesAttached: []corev1.AttachedVolume{{Name: "v"}},
		},
	}
}

func mustDigest(t *testing.T, n *corev1.Node) digest {
	t.Helper()
	d, err := nodeDigest(n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDigestIgnores what is no change to a tenant partition, in any combination.
func TestDigestIgnores(t *testing.T) {
	ignored := []func(*corev1.Node){
		func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() },
		func(n *corev1.Node) { n.Status.Conditions[1].LastHeartbeatTime = metav1.Time{} },
		func(n *corev1.Node) { n.Status.VolumesAttached = nil },
		func(n *corev1.Node) { n.ResourceVersion, n.Generation = "8", 3 },
		func(n *corev1.Node) { n.ManagedFields, n.Finalizers = nil, nil },
		func(n *corev1.Node) { n.UID, n.CreationTimestamp = "other", metav1.Now() },
	}
	want := mustDigest(t, full())
	for mask := range 1 << len(ignored) {
		n := full()
		for i, change := range ignored {
			if mask&(1<<i) != 0 {
				change(n)
			}
		}
		if mustDigest(t, n) != want {
			t.Errorf("changes %b make a difference", mask)
		}
	}
}

// TestDigestTells each other change, and each apart.
func TestDigestTells(t *testing.T) {
	changes := map[string]func(*corev1.Node){
		"label":          func(n *corev1.Node) { n.Labels["a"] = "9" },
		"label away":     func(n *corev1.Node) { delete(n.Labels, "a") },
		"annotation":     func(n *corev1.Node) { n.Annotations["d"] = "" },
		"no annotations": func(n *corev1.Node) { n.Annotations = nil },
		"cordon":         func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"taint":          func(n *corev1.Node) { n.Spec.Taints[0].Effect = "NoExecute" },
		"condition":      func(n *corev1.Node) { n.Status.Conditions[0].Status = "Unknown" },
		"transition":     func(n *corev1.Node) { n.Status.Conditions[0].LastTransitionTime = metav1.Now() },
		"condition away": func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[:1] },
		"order":          func(n *corev1.Node) { slices.Reverse(n.Status.Conditions) },
		"allocatable":    func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("3") },
		"image":          func(n *corev1.Node) { n.Status.Images = nil },
		"volumes in use": func(n *corev1.Node) { n.Status.VolumesInUse = nil },
		"runtime":        func(n *corev1.Node) { n.Status.NodeInfo.KernelVersion = "6" },
		"pod network":    func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.42.0.0/24"} },
		"only labels":    func(n *corev1.Node) { *n = corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: n.Labels}} },
	}
	seen := map[digest]string{mustDigest(t, full()): "no change"}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		n := full()
		changes[name](n)
		d := mustDigest(t, n)
		if other, ok := seen[d]; ok {
			t.Errorf("%s looks like %s", name, other)
		}
		seen[d] = name
	}
}

// TestACopyOfACopyDiffersInNothing: the digest of what is stored is that of what was
// wanted, whatever the tenant partition attached and whatever order maps have.
func TestACopyOfACopyDiffersInNothing(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		n := full()
		for i := range r.IntN(20) {
			n.Labels[fmt.Sprint(r.IntN(50))] = fmt.Sprint(i)
			n.Annotations[fmt.Sprint(r.IntN(50))] = fmt.Sprint(i)
		}
		n.Labels[Label] = "forged"
		n.Annotations[UIDAnnotation] = "forged"
		want := wantedNode(n, "rp1")
		data, err := want.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		var stored corev1.Node
		if err := stored.Unmarshal(data); err != nil {
			t.Fatal(err)
		}
		stored.ResourceVersion = "99"
		stored.Status.VolumesAttached = []corev1.AttachedVolume{{Name: corev1.UniqueVolumeName(fmt.Sprint(seed))}}
		if mustDigest(t, want) != mustDigest(t, &stored) {
			t.Errorf("seed %d: the stored copy differs", seed)
		}
		if want.Labels[Label] != "rp1" || want.Annotations[UIDAnnotation] != "" ||
			want.Status.VolumesAttached != nil || want.UID != n.UID {
			t.Errorf("seed %d: %+v", seed, want)
		}
	}
	n := full()
	wantedNode(n, "rp1").Labels["a"] = "changed"
	if !apiequality.Semantic.DeepEqual(n, full()) {
		t.Error("the original was changed")
	}
}

func TestCSINodeDigest(t *testing.T) {
	csi := func() *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "1"},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d", NodeID: "a"}}}}
	}
	want, err := csiNodeDigest(csi())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*storagev1.CSINode)
		same   bool
	}{
		"version": {func(n *storagev1.CSINode) { n.ResourceVersion, n.UID = "2", "v" }, true},
		"driver":  {func(n *storagev1.CSINode) { n.Spec.Drivers[0].NodeID = "b" }, false},
		"owner": {func(n *storagev1.CSINode) {
			n.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "n", UID: "x"}}
		}, false},
	} {
		n := csi()
		c.change(n)
		if got, err := csiNodeDigest(n); err != nil || (got == want) != c.same {
			t.Errorf("%s: the same %t, %v", name, got == want, err)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	n := full()
	for i := range 50 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names: []string{fmt.Sprintf("registry.example.com/some/image-%d:v1", i)}, SizeBytes: 1})
	}
	for b.Loop() {
		if _, err := nodeDigest(wantedNode(n, "rp1")); err != nil {
			b.Fatal(err)
		}
	}
}
