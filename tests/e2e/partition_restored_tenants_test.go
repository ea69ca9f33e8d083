package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// TestRestoredTenantPartition: a tenant partition other than home is restored. Its tenants
// and pods are those of the snapshot, those of home are untouched, the directory agrees with
// it again or says where not, and nobody gets room that is not free.
func TestRestoredTenantPartition(t *testing.T) {
	t.Parallel()
	home := ownCluster(t, "partrt-home", "--disable-agent")
	worker := newAgent(t, "partrt-worker", home)
	tp2 := beginRoles(t, "partrt-tp2", home, "--tenant-partition", "tp2", "--service-cidr", "10.44.0.0/16",
		"--disable-agent")
	home.waitNodeReady(t, worker.host.Name, worker.started)
	waitCopy(t, home, tp2, worker.host.Name, "main")
	r := &restoredTenants{home: home, tp2: tp2, worker: worker}
	r.before(t)
	snapshot := strings.TrimSpace(tp2.must(t, "etcd-snapshot", "save", "--name", "before"))
	r.after(t)

	tp2.proc.Kill()
	// While tp2 has 60 % of the node there is no room for this one.
	waits := r.asks(t, "waits", "main", 40)
	waits.Spec.NodeName = ""
	home.createPod(t, "kube-system", waits)
	tp2.must(t, "etcd-snapshot", "restore", snapshot)
	tp2.restart(t)

	t.Run("room is given out when it is free", func(t *testing.T) {
		home.waitPod(t, "kube-system", "waits", "has a node",
			func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
		if r.runs(t, r.later) {
			t.Errorf("a pod of home was given room in which a pod of tp2 still runs")
		}
		home.waitPodReady(t, "kube-system", "waits")
	})
	t.Run("pods are those of the snapshot", func(t *testing.T) { r.testPods(t) })
	t.Run("the directory agrees", func(t *testing.T) { r.testDirectory(t) })
	t.Run("the pods of others are untouched", func(t *testing.T) { r.others.untouched(t) })
}

// restoredTenants is a cluster of two tenant partitions, of which tp2 is restored.
type restoredTenants struct {
	home, tp2 *cluster
	worker    *node // of home
	// kept are pods of tp2 that the snapshot has and nobody deleted, later is one that was
	// made after it, back and refused were deleted after it.
	kept, later, back, refused *corev1.Pod
	others                     *podWitness
}

// asks is a pod on the worker that asks for a part of its CPUs, in per cent.
func (r *restoredTenants) asks(t *testing.T, name, partition string, percent int64) *corev1.Pod {
	t.Helper()
	n, err := r.home.client.CoreV1().Nodes().Get(t.Context(), r.worker.host.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := partPod(name, partition, r.worker.host.Name)
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(
		n.Status.Allocatable.Cpu().MilliValue()*percent/100, resource.DecimalSI)}
	return pod
}

// before makes what the snapshot has.
func (r *restoredTenants) before(t *testing.T) {
	r.home.createPod(t, "kube-system", partPod("kept", "main", r.worker.host.Name))
	r.kept = r.tp2.runOn(t, "kube-system", partPod("kept", "tp2", r.worker.host.Name))
	r.back = r.tp2.runOn(t, "kube-system", r.asks(t, "back", "tp2", 4))
	r.refused = r.tp2.runOn(t, "kube-system", r.asks(t, "refused", "tp2", 55))
	for _, tenant := range []string{"stays", "deleted", "again", "elsewhere"} {
		r.tenant(t, tenant, "tp2", tenant)
	}
}

// tenant makes a tenant with a kubeconfig, and something of it.
func (r *restoredTenants) tenant(t *testing.T, name, partition, file string) {
	t.Helper()
	r.tp2.must(t, "tenant", "create", name, "--partition", partition, "--output", "/run/"+file)
	r.tp2.must(t, "kubectl", "--kubeconfig", "/run/"+file, "create", "configmap", "of-"+file)
}

// after does what the snapshot does not have.
func (r *restoredTenants) after(t *testing.T) {
	for _, pod := range []*corev1.Pod{r.back, r.refused} {
		r.tp2.removed(t, "kube-system", pod.Name)
	}
	took := r.home.runOn(t, "kube-system", r.asks(t, "took", "main", 35))
	r.others = r.home.witnessPods(t, took, r.home.waitPodReady(t, "kube-system", "kept"))
	later := r.asks(t, "later", "tp2", 60)
	// It takes its time to end, and the kubelet counts it until then.
	later.Spec.Containers[0].Args = []string{"trap 'sleep 10; exit 0' TERM; while :; do /bin/busybox sleep 1; done"}
	later.Spec.TerminationGracePeriodSeconds = new(int64(20))
	r.later = r.tp2.runOn(t, "kube-system", later)
	for _, tenant := range []string{"deleted", "again", "elsewhere"} {
		r.home.must(t, "tenant", "delete", tenant)
		hosts.Until(t, podTimeout, tenant+" is gone", func(context.Context) error {
			if out := r.home.mustKubectl(t, "get tenantplacements"); strings.Contains(out, tenant) {
				return errors.New(out)
			}
			return nil
		})
	}
	r.tenant(t, "again", "tp2", "again-new")
	r.tenant(t, "elsewhere", "main", "elsewhere-new")
	r.tenant(t, "lost", "tp2", "lost")
	waitShare(t, r.home, r.worker.host.Name, "tp2", r.kept, r.later)
}

// waitShare waits until a resource partition knows that a tenant partition has these pods on
// a node.
func waitShare(t *testing.T, rp *cluster, node, partition string, pods ...*corev1.Pod) {
	t.Helper()
	var cpu resource.Quantity
	for _, p := range pods {
		cpu.Add(*p.Spec.Containers[0].Resources.Requests.Cpu())
	}
	hosts.Until(t, podTimeout, fmt.Sprintf("%s has %d pods on %s", partition, len(pods), node),
		func(ctx context.Context) error {
			a, err := allocationsOf(t, rp).Get(ctx, node, metav1.GetOptions{})
			if share := a.Of(partition); err == nil && (share.Pods != int64(len(pods)) || len(a.Awaited) > 0 ||
				share.Requests.Cpu().Cmp(cpu) != 0) {
				err = fmt.Errorf("%+v", a)
			}
			return err
		})
}

// runs reports whether the container of a pod runs on the worker.
func (r *restoredTenants) runs(t *testing.T, pod *corev1.Pod) bool {
	t.Helper()
	for line := range strings.Lines(run(t, r.worker.host, env.binary, "ctr", "-n", "k8s.io", "tasks", "ls")) {
		if strings.Contains(line, containerID(pod)) && strings.Contains(line, "RUNNING") {
			return true
		}
	}
	return false
}

func (r *restoredTenants) testPods(t *testing.T) {
	r.tp2.unchanged(t, r.kept)
	hosts.Until(t, podTimeout, "a pod that tp2 does not know has ended", func(context.Context) error {
		if r.runs(t, r.later) {
			return errors.New("it runs")
		}
		return nil
	})
	back := r.tp2.waitPod(t, "kube-system", "back", "runs again", func(p *corev1.Pod) bool {
		return podIsReady(p) && containerID(p) != containerID(r.back)
	})
	if back.UID != r.back.UID {
		t.Errorf("it is another one: %+v", back.ObjectMeta)
	}
	// Others took its room.
	r.tp2.waitPod(t, "kube-system", "refused", "is refused by the node", func(p *corev1.Pod) bool {
		return p.UID == r.refused.UID && p.Status.Phase == corev1.PodFailed && p.Status.Reason == "OutOfcpu"
	})
	waitShare(t, r.home, r.worker.host.Name, "tp2", r.kept, back)
	r.tp2.runOn(t, "kube-system", partPod("new", "tp2", r.worker.host.Name))
}

// serves says whether a tenant's credential gets at what is of it, through all servers.
func (r *restoredTenants) serves(t *testing.T, file, configMap string, want bool) {
	t.Helper()
	for _, by := range []*cluster{r.home, r.tp2} {
		hosts.Until(t, podTimeout, fmt.Sprintf("%s is served through %s: %t", file, by.host.Name, want),
			func(context.Context) error {
				out := r.tp2.a4s(t, "kubectl", "--kubeconfig", "/run/"+file, "--server", by.url(), "get", "configmap",
					configMap)
				if (out.ExitCode == 0) != want {
					return errors.New(out.Stdout + out.Stderr)
				}
				return nil
			})
	}
}

func (r *restoredTenants) testDirectory(t *testing.T) {
	says := func(what string, holds func(doctor string) bool) {
		t.Helper()
		hosts.Until(t, podTimeout, "the doctor "+what, func(context.Context) error {
			if out := r.home.a4s(t, "doctor").Stdout; !holds(out) {
				return errors.New(out)
			}
			return nil
		})
	}
	t.Run("it is as it was", func(t *testing.T) { r.serves(t, "stays", "of-stays", true) })
	t.Run("it was deleted after the snapshot, and is back", func(t *testing.T) {
		r.serves(t, "deleted", "of-deleted", true)
		if out := r.home.mustKubectl(t, "get tenantplacement deleted"); !strings.Contains(out, "tp2") {
			t.Errorf("the placement is %s", out)
		}
	})
	t.Run("it was made again after the snapshot, and is the first one", func(t *testing.T) {
		r.serves(t, "again", "of-again", true)
		r.serves(t, "again-new", "of-again-new", false)
	})
	t.Run("its name is given to another partition", func(t *testing.T) {
		says("tells of the name", func(doctor string) bool {
			return strings.Contains(doctor, "Two partitions have a tenant of the same name (elsewhere)")
		})
		r.serves(t, "elsewhere-new", "of-elsewhere-new", true)
		r.serves(t, "elsewhere", "of-elsewhere", false)
	})
	t.Run("it was made after the snapshot, and is lost", func(t *testing.T) {
		told := func(doctor string) bool {
			return strings.Contains(doctor, "A partition does not have a tenant that it should have (lost)")
		}
		says("tells of the tenant", told)
		r.serves(t, "lost", "of-lost", false)
		// Its name is nobody else's until somebody says so.
		for _, by := range []*cluster{r.home, r.tp2} {
			for _, partition := range []string{"main", "tp2"} {
				if out := by.a4s(t, "tenant", "create", "lost", "--partition", partition); out.ExitCode == 0 ||
					!strings.Contains(out.Stderr, "already exists") {
					t.Errorf("%s makes it in %s: %s%s", by.host.Name, partition, out.Stdout, out.Stderr)
				}
			}
		}
		r.home.must(t, "tenant", "delete", "lost")
		says("does not tell of it any more", func(doctor string) bool { return !told(doctor) })
		r.tenant(t, "lost", "main", "found")
		r.serves(t, "found", "of-found", true)
		r.serves(t, "lost", "of-lost", false)
	})
}
