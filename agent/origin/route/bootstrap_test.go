package route

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/merge"
	"github.com/a4s-io/a4s/tests/partitiontest"
)

// withBootstrap is the home partition with the bootstrap pods of the node.
func withBootstrap(t *testing.T, home *partitiontest.Server, dir string, fresh bool) (origin.Partition, *store.Store) {
	t.Helper()
	kept, _, err := store.Open(filepath.Join(dir, "pods"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://home", Transport: home.Transport(), QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	logger, _ := logtest.NewNullLogger()
	b, err := origin.NewBootstrap(origin.BootstrapOptions{Store: kept, Dir: filepath.Join(dir, "checkpoint"),
		Fresh: fresh, Log: logrus.NewEntry(logger),
		Probe: func(ctx context.Context) error {
			_, err := client.CoreV1().Pods("").List(ctx, ownPods)
			return err
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.Component().Run(ctx, func() {}); err != nil {
			t.Errorf("the bootstrap source ended: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	p := home.Partition(true)
	p.Transport = b.Before(p.Transport)
	return p, kept
}

// TestBootstrapPodsAreOfHome begins without the home partition, which comes later.
func TestBootstrapPodsAreOfHome(t *testing.T) {
	home, tp2 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
	tp2.Put(t, "pods", pod("kube-system", "agent", "2"))
	home.Put(t, "pods", pod("default.t1", "web", "1"))
	home.Away.Store(true)
	first, kept := withBootstrap(t, home, t.TempDir(), true)
	if _, err := kept.Create(pod("kube-system", "agent", "9")); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, Options{Partitions: newDirectory(first, tp2.Partition(false)), Dir: t.TempDir(), Fresh: true})
	k := n.kubelet(t)
	has := func(want map[string]types.UID) {
		t.Helper()
		eventually(t, func() bool {
			got := k.last()
			for name, uid := range want {
				if got[name] != uid {
					return false
				}
			}
			return len(got) == len(want)
		}, func() any { return k.last() })
	}
	has(map[string]types.UID{"kube-system/agent": "9", "kube-system.tp2.system/agent": "2"})
	api := n.client(t)
	patched, err := api.CoreV1().Pods("kube-system").Patch(t.Context(), "agent", types.StrategicMergePatchType,
		[]byte(`{"metadata":{"uid":"9"},"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	if err != nil || patched.Status.Phase != corev1.PodRunning {
		t.Errorf("the status of a pod that no server has: %v, %v", patched, err)
	}
	eventually(t, func() bool {
		list, err := api.CoreV1().Pods("").List(t.Context(), ownPods)
		if err != nil {
			return false
		}
		for _, p := range list.Items {
			if p.UID == "9" {
				return p.Status.Phase == corev1.PodRunning
			}
		}
		return false
	}, func() any { return "no such status" })
	home.Away.Store(false)
	has(map[string]types.UID{"kube-system/agent": "9", "kube-system.tp2.system/agent": "2", "default.t1/web": "1"})
	if err := kept.Remove("9"); err != nil {
		t.Fatal(err)
	}
	has(map[string]types.UID{"kube-system.tp2.system/agent": "2", "default.t1/web": "1"})
}

// TestBootstrapPodsAreJudgedByVersionsOfHome is why bootstrap pods stand before the home partition
// and are no source of the merged collections: a pod that home has taken over and does not list is
// gone if the list is newer than that, and is still to come if it is older. The versions of a merged
// list are above all of home's, so each such pod would end.
func TestBootstrapPodsAreJudgedByVersionsOfHome(t *testing.T) {
	home, tp2 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
	tp2.Put(t, "pods", pod("kube-system", "agent", "2"))
	first, kept := withBootstrap(t, home, t.TempDir(), true)
	for uid, version := range map[types.UID]string{"8": "50", "9": "500"} { // home is at 100
		if _, err := kept.Create(pod("kube-system", "of-"+string(uid), uid)); err != nil {
			t.Fatal(err)
		}
		if _, err := kept.MarkPersisted(uid, uid, version); err != nil {
			t.Fatal(err)
		}
	}
	n := newNode(t, Options{Partitions: newDirectory(first, tp2.Partition(false)), Dir: t.TempDir(), Fresh: true})
	k := n.kubelet(t)
	eventually(t, func() bool {
		got := k.last()
		return len(got) == 2 && got["kube-system/of-9"] == "9" && got["kube-system.tp2.system/agent"] == "2"
	}, func() any { return k.last() })
	list, err := n.client(t).CoreV1().Pods("").List(t.Context(), ownPods)
	if err != nil || !merge.IsLocal(list.ResourceVersion) {
		t.Errorf("the version of the merged list is %s, %v", list.ResourceVersion, err)
	}
}
