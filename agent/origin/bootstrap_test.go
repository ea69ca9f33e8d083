package origin

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
	"github.com/a4s-io/a4s/agent/origin/objectfile"
)

func down(a *podServer) { a.set(func() { a.down = true }) }
func up(a *podServer)   { a.set(func() { a.down = false }) }

func TestSeedPodAPIWorksInTheAbsenceOfAnAPIServer(t *testing.T) {
	server := newPodServer(t)
	down(server)
	n := newNode(t, server, t.TempDir(), true)
	n.awaitUIDs(t, "that there is nothing")
	n.create(t, "a-node1", "a")
	n.awaitUIDs(t, "the first pod", "a")
	n.create(t, "b-node1", "b")
	n.awaitUIDs(t, "the second pod", "a", "b")
	for what, list := range map[string]func() error{
		"nodes": func() error {
			_, err := n.client.CoreV1().Nodes().List(t.Context(), ownNode)
			return err
		},
		"services": func() error {
			_, err := n.client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
			return err
		},
		"runtimeclasses": func() error {
			_, err := n.client.NodeV1().RuntimeClasses().List(t.Context(), metav1.ListOptions{})
			return err
		},
		"csidrivers": func() error {
			_, err := n.client.StorageV1().CSIDrivers().List(t.Context(), metav1.ListOptions{})
			return err
		},
	} {
		if err := list(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	// The server comes, with a pod of its own.
	server.say(t, "ADDED", newPod("own", "own"))
	up(server)
	n.awaitUIDs(t, "the server's pod beside the others", "a", "b", "own")
	n.neverLost(t, "a")
	n.neverLost(t, "b")
	n.create(t, "c-node1", "c")
	n.awaitUIDs(t, "a pod while there is a server", "a", "b", "c", "own")
}

func TestSeedDeletion(t *testing.T) {
	for name, online := range map[string]bool{"without a server": false, "with a server": true} {
		t.Run(name, func(t *testing.T) {
			server := newPodServer(t)
			if !online {
				down(server)
			}
			n := newNode(t, server, t.TempDir(), true)
			n.create(t, "a-node1", "a")
			n.create(t, "b-node1", "b")
			n.awaitUIDs(t, "the pods", "a", "b")
			pods := n.client.CoreV1().Pods("default")
			if err := pods.Delete(t.Context(), "a-node1", metav1.DeleteOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("a deletion by the kubelet that nobody asked for: %v", err)
			}
			_, err := n.store.MarkDeleted("a", time.Now())
			must(t, err)
			n.await(t, "that the pod is to end", func(set map[types.UID]corev1.Pod) bool {
				a := set["a"]
				return a.DeletionTimestamp != nil && len(set) == 2
			})
			// The kubelet has ended its containers.
			must(t, pods.Delete(t.Context(), "a-node1", *metav1.NewDeleteOptions(0)))
			n.awaitUIDs(t, "that the pod is gone", "b")
			n.neverLost(t, "b")
		})
	}
}

func TestSeedDeleteBeforePersistenceIsIgnored(t *testing.T) {
	server := newPodServer(t)
	n := newNode(t, server, t.TempDir(), true)
	n.create(t, "a-node1", "ours")
	n.awaitUIDs(t, "the pod", "ours")
	foreign := server.say(t, "ADDED", newPod("a-node1", "foreign"))
	server.say(t, "DELETED", foreign)
	server.say(t, "DELETED", newPod("a-node1", "ours"))
	server.say(t, "ADDED", newPod("last", "last"))
	n.awaitUIDs(t, "what came after the deletion", "ours", "last")
	n.neverLost(t, "ours")
	if !n.logged("ignored the deletion of a bootstrap pod that the API server does not have yet") {
		t.Error("the ignored deletion is not in the log")
	}
	// A list without it is a deletion, too.
	server.hangUp()
	server.say(t, "ADDED", newPod("more", "more"))
	n.create(t, "b-node1", "b")
	n.await(t, "the pod of the next watch", func(set map[types.UID]corev1.Pod) bool { return set["b"].UID == "b" })
	n.neverLost(t, "ours")
}

func TestSeedUpdateByTheServerRestartsNothing(t *testing.T) {
	server := newPodServer(t)
	n := newNode(t, server, t.TempDir(), true)
	n.create(t, "a-node1", "a")
	n.awaitUIDs(t, "the pod", "a")

	// Persisted, but the watch is behind, and so is a list.
	_, err := n.store.MarkPersisted("a", "a", "150")
	must(t, err)
	server.set(func() {
		server.stale = server.list()
	})
	server.say(t, "ADDED", newPod("other", "other"))
	n.awaitUIDs(t, "another pod", "a", "other")
	server.hangUp()
	if list, err := n.client.CoreV1().Pods("").
		List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}); err != nil || len(list.Items) != 1 {
		t.Errorf("a list of the past: %v, %v; want the pod in it", list.Items, err)
	}
	server.set(func() { server.stale, server.version = nil, 199 })

	taken := newPod("a-node1", "a")
	taken.Labels = map[string]string{"by": "server"}
	deadline := time.Now().Add(time.Minute)
	for e, _ := n.store.Get("a"); e.State != store.Seen && time.Now().Before(deadline); e, _ = n.store.Get("a") {
		server.say(t, "MODIFIED", taken) // until the next watch hears it
		time.Sleep(20 * time.Millisecond)
	}
	n.await(t, "the server's pod", func(set map[types.UID]corev1.Pod) bool {
		return set["a"].Labels["by"] == "server"
	})
	n.neverLost(t, "a")
	if _, ok := n.store.Get("a"); !ok {
		t.Error("its record is gone")
	}

	// Now the server decides.
	server.say(t, "DELETED", taken)
	n.awaitUIDs(t, "that the pod is gone", "other")
	if _, ok := n.store.Get("a"); ok {
		t.Error("the record of a pod that is gone is still there")
	}
}

func TestSeedUpdateUnderAnotherUIDIsARestart(t *testing.T) {
	server := newPodServer(t)
	n := newNode(t, server, t.TempDir(), true)
	n.create(t, "a-node1", "ours")
	n.awaitUIDs(t, "the pod", "ours")
	_, err := n.store.MarkPersisted("ours", "theirs", "150")
	must(t, err)
	server.say(t, "ADDED", newPod("a-node1", "theirs"))
	n.awaitUIDs(t, "the server's pod in place of ours", "theirs")
}

func TestPersistedPodThatANewerListLacksIsGone(t *testing.T) {
	server := newPodServer(t)
	dir := t.TempDir()
	down(server)
	n := newNode(t, server, dir, true)
	n.create(t, "gone-node1", "gone")
	n.create(t, "new-node1", "new")
	_, err := n.store.MarkPersisted("gone", "gone", "50")
	must(t, err)
	_, err = n.store.MarkPersisted("new", "new", "150") // newer than the list
	must(t, err)
	n.awaitUIDs(t, "both without a server", "gone", "new")
	up(server)
	n.awaitUIDs(t, "what a list of version 100 can tell", "new")
	n.neverLost(t, "new")
	if _, ok := n.store.Get("gone"); ok {
		t.Error("its record is still there")
	}
}

func TestCheckpointKeepsThePodsOfTheServerRunning(t *testing.T) {
	server := newPodServer(t)
	dir := t.TempDir()
	n := newNode(t, server, dir, true)
	server.say(t, "ADDED", newPod("own", "own"))
	server.say(t, "ADDED", newPod("early", "early"))
	n.awaitUIDs(t, "the server's pods", "own", "early")
	if _, err := n.client.CoreV1().Nodes().List(t.Context(), ownNode); err != nil {
		t.Fatal(err)
	}
	done := newPod("own", "own")
	done.Status.Phase = corev1.PodSucceeded
	server.say(t, "MODIFIED", done)
	server.say(t, "DELETED", newPod("early", "early"))
	n.await(t, "the last word", func(set map[types.UID]corev1.Pod) bool {
		return len(set) == 1 && set["own"].Status.Phase == corev1.PodSucceeded
	})
	n.stop()
	down(server)

	again := newNode(t, server, dir, false)
	again.create(t, "a-node1", "a")
	again.await(t, "what the server said last", func(set map[types.UID]corev1.Pod) bool {
		return len(set) == 2 && set["own"].Status.Phase == corev1.PodSucceeded && set["a"].UID == "a"
	})
	nodes, err := again.client.CoreV1().Nodes().List(t.Context(), ownNode)
	if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Labels["zone"] != "a" {
		t.Errorf("the node is %v, %v", nodes, err)
	}
	up(server)
	again.awaitUIDs(t, "the same with the server", "own", "a")
	again.neverLost(t, "own")
}

func TestWithoutATrustworthyCheckpointNoListIsMade(t *testing.T) {
	for name, content := range map[string]string{"missing": "", "damaged": `{"items":[{"kind":`,
		"of something else": `{"items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"x"}}]}`} {
		t.Run(name, func(t *testing.T) {
			server := newPodServer(t)
			down(server)
			dir := t.TempDir()
			path := filepath.Join(dir, "checkpoint", "pods.json")
			if content != "" {
				must(t, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600))
			}
			n := newNode(t, server, dir, false)
			n.create(t, "a-node1", "a")
			_, err := n.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			if !apierrors.IsServiceUnavailable(err) {
				t.Errorf("error %v: a short list would end every other pod", err)
			}
			if content != "" {
				named := false
				for _, e := range n.log.AllEntries() {
					named = named || strings.Contains(e.Message, path)
				}
				if !named {
					t.Errorf("no log entry names %s", path)
				}
			}
			up(server)
			n.awaitUIDs(t, "the pods once there is a server", "a")
		})
	}
}

func TestOnceThereWasAServerItsErrorsArePassedOn(t *testing.T) {
	server := newPodServer(t)
	n := newNode(t, server, t.TempDir(), true)
	server.say(t, "ADDED", newPod("own", "own"))
	n.create(t, "a-node1", "a")
	n.awaitUIDs(t, "the pods", "own", "a")
	down(server)
	if _, err := n.client.CoreV1().Pods("").List(t.Context(),
		metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error %v, want the server's", err)
	}
	server.hangUp()
	n.create(t, "b-node1", "b") // told when there is a watch again
	up(server)
	n.awaitUIDs(t, "all pods", "own", "a", "b")
	n.neverLost(t, "own")
	n.neverLost(t, "a")
}

// TestPodAPIWorksWhileTheServerIsAway: the server was there, and is not any
// more; what is made and deleted meanwhile is told at once, and nothing else
// changes.
func TestPodAPIWorksWhileTheServerIsAway(t *testing.T) {
	server := newPodServer(t)
	n := newNode(t, server, t.TempDir(), true)
	server.say(t, "ADDED", newPod("own", "own"))
	n.create(t, "a-node1", "a")
	n.awaitUIDs(t, "the pods", "own", "a")
	server.away.Store(true)
	server.hangUp()
	n.create(t, "b-node1", "b")
	n.awaitUIDs(t, "the pod that was made", "own", "a", "b")
	must(t, n.store.Remove("a"))
	n.awaitUIDs(t, "the pod that was deleted", "own", "b")
	n.create(t, "c-node1", "c")
	n.awaitUIDs(t, "another pod that was made", "own", "b", "c")
	server.say(t, "ADDED", newPod("late", "late"))
	server.away.Store(false)
	n.awaitUIDs(t, "what the server has done meanwhile", "own", "b", "c", "late")
	n.neverLost(t, "own")
	n.neverLost(t, "b")
}

func TestNextWatchTellsWhatNoneHeard(t *testing.T) {
	server := newPodServer(t)
	n := newNode(t, server, t.TempDir(), true)
	n.create(t, "a-node1", "a")
	n.awaitUIDs(t, "the pod", "a")
	pods := n.client.CoreV1().Pods("")
	next := func() watch.Event {
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		must(t, err)
		if len(list.Items) == 1 {
			must(t, n.store.Remove("a"))
		} else {
			n.create(t, "b-node1", "b")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		must(t, err)
		defer w.Stop()
		return <-w.ResultChan() // closed when the time is up
	}
	if e := next(); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("after a removal: %+v, want to be asked for a list", e)
	}
	e := next()
	if pod, ok := e.Object.(*corev1.Pod); !ok || e.Type != watch.Modified || pod.UID != "b" ||
		pod.ResourceVersion != "100" {
		t.Errorf("after a creation: %+v, want the pod with the version of the list", e)
	}
}

func TestPodsAreNotListedInPages(t *testing.T) {
	server := newPodServer(t)
	n := newNode(t, server, t.TempDir(), true)
	n.awaitUIDs(t, "that there is nothing")
	server.set(func() { server.limited = false })
	if _, err := n.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	server.set(func() {
		if server.limited {
			t.Error("a page of the pods would pass for all of them")
		}
	})
}

// TestWatchesAreWhatAServerTakesForThem: a server that is away is stood in for
// with events where it would have sent them.
func TestWatchesAreWhatAServerTakesForThem(t *testing.T) {
	server := newPodServer(t)
	down(server)
	n := newNode(t, server, t.TempDir(), true)
	for query, want := range map[string]int{"watch=True&sendInitialEvents=true": http.StatusUnprocessableEntity,
		"watch=&sendInitialEvents": http.StatusUnprocessableEntity, "limit=x": http.StatusBadRequest} {
		var code int
		n.client.CoreV1().RESTClient().Get().RequestURI("/api/v1/pods?" + query).Do(t.Context()).StatusCode(&code)
		if code != want {
			t.Errorf("%s: %d, want %d", query, code, want)
		}
	}
}

func TestWhatDecidesIfAPodRunsIsKeptSoon(t *testing.T) {
	base := newPod("a", "a")
	for name, tc := range map[string]struct {
		change func(p *corev1.Pod)
		want   bool
	}{
		"end":       {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, true},
		"deletion":  {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, true},
		"successor": {func(p *corev1.Pod) { p.UID = "b" }, true},
		"condition": {func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: "Ready"}} }, false},
	} {
		changed := base.DeepCopy()
		tc.change(changed)
		if got := objectfile.Matters(&base, changed); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestKubeletReadsAndWritesAPodThatNoServerHas(t *testing.T) {
	server := newPodServer(t)
	n := newNode(t, server, t.TempDir(), true)
	n.create(t, "a-node1", "a")
	n.awaitUIDs(t, "the pod", "a")
	pods := n.client.CoreV1().Pods("default")
	pod, err := pods.Get(t.Context(), "a-node1", metav1.GetOptions{})
	if err != nil || pod.UID != "a" {
		t.Fatalf("got %v, %v", pod, err)
	}
	patch := func(uid types.UID, phase corev1.PodPhase) error {
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": map[string]any{
			"phase":      phase,
			"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		}})
		must(t, err)
		_, err = pods.Patch(t.Context(), "a-node1", types.StrategicMergePatchType, data,
			metav1.PatchOptions{}, "status")
		return err
	}
	if err := patch("another", corev1.PodFailed); !apierrors.IsConflict(err) {
		t.Errorf("a patch for another pod: %v, want a conflict", err)
	}
	must(t, patch("a", corev1.PodRunning))
	if e, _ := n.store.Get("a"); e.Pod.Status.Phase != corev1.PodRunning || len(e.Pod.Status.Conditions) != 1 {
		t.Errorf("status %+v", e.Pod.Status)
	}
	n.await(t, "the status", func(set map[types.UID]corev1.Pod) bool {
		return set["a"].Status.Phase == corev1.PodRunning
	})
	// What another pod is about goes to the server, which knows none.
	if _, err := pods.Get(t.Context(), "b", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want the server's", err)
	}
	_, err = n.store.MarkPersisted("a", "a", "150")
	must(t, err)
	if err := patch("a", corev1.PodFailed); !apierrors.IsNotFound(err) {
		t.Errorf("error %v: a persisted pod is the server's business", err)
	}
}
