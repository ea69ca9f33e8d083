package resourcepartitions_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
	"github.com/a4s-io/a4s/tests/rewrite"
	"github.com/a4s-io/a4s/tests/sizes"
)

// sources are resource partitions that can change.
type sources struct {
	mu      sync.Mutex
	list    []nodecopies.Source
	changed chan struct{}
}

func newSources(list ...nodecopies.Source) *sources {
	return &sources{list: list, changed: make(chan struct{})}
}

func (s *sources) get() ([]nodecopies.Source, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list, s.changed
}

func (s *sources) set(list ...nodecopies.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = list
	close(s.changed)
	s.changed = make(chan struct{})
}

// importInto runs the importer of a tenant partition.
func importInto(t *testing.T, tp *plane, s *sources) (*nodecopies.Importer, *health.Registry, func()) {
	t.Helper()
	registry := health.NewRegistry()
	i := nodecopies.New(nodecopies.Options{
		Client: tp.client(t, tp.as(t, importerUser, tp.direct)), Sources: s.get, Health: registry,
		Patience: time.Second, Log: logrus.WithField("component", nodecopies.Name),
	})
	return i, registry, run(t, i.Component())
}

func getNode(t *testing.T, c kubernetes.Interface, name string) *corev1.Node {
	t.Helper()
	n, err := c.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// material is what of a node has to be the same in a copy.
func material(n *corev1.Node) *corev1.Node {
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, Labels: maps.Clone(n.Labels),
		CreationTimestamp: n.CreationTimestamp, Annotations: n.Annotations},
		Spec: n.Spec, Status: *n.Status.DeepCopy()}
	delete(out.Labels, nodecopies.Label)
	out.Status.VolumesAttached = nil
	for i := range out.Status.Conditions {
		out.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return out
}

// awaitCopy waits until the copy is what the original is.
func awaitCopy(t *testing.T, rp, tp *plane, name string) *corev1.Node {
	t.Helper()
	var last string
	var is *corev1.Node
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	planes.Eventually(t, "the copy of "+name, func(ctx context.Context) (bool, error) {
		want, err := rp.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if is, err = tp.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			last = err.Error()
			return false, nil
		}
		last = fmt.Sprintf("%+v\nwant %+v", material(is), material(want))
		return is.Labels[nodecopies.Label] == rp.name &&
			apiequality.Semantic.DeepEqual(material(is), material(want)), nil
	})
	return is
}

func awaitNone(t *testing.T, tp *plane, name string) {
	t.Helper()
	planes.Eventually(t, "no copy of "+name, func(ctx context.Context) (bool, error) {
		_, err := tp.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

func patch(t *testing.T, c kubernetes.Interface, node, content string, sub ...string) {
	t.Helper()
	if _, err := c.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(content),
		metav1.PatchOptions{}, sub...); err != nil {
		t.Fatal(err)
	}
}

// TestCopiesOfNodes: two resource partitions, one tenant partition.
func TestCopiesOfNodes(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	if err := planes.Prepare(); err != nil {
		t.Fatal(err)
	}
	tp, rp1, rp2 := startPlane(t, "tp1", 6443), startPlane(t, "rp1", 6444), startPlane(t, "rp2", 6445)
	first := node("n1", "4")
	first.Labels["zone"], first.Annotations = "a", map[string]string{"flannel": "x"}
	first.Spec = corev1.NodeSpec{PodCIDR: "10.42.1.0/24", PodCIDRs: []string{"10.42.1.0/24"}, ProviderID: "a4s://n1"}
	rp1.register(t, first)
	from := []nodecopies.Source{
		{Name: "rp1", Client: rp1.reader(t, "tp1")}, {Name: "rp2", Client: rp2.reader(t, "tp1")}}
	known := newSources(from...)
	importer, problems, stop := importInto(t, tp, known)
	awaitCopy(t, rp1, tp, "n1")
	planes.Eventually(t, "all copies", func(context.Context) (bool, error) { return importer.Complete(), nil })

	// Each goes on where the one before it ended.
	part := func(name string, f func(*testing.T)) {
		t.Helper()
		if !t.Run(name, f) {
			t.FailNow()
		}
	}
	restart := func() (*nodecopies.Importer, *health.Registry, func()) { return importInto(t, tp, known) }
	part("changes", func(t *testing.T) {
		var took []time.Duration
		for i := range 20 {
			began := time.Now()
			value := fmt.Sprint(i)
			patch(t, rp1.admin, "n1", `{"metadata":{"labels":{"turn":"`+value+`"}}}`)
			planes.Eventually(t, "the label", func(ctx context.Context) (bool, error) {
				n, err := tp.admin.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{ResourceVersion: "0"})
				return err == nil && n.Labels["turn"] == value, err
			})
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		t.Logf("node change to copy, polled every 50 ms: p50 %v, max %v", took[len(took)/2], took[len(took)-1])
		patch(t, rp1.admin, "n1", `{"spec":{"unschedulable":true,"taints":[{"key":"k","effect":"NoSchedule"}]}}`)
		patch(t, rp1.admin, "n1", `{"status":{"volumesInUse":["v1"],"capacity":{"cpu":"8"}}}`, "status")
		awaitCopy(t, rp1, tp, "n1")
		patch(t, rp1.admin, "n1", `{"metadata":{"labels":{"zone":null}},"spec":{"unschedulable":null,"taints":null}}`)
		awaitCopy(t, rp1, tp, "n1")
	})
	part("what a kubelet says of its partition does not count", func(t *testing.T) {
		forged := node("n-forged", "1")
		forged.Labels[nodecopies.Label] = "rp2"
		if _, err := rp1.admin.CoreV1().Nodes().Create(t.Context(), forged, metav1.CreateOptions{}); err == nil ||
			!apierrors.IsForbidden(err) {
			t.Errorf("the label of partitions was taken: %v", err)
		}
		patchForged := func(sub ...string) error {
			_, err := rp1.admin.CoreV1().Nodes().Patch(t.Context(), "n1", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"`+nodecopies.Label+`":"rp2"}}}`), metav1.PatchOptions{}, sub...)
			return err
		}
		for _, err := range []error{patchForged(), patchForged("status")} {
			if !apierrors.IsForbidden(err) {
				t.Errorf("the label of partitions was taken: %v", err)
			}
		}
		forged = node("n-forged", "1")
		forged.Annotations = map[string]string{nodecopies.UIDAnnotation: "11111111-1111-1111-1111-111111111111"}
		_, err := tp.admin.CoreV1().Nodes().Create(t.Context(), forged, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("an administrator chose a UID: %v", err)
		}
		imitation := tp.as(t, "system:admin", tp.direct)
		imitation.Impersonate.UserName, imitation.Impersonate.Groups = importerUser, []string{"system:masters"}
		if _, err := tp.client(t, imitation).CoreV1().Nodes().Create(t.Context(), forged,
			metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("who impersonates the importer chose a UID: %v", err)
		}
		// An annotation is no order on its way to a copy either.
		patch(t, rp1.admin, "n1", `{"metadata":{"annotations":{"`+nodecopies.UIDAnnotation+
			`":"11111111-1111-1111-1111-111111111111","own":"1"}}}`)
		planes.Eventually(t, "the annotation", func(ctx context.Context) (bool, error) {
			n, err := tp.admin.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
			return err == nil && n.Annotations["own"] == "1", err
		})
		if n := getNode(t, tp.admin, "n1"); n.Annotations[nodecopies.UIDAnnotation] != "" {
			t.Errorf("the copy has %v", n.Annotations)
		}
		patch(t, rp1.admin, "n1", `{"metadata":{"annotations":{"`+nodecopies.UIDAnnotation+`":null,"own":null}}}`)
		awaitCopy(t, rp1, tp, "n1")
	})
	part("heartbeats write nothing", func(t *testing.T) {
		was := getNode(t, tp.admin, "n1").ResourceVersion
		for i := range 5 {
			if _, err := rewrite.Status(t.Context(), rp1.admin.CoreV1().Nodes(), "n1", func(n *corev1.Node) {
				for j := range n.Status.Conditions {
					at := time.Now().Add(time.Duration(i+1) * time.Second)
					n.Status.Conditions[j].LastHeartbeatTime = metav1.NewTime(at)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		// A later change of another node comes behind them in the same stream.
		rp1.register(t, node("n-later", "1"))
		awaitCopy(t, rp1, tp, "n-later")
		if now := getNode(t, tp.admin, "n1").ResourceVersion; now != was {
			t.Errorf("version %s became %s", was, now)
		}
	})
	part("volumes", func(t *testing.T) {
		patch(t, tp.admin, "n1", `{"status":{"volumesAttached":[{"name":"v1","devicePath":"/dev/x"}]}}`, "status")
		patch(t, rp1.admin, "n1", `{"status":{"volumesInUse":["v1","v2"],"volumesAttached":[{"name":"other",
			"devicePath":"/dev/y"}]}}`, "status")
		n := awaitCopy(t, rp1, tp, "n1")
		if len(n.Status.VolumesAttached) != 1 || n.Status.VolumesAttached[0].Name != "v1" {
			t.Errorf("volumesAttached of the copy is %v", n.Status.VolumesAttached)
		}
		if !slices.Equal(n.Status.VolumesInUse, []corev1.UniqueVolumeName{"v1", "v2"}) {
			t.Errorf("volumesInUse of the copy is %v", n.Status.VolumesInUse)
		}
	})
	part("drift is mended", func(t *testing.T) {
		patch(t, tp.admin, "n1", `{"metadata":{"labels":{"foreign":"x"}},"spec":{"unschedulable":true}}`)
		awaitCopy(t, rp1, tp, "n1")
	})
	part("CSINode", func(t *testing.T) {
		owner := getNode(t, rp1.admin, "n1")
		csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: "n1", UID: owner.UID}}},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d.example.com", NodeID: "a"}}}}
		made, err := rp1.admin.StorageV1().CSINodes().Create(t.Context(), csi, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		same := func(what string) {
			t.Helper()
			planes.Eventually(t, what, func(ctx context.Context) (bool, error) {
				is, err := tp.admin.StorageV1().CSINodes().Get(ctx, "n1", metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return false, nil
				}
				return err == nil && is.Labels[nodecopies.Label] == "rp1" &&
					apiequality.Semantic.DeepEqual(is.Spec, made.Spec) &&
					apiequality.Semantic.DeepEqual(is.OwnerReferences, made.OwnerReferences), err
			})
		}
		same("the copy of a CSINode")
		// The driver went and came with another identity while the link was down: the
		// copy cannot become that by an update.
		rp1.link.set(true)
		drivers := made.Spec.Drivers
		for _, drivers := range [][]storagev1.CSINodeDriver{{}, {{Name: "d.example.com", NodeID: "b"}}} {
			made.Spec.Drivers = drivers
			made, err = rp1.admin.StorageV1().CSINodes().Update(t.Context(), made, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		if apiequality.Semantic.DeepEqual(drivers, made.Spec.Drivers) {
			t.Fatal("the driver did not change")
		}
		rp1.link.set(false)
		same("the copy of a changed CSINode")
		if err := rp1.admin.StorageV1().CSINodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		planes.Eventually(t, "no copy of the CSINode", func(ctx context.Context) (bool, error) {
			_, err := tp.admin.StorageV1().CSINodes().Get(ctx, "n1", metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
	})
	part("a partition that is down changes nothing", func(t *testing.T) {
		rp1.register(t, node("n2", "4"))
		awaitCopy(t, rp1, tp, "n2")
		was := getNode(t, tp.admin, "n1")
		rp1.link.set(true)
		// What happens there meanwhile is not known here, and others go on.
		if err := rp1.admin.CoreV1().Nodes().Delete(t.Context(), "n2", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		patch(t, rp1.admin, "n1", `{"metadata":{"labels":{"meanwhile":"1"}}}`)
		rp2.register(t, node("m1", "4"))
		awaitCopy(t, rp2, tp, "m1")
		if now := getNode(t, tp.admin, "n1"); now.ResourceVersion != was.ResourceVersion {
			t.Errorf("the copy was written: %+v", now)
		}
		getNode(t, tp.admin, "n2")
		// A partition that an importer has never reached deletes nothing either.
		stop()
		importer, _, stop = restart()
		patch(t, rp2.admin, "m1", `{"metadata":{"labels":{"turn":"2"}}}`)
		awaitCopy(t, rp2, tp, "m1")
		getNode(t, tp.admin, "n2")
		if importer.Complete() {
			t.Error("the importer says that it has everything")
		}
		rp1.link.set(false)
		awaitNone(t, tp, "n2")
		awaitCopy(t, rp1, tp, "n1")
		stop()
		importer, problems, stop = restart()
		planes.Eventually(t, "all copies", func(context.Context) (bool, error) { return importer.Complete(), nil })
	})
	part("another node of the name", func(t *testing.T) {
		was := getNode(t, tp.admin, "n1").UID
		rp1.link.set(true)
		if err := rp1.admin.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		rp1.register(t, node("n1", "2"))
		rp1.link.set(false)
		if n := awaitCopy(t, rp1, tp, "n1"); n.UID == was {
			t.Error("the copy kept the UID of the former node")
		}
	})
	part("a name that another partition has", func(t *testing.T) {
		before := awaitCopy(t, rp1, tp, "n1")
		rp2.register(t, node("n1", "32"))
		planes.Eventually(t, "a problem", func(context.Context) (bool, error) {
			return slices.ContainsFunc(problems.Holdings(), func(h health.Holding) bool {
				return h.Code == health.NodeNameTaken && h.Subject == "n1" && strings.Contains(h.Detail, "rp2")
			}), nil
		})
		if n := awaitCopy(t, rp1, tp, "n1"); n.UID != before.UID {
			t.Errorf("the copy has UID %s, had %s", n.UID, before.UID)
		}
		if err := rp1.admin.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitCopy(t, rp2, tp, "n1")
		planes.Eventually(t, "no problem", func(context.Context) (bool, error) {
			return len(problems.Holdings()) == 0, nil
		})
	})
	part("a node of this server", func(t *testing.T) {
		own := tp.register(t, node("own", "4"))
		rp2.register(t, node("own", "32"))
		planes.Eventually(t, "a problem", func(context.Context) (bool, error) {
			return slices.ContainsFunc(problems.Holdings(), func(h health.Holding) bool {
				return h.Subject == "own"
			}), nil
		})
		if n := getNode(t, tp.admin, "own"); n.UID != own.UID || n.ResourceVersion != own.ResourceVersion {
			t.Errorf("it became %+v", n)
		}
		if err := rp2.admin.CoreV1().Nodes().Delete(t.Context(), "own", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		planes.Eventually(t, "no problem", func(context.Context) (bool, error) {
			return len(problems.Holdings()) == 0, nil
		})
	})
	part("a partition that is not known any more changes nothing", func(t *testing.T) {
		known.set(from[1:]...)
		rp2.register(t, node("m2", "4"))
		awaitCopy(t, rp2, tp, "m2")
		getNode(t, tp.admin, "n-later")
		known.set(from...)
	})
	part("a node is deleted", func(t *testing.T) {
		if err := rp1.admin.CoreV1().Nodes().Delete(t.Context(), "n-later", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitNone(t, tp, "n-later")
		getNode(t, tp.admin, "m1")
	})
	stop()
}

// TestHeartbeatsOfManyNodes: a round of heartbeats costs the tenant partition no write.
func TestHeartbeatsOfManyNodes(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	if err := planes.Prepare(); err != nil {
		t.Fatal(err)
	}
	tp, rp := startPlane(t, "tp1", 6443), startPlane(t, "rp1", 6444)
	many := sizes.Of(t, "A4S_TEST_NODES", 1000)
	inParallel(t, many, func(ctx context.Context, i int) error {
		_, err := rp.admin.CoreV1().Nodes().Create(ctx, node(fmt.Sprintf("n%d", i), "4"), metav1.CreateOptions{})
		return err
	})
	began := time.Now()
	importer, _, stop := importInto(t, tp, newSources(nodecopies.Source{Name: "rp1", Client: rp.reader(t, "tp1")}))
	planes.Eventually(t, "all copies", func(context.Context) (bool, error) { return importer.Complete(), nil })
	t.Logf("%d nodes copied in %v", many, time.Since(began))
	nodes := func(p *plane) map[string]*corev1.Node {
		t.Helper()
		list, err := p.admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]*corev1.Node{}
		for i := range list.Items {
			all[list.Items[i].Name] = &list.Items[i]
		}
		return all
	}
	// The copies get their last writes: admission gives new nodes a taint.
	var was map[string]*corev1.Node
	planes.Eventually(t, "the copies to be what the nodes are", func(context.Context) (bool, error) {
		was = nodes(tp)
		for name, want := range nodes(rp) {
			if is := was[name]; is == nil || !apiequality.Semantic.DeepEqual(material(is), material(want)) {
				return false, nil
			}
		}
		return true, nil
	})
	began = time.Now()
	inParallel(t, many, func(ctx context.Context, i int) error {
		at := metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second))
		beat := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`,
			at.UTC().Format(time.RFC3339))
		_, err := rp.admin.CoreV1().Nodes().Patch(ctx, fmt.Sprintf("n%d", i), types.StrategicMergePatchType,
			[]byte(beat), metav1.PatchOptions{}, "status")
		return err
	})
	t.Logf("%d heartbeats in %v", many, time.Since(began))
	patch(t, rp.admin, "n0", `{"metadata":{"labels":{"last":"1"}}}`)
	planes.Eventually(t, "what comes after them", func(ctx context.Context) (bool, error) {
		n, err := tp.admin.CoreV1().Nodes().Get(ctx, "n0", metav1.GetOptions{})
		return err == nil && n.Labels["last"] == "1", err
	})
	changed := 0
	for name, is := range nodes(tp) {
		if before := was[name]; before == nil || before.ResourceVersion != is.ResourceVersion {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("%d copies were written, want the one that changed", changed)
	}
	stop()
}

// inParallel does n things, sixteen at a time.
func inParallel(t *testing.T, n int, do func(ctx context.Context, i int) error) {
	t.Helper()
	todo, errs := make(chan int), make(chan error, n)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for i := range todo {
				if err := do(t.Context(), i); err != nil {
					errs <- err
				}
			}
		})
	}
	for i := range n {
		todo <- i
	}
	close(todo)
	workers.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
}
