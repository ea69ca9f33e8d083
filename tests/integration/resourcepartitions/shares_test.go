package resourcepartitions_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/controlplane/scheduler"
	"github.com/a4s-io/a4s/server/partition/allocations"
	"github.com/a4s-io/a4s/server/partition/shares"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// credential is a file with which the administrator's certificate is used.
func (p *plane) credential(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := kubeconfig.Write(kubeconfig.Options{Path: file, Server: p.direct, CAFile: p.files.ServerCA.Cert,
		CertFile: p.files.Admin.Cert, KeyFile: p.files.Admin.Key}); err != nil {
		t.Fatal(err)
	}
	return file
}

// schedule runs the scheduler of a tenant partition, which commits if committed is set.
func schedule(
	t *testing.T, tp *plane, local string, rps []*plane, committed bool, problems *health.Registry, args ...string,
) *shares.Stats {
	t.Helper()
	file, stats := tp.credential(t), &shares.Stats{}
	var list []shares.ResourcePartition
	for _, rp := range rps {
		list = append(list, shares.ResourcePartition{Name: rp.name, Client: rp.allocations(t, tp.name)})
	}
	o := scheduler.Options{Kubeconfig: file, Args: args, Pool: interning.New(),
		Log: logrus.WithField("component", "scheduler")}
	if committed {
		o.Plugins = func() []scheduler.Plugin {
			return []scheduler.Plugin{shares.Plugin(shares.Options{
				Partition: tp.name, Local: local, Stats: stats, Health: problems,
				Log:        logrus.WithField("component", shares.Name),
				Partitions: func() ([]shares.ResourcePartition, <-chan struct{}) { return list, nil },
			})}
		}
	}
	run(t, scheduler.New(o))
	return stats
}

// pod asks for processors.
func pod(name string, cpu int64) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)}}}}}}
}

// TestCommitsOfBinders: a pod is committed before it is bound, whatever the configuration has
// bind it. Where nothing comes before the commit, a pod is not written once more for it.
func TestCommitsOfBinders(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	for name, c := range map[string]struct {
		bind      string
		announced bool
	}{
		"as it comes":          {"", false},
		"another binder first": {"    bind:\n      enabled:\n      - name: DefaultBinder\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1, 1, room{cpu: 4000, pods: 110})
			tp, file := f.tps[0], filepath.Join(t.TempDir(), "config.yaml")
			text := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
				"clientConnection: {kubeconfig: %q}\n"+
				"profiles:\n- schedulerName: default-scheduler\n  plugins:\n%s", tp.credential(t), c.bind)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			stats := schedule(t, tp, tp.name, f.tps, true, f.problems, "config="+file)
			pods := tp.admin.CoreV1().Pods("default")
			events, err := pods.Watch(t.Context(), metav1.ListOptions{
				TimeoutSeconds: ptr.To(int64(planes.Deadline.Seconds()))})
			if err != nil {
				t.Fatal(err)
			}
			defer events.Stop()
			if _, err := pods.Create(t.Context(), pod("a", 3000), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			bound, announced := false, false
			for e := range events.ResultChan() {
				got, ok := e.Object.(*corev1.Pod)
				if !ok {
					t.Fatalf("event %v", e)
				}
				if bound = got.Spec.NodeName != ""; bound {
					break
				}
				announced = announced || got.Status.NominatedNodeName != ""
			}
			a, err := tp.allocations(t, tp.name).Get(t.Context(), "n0", metav1.GetOptions{})
			if err != nil || !bound || a.Of(tp.name).Pods != 1 || stats.Commits.Load() != 1 {
				t.Errorf("bound %v, after %d commits: %+v, %v", bound, stats.Commits.Load(), a, err)
			}
			if announced != c.announced {
				t.Errorf("the pod was written with its node before it was bound: %v, want %v", announced, c.announced)
			}
		})
	}
}

// TestSharesFollowPods: what one partition has, the other sees, in all that it can see it
// by: resources, number of pods, ports of the node; and sees it go.
func TestSharesFollowPods(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	f := newFleet(t, 2, 1, room{cpu: 4000, pods: 110})
	f.schedule(t, true)
	commits := f.tps[0].allocations(t, "main")
	share := func(what, partition string, check func(allocations.Share) bool) {
		t.Helper()
		planes.Eventually(t, what, func(ctx context.Context) (bool, error) {
			a, err := commits.Get(ctx, "n0", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return check(allocations.Share{}), nil
			}
			return err == nil && check(a.Of(partition)), err
		})
	}
	phase := func(p *plane, name string, want corev1.PodPhase) {
		t.Helper()
		planes.Eventually(t, fmt.Sprintf("pod %s of %s to be %s", name, p.name, want),
			func(ctx context.Context) (bool, error) {
				got, err := p.admin.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
				return err == nil && got.Status.Phase == want, err
			})
	}
	create := func(p *plane, pod *corev1.Pod) {
		t.Helper()
		if _, err := p.admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(p *plane, name string) {
		t.Helper()
		if err := p.admin.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waits := func(p *plane, name, why string) {
		t.Helper()
		planes.Eventually(t, fmt.Sprintf("pod %s of %s to wait: %s", name, p.name, why),
			func(ctx context.Context) (bool, error) {
				got, err := p.admin.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
				return err == nil && slices.ContainsFunc(got.Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.PodScheduled && strings.Contains(c.Message, why)
				}), err
			})
	}
	part := func(name string, do func(t *testing.T)) {
		t.Helper()
		if !t.Run(name, do) {
			t.FailNow()
		}
	}
	part("resources", func(*testing.T) {
		create(f.tps[0], pod("a", 3000))
		phase(f.tps[0], "a", corev1.PodRunning)
		share("the share of the pod", "main", func(s allocations.Share) bool {
			return s.Pods == 1 && s.Requests.Cpu().MilliValue() == 3000
		})
		create(f.tps[1], pod("b", 2000))
		waits(f.tps[1], "b", "Insufficient cpu")
		began := time.Now()
		remove(f.tps[0], "a")
		phase(f.tps[1], "b", corev1.PodRunning)
		t.Logf("the room of one partition's pod ran another's after %v", time.Since(began).Round(time.Millisecond))
	})
	part("ports", func(*testing.T) {
		for _, p := range []*plane{f.tps[1], f.tps[0]} {
			withPort := pod("port", 100)
			withPort.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
			create(p, withPort)
			if p == f.tps[1] {
				phase(p, "port", corev1.PodRunning)
			}
		}
		waits(f.tps[0], "port", "free ports")
		remove(f.tps[1], "port")
		phase(f.tps[0], "port", corev1.PodRunning)
	})
	part("number of pods", func(*testing.T) {
		patch(t, f.tps[0].admin, "n0", `{"status":{"allocatable":{"pods":"3"}}}`, "status")
		awaitCopy(t, f.tps[0], f.tps[1], "n0")
		create(f.tps[1], pod("third", 1))
		phase(f.tps[1], "third", corev1.PodRunning)
		create(f.tps[0], pod("fourth", 1))
		waits(f.tps[0], "fourth", "Too many pods")
		patch(t, f.tps[0].admin, "n0", `{"status":{"allocatable":{"pods":"110"}}}`, "status")
		phase(f.tps[0], "fourth", corev1.PodRunning)
	})
	part("a pod that no scheduler placed", func(*testing.T) {
		placed := pod("placed", 1500)
		placed.Spec.NodeName = "n0"
		create(f.tps[1], placed)
		phase(f.tps[1], "placed", corev1.PodRunning)
		share("its share", "tp2", func(s allocations.Share) bool { return s.Requests.Cpu().MilliValue() == 3501 })
		create(f.tps[0], pod("more", 1000))
		waits(f.tps[0], "more", "Insufficient cpu")
		remove(f.tps[1], "placed")
		phase(f.tps[0], "more", corev1.PodRunning)
	})
	part("partitions that are awaited", func(*testing.T) {
		planes.Eventually(t, "the waiting to be written", func(ctx context.Context) (bool, error) {
			a, err := commits.Get(ctx, "n0", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			// As a restore does, with a partition that is down.
			a.Awaited = []string{"main", "tp2", "tp3"}
			a.Shares = nil
			admin, err := allocations.NewClient(f.tps[0].as(t, "system:admin", f.tps[0].direct), nil)
			if err != nil {
				return false, err
			}
			_, err = admin.Update(ctx, a, metav1.UpdateOptions{})
			if apierrors.IsConflict(err) {
				return false, nil
			}
			return err == nil, err
		})
		create(f.tps[0], pod("later", 1))
		waits(f.tps[0], "later", "waited for tenant partitions")
		awaited := func() bool {
			return slices.ContainsFunc(f.problems.Holdings(), func(h health.Holding) bool {
				return h.Code == health.SharesAwaited && h.Subject == "main" && strings.Contains(h.Detail, "n0")
			})
		}
		planes.Eventually(t, "a problem", func(context.Context) (bool, error) { return awaited(), nil })
		share("the share again", "tp2", func(s allocations.Share) bool {
			return s.Requests.Cpu().MilliValue() == 2001
		})
		share("the share again", "main", func(s allocations.Share) bool { return s.Pods == 3 })
		a, err := commits.Get(t.Context(), "n0", metav1.GetOptions{})
		if err != nil || !slices.Equal(a.Awaited, []string{"tp3"}) {
			t.Errorf("%+v, %v", a, err)
		}
		third := f.tps[0].allocations(t, "tp3")
		planes.Eventually(t, "the third partition", func(ctx context.Context) (bool, error) {
			a, err := third.Get(ctx, "n0", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			a.Set(allocations.Share{Partition: "tp3"})
			_, err = third.Update(ctx, a, metav1.UpdateOptions{})
			return err == nil, nil
		})
		phase(f.tps[0], "later", corev1.PodRunning)
		planes.Eventually(t, "no problem", func(context.Context) (bool, error) { return !awaited(), nil })
	})
	part("a resource partition that does not answer", func(*testing.T) {
		f.tps[0].link.set(true)
		create(f.tps[1], pod("cut", 1))
		waits(f.tps[1], "cut", "does not answer")
		f.tps[0].link.set(false)
		phase(f.tps[1], "cut", corev1.PodRunning)
	})
	part("the allocation goes, and comes again", func(*testing.T) {
		if err := commits.Delete(t.Context(), "n0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		share("the share of the first", "main", func(s allocations.Share) bool { return s.Pods == 4 })
		share("the share of the second", "tp2", func(s allocations.Share) bool { return s.Pods == 3 })
	})
}

// TestRestoredResourcePartition: the shares of the snapshot are too low, and some nodes have
// none. Nothing is placed until each tenant partition has said what it has.
func TestRestoredResourcePartition(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	f := newFleet(t, 2, 2, room{cpu: 4000, pods: 110})
	ctx := t.Context()
	schedule(t, f.tps[1], "", f.tps[:1], true, f.problems)
	third := f.tps[0].allocations(t, "tp3")
	admin, err := allocations.NewClient(f.tps[0].as(t, "system:admin", f.tps[0].direct), nil)
	if err != nil {
		t.Fatal(err)
	}
	placed := pod("placed", 3000)
	placed.Spec.NodeName = "n0"
	create := func(p *plane, pod *corev1.Pod) {
		t.Helper()
		if _, err := p.admin.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(f.tps[1], placed)
	share := func(what string, check func(*allocations.NodeAllocation) bool) {
		t.Helper()
		planes.Eventually(t, what, func(ctx context.Context) (bool, error) {
			a, err := admin.Get(ctx, "n0", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil && check(a), err
		})
	}
	share("the share of the pod", func(a *allocations.NodeAllocation) bool { return a.Of("tp2").Pods == 1 })

	// As a server does that starts after a restore: nobody writes before all is awaited.
	f.tps[0].closed.Store(true)
	if err := admin.Delete(ctx, "n0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	mine := &allocations.NodeAllocation{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}
	mine.Set(allocations.Share{Partition: "tp3", Pods: 1})
	if _, err := third.Create(ctx, mine, metav1.CreateOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a partition writes: %v", err)
	}
	if a, err := third.List(ctx, metav1.ListOptions{}); err != nil || len(a.Items) > 0 {
		t.Errorf("%+v, %v", a, err)
	}
	create(f.tps[1], pod("waits", 2000))
	known := make(chan struct{})
	run(t, shares.Restored(shares.RestoredOptions{Nodes: f.tps[0].admin, Client: admin,
		Log: logrus.WithField("component", shares.RestoredName),
		Tenants: func(ctx context.Context) ([]string, error) {
			select {
			case <-known:
				return []string{"tp2", "tp3"}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		Done: func() error {
			f.tps[0].closed.Store(false)
			return nil
		}}))
	// tp2 says at once what it has; tp3 is away.
	close(known)
	share("the share of tp2 again", func(a *allocations.NodeAllocation) bool {
		requests := a.Of("tp2").Requests
		return requests.Cpu().MilliValue() == 3000 && slices.Equal(a.Awaited, []string{"tp3"})
	})
	planes.Eventually(t, "the pod to wait", func(ctx context.Context) (bool, error) {
		p, err := f.tps[1].admin.CoreV1().Pods("default").Get(ctx, "waits", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && strings.Contains(c.Message, "waited for tenant partitions")
		}), err
	})
	// It has most of n1, so what fits nowhere does not run.
	for name, cpu := range map[string]int64{"n0": 0, "n1": 3500} {
		planes.Eventually(t, "the share of tp3", func(ctx context.Context) (bool, error) {
			a, err := third.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			own := allocations.Share{Partition: "tp3"}
			if cpu > 0 {
				own.Pods, own.Requests = 1, corev1.ResourceList{
					corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)}
			}
			a.Set(own)
			_, err = third.Update(ctx, a, metav1.UpdateOptions{})
			return err == nil, nil
		})
	}
	planes.Eventually(t, "the pod to find no room", func(ctx context.Context) (bool, error) {
		p, err := f.tps[1].admin.CoreV1().Pods("default").Get(ctx, "waits", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && strings.Contains(c.Message, "2 Insufficient cpu")
		}), err
	})
	if err := f.tps[1].admin.CoreV1().Pods("default").Delete(ctx, "placed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	planes.Eventually(t, "the pod to run", func(ctx context.Context) (bool, error) {
		p, err := f.tps[1].admin.CoreV1().Pods("default").Get(ctx, "waits", metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning, err
	})
	if why := f.nodes.refusals(); len(why) > 0 {
		t.Errorf("nodes rejected %v", why)
	}
}
