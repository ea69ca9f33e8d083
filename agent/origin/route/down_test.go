package route

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/tests/partitiontest"
)

// TestAPartitionThatIsDownLosesNoPod takes a partition away, restarts the node without
// it, forgets the past of it, and lets it come back.
func TestAPartitionThatIsDownLosesNoPod(t *testing.T) {
	for _, which := range []string{"home", "tp2"} {
		t.Run(which, func(t *testing.T) {
			home, tp2, rp := partitiontest.New(t, "main"), partitiontest.New(t, "tp2"), partitiontest.New(t, "rp")
			home.Put(t, "pods", pod("default.t1", "web", "1"))
			tp2.Put(t, "pods", pod("default.t2", "web", "2"))
			tp2.Put(t, "pods", pod("kube-system", "agent", "3"))
			down, up := home, tp2
			if which == "tp2" {
				down, up = tp2, home
			}
			dir := t.TempDir()
			start := func(fresh bool) (*node, *kubelet, func()) {
				return startNode(t, Options{Dir: dir, Fresh: fresh, ResourcePartition: rp.Transport(),
					Partitions: newDirectory(home.Partition(true), tp2.Partition(false))})
			}
			_, k, stop := start(true)
			// A node begins with what it knows, which is less.
			eventually(t, func() bool { return len(k.last()) == 3 }, func() any { return k.last() })
			known := k.states()
			down.Away.Store(true)
			down.HangUp()
			up.Put(t, "pods", pod("kube-system", "new", "4"))
			eventually(t, func() bool { return len(k.last()) == 4 }, func() any { return k.last() })
			stop()
			k.keepsAll(t, known, 3)

			_, k, stop = start(false)
			eventually(t, func() bool { return len(k.last()) == 4 }, func() any { return k.last() })
			down.Compact()
			down.Away.Store(false)
			down.Put(t, "pods", pod("kube-system", "newer", "5"))
			eventually(t, func() bool { return len(k.last()) == 5 }, func() any { return k.last() })
			stop()
			k.keepsAll(t, 0, 4)
		})
	}
}

// keepsAll checks that no state from the first on has fewer pods.
func (k *kubelet) keepsAll(t *testing.T, first, pods int) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, set := range k.sets {
		if i >= first && len(set) < pods {
			t.Errorf("state %d of %d is %v", i, len(k.sets), set)
		}
	}
}

// TestAnotherPartitionOfTheName: what one has said never passes for what another one has, in
// the process and on disk.
func TestAnotherPartitionOfTheName(t *testing.T) {
	for _, restart := range []bool{false, true} {
		home, first, second := partitiontest.New(t, "main"), partitiontest.New(t, "tp2"), partitiontest.New(t, "tp2")
		home.Put(t, "pods", pod("default.t1", "web", "1"))
		first.Put(t, "pods", pod("kube-system", "agent", "2"))
		second.Put(t, "pods", pod("kube-system", "agent", "3"))
		second.Away.Store(true)
		a, b, unknown := first.Partition(false), second.Partition(false), first.Partition(false)
		a.Identity, b.Identity = "a", "b"
		dir, known := t.TempDir(), newDirectory(home.Partition(true), unknown)
		o := Options{Dir: dir, Fresh: true, Partitions: known}
		_, k, stop := startNode(t, o)
		pods := func(want int) {
			t.Helper()
			eventually(t, func() bool { return len(k.last()) == want }, func() any { return k.last() })
		}
		pods(2)
		// As after an upgrade: its identity is learned, and nothing happens.
		from := k.states()
		known.set(home.Partition(true), a)
		first.Put(t, "pods", pod("kube-system", "more", "4"))
		pods(3)
		k.keepsAll(t, from, 2)
		if restart {
			stop()
			o.Partitions, o.Fresh = newDirectory(home.Partition(true), b), false
			_, k, stop = startNode(t, o)
		} else {
			known.set(home.Partition(true), b)
		}
		pods(1) // it never gave this node a pod
		second.Away.Store(false)
		pods(2)
		eventually(t, func() bool { return slices.Contains(slices.Collect(maps.Values(k.last())), "3") },
			func() any { return k.last() })
		stop()
	}
}

// TestSecretsAreFollowed as the kubelet does it, with a streaming list.
func TestSecretsAreFollowed(t *testing.T) {
	c := newCluster(t, Options{})
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "s"},
			Data: map[string][]byte{"of": []byte(value)}}
	}
	c.tp2.Put(t, "secrets", secret("tp2"))
	c.home.Put(t, "secrets", secret("home"))
	const qualified = "kube-system.tp2.system"
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	lw := cache.ToListWatcherWithWatchListSemantics(
		cache.NewListWatchFromClient(c.api.CoreV1().RESTClient(), "secrets", qualified,
			fields.OneTermEqualSelector("metadata.name", "s")), c.api)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		cache.NewReflector(lw, &corev1.Secret{}, store, 0).Run(stop)
	}()
	defer func() {
		close(stop)
		<-done
	}()
	value := func() string {
		obj, ok, err := store.GetByKey(qualified + "/s")
		if err != nil || !ok {
			return ""
		}
		return string(obj.(*corev1.Secret).Data["of"])
	}
	eventually(t, func() bool { return value() == "tp2" }, func() any { return store.List() })
	c.home.Put(t, "secrets", secret("home again"))
	c.tp2.Put(t, "secrets", secret("tp2 again"))
	eventually(t, func() bool { return value() == "tp2 again" }, func() any { return store.List() })
	streamed := false
	for _, a := range c.tp2.Asked("GET", "/api/v1/namespaces/kube-system/secrets") {
		streamed = streamed || a.Query.Get("sendInitialEvents") == "true"
	}
	if !streamed {
		t.Error("no streaming list was asked for")
	}
}

// Router is what the transport of the kubelet needs.
var _ origin.Uplink = (*Router)(nil)

// TestACheckpointThatCannotBeRead: the identity of a partition that is away cannot be read at
// the start. The kubelet gets no list that lacks its pods, and the right one once it can.
func TestACheckpointThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	home, tp2 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
	home.Put(t, "pods", pod("kube-system", "agent", "1"))
	tp2.Put(t, "pods", pod("default.t2", "web", "2"))
	named := tp2.Partition(false)
	named.Identity = "a"
	all := newDirectory(home.Partition(true), named)
	n, stop := runNode(t, Options{Partitions: all, Dir: dir, Fresh: true})
	api := n.client(t)
	eventually(t, func() bool { return len(podsOf(t, api)) == 2 }, func() any { return podsOf(t, api) })
	file := filepath.Join(dir, "tp2", "pods.json")
	eventually(t, func() bool {
		data, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(data), "web")
	}, func() any { return file })
	stop()
	tp2.Away.Store(true)
	identity := filepath.Join(dir, "tp2", "identity")
	if err := errors.Join(os.Rename(identity, identity+".aside"), os.Mkdir(identity, 0o700)); err != nil {
		t.Fatal(err)
	}
	n, _ = runNode(t, Options{Partitions: all, Dir: dir})
	api = n.client(t)
	if list, err := api.CoreV1().Pods("").List(t.Context(), ownPods); !apierrors.IsServiceUnavailable(err) {
		t.Fatalf("without the pods of a partition there is a list of %d: %v", len(list.Items), err)
	}
	if err := errors.Join(os.Remove(identity), os.Rename(identity+".aside", identity)); err != nil {
		t.Fatal(err)
	}
	var got *corev1.PodList
	eventually(t, func() bool {
		var err error
		got, err = api.CoreV1().Pods("").List(t.Context(), ownPods)
		return err == nil
	}, func() any { return "no list" })
	if len(got.Items) != 2 {
		t.Errorf("the list has %d pods", len(got.Items))
	}
}
