package nodecopies

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/a4s-io/a4s/internal/health"
)

// deadline bounds every wait.
const deadline = 2 * time.Minute

// world is a tenant partition and two resource partitions, without API servers: what
// these do is in tests/integration/resourcepartitions.
type world struct {
	tp, rp1, rp2 *fake.Clientset
	importer     *Importer
	problems     *health.Registry
	// down partitions answer no request.
	down map[string]*atomic.Bool

	mu      sync.Mutex
	sources []Source
	changed chan struct{}
	asked   int // how often the importer has asked for them
	// left partitions are those that home does not have any more; silent is home that
	// does not say.
	left   map[string]bool
	silent bool
	// patience is short, unless a test says otherwise.
	patience time.Duration
}

func newWorld(t *testing.T, own ...runtime.Object) *world {
	t.Helper()
	w := &world{tp: fake.NewClientset(own...), rp1: fake.NewClientset(), rp2: fake.NewClientset(),
		problems: health.NewRegistry(), patience: time.Millisecond, down: map[string]*atomic.Bool{},
		changed: make(chan struct{})}
	for name, rp := range map[string]*fake.Clientset{"rp1": w.rp1, "rp2": w.rp2} {
		down := &atomic.Bool{}
		w.down[name] = down
		for _, verb := range []string{"get", "list"} {
			rp.PrependReactor(verb, "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return down.Load(), nil, errors.New("the partition is down")
			})
		}
	}
	// As package storage does.
	w.tp.PrependReactor("create", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if n, ok := a.(clienttesting.CreateAction).GetObject().(*corev1.Node); ok {
			delete(n.Annotations, UIDAnnotation)
			delete(n.Annotations, CreatedAnnotation)
		}
		return false, nil, nil
	})
	w.sources = []Source{{"rp1", w.rp1}, {"rp2", w.rp2}}
	return w
}

func (w *world) get() ([]Source, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return w.sources, w.changed
}

// follows sets the sources and returns when the importer follows these alone: when it asks for them again.
func (w *world) follows(t *testing.T, sources ...Source) {
	t.Helper()
	for range 2 {
		w.mu.Lock()
		before := w.asked
		w.mu.Unlock()
		w.set(sources...)
		until(t, "the importer to ask", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.asked > before
		})
	}
}

func (w *world) set(sources ...Source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sources = sources
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) hasLeft(_ context.Context, partition string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent {
		return false, errors.New("home does not answer")
	}
	return w.left[partition], nil
}

// start runs an importer until the test ends.
func (w *world) start(t *testing.T) {
	t.Helper()
	w.importer = New(Options{Client: w.tp, Sources: w.get, Left: w.hasLeft, Health: w.problems,
		Patience: w.patience, Log: logrus.NewEntry(logrus.StandardLogger())})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.importer.Component().Run(ctx, func() {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func until(t *testing.T, what string, check func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, deadline, true,
		func(context.Context) (bool, error) { return check(), nil }); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func put(t *testing.T, c *fake.Clientset, name string, uid types.UID, change func(*corev1.Node)) {
	t.Helper()
	n := full()
	n.Name, n.UID = name, uid
	if change != nil {
		change(n)
	}
	_, err := c.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = c.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, c *fake.Clientset, name string) {
	t.Helper()
	if err := c.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// copied is the copy of a node, nil if there is none.
func (w *world) copied(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := w.tp.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// of waits until a node is a copy of a partition's, with this UID.
func (w *world) of(t *testing.T, name, partition string, uid types.UID) {
	t.Helper()
	until(t, "the copy of "+name+" from "+partition, func() bool {
		n := w.copied(t, name)
		return n != nil && n.Labels[Label] == partition && n.UID == uid
	})
}

// writes are how many requests wrote nodes of the tenant partition.
func (w *world) writes() int {
	n := 0
	for _, a := range w.tp.Actions() {
		if a.GetResource().Resource == "nodes" &&
			slices.Contains([]string{"create", "update", "delete"}, a.GetVerb()) {
			n++
		}
	}
	return n
}

// after waits until what happened to the partitions so far has been seen: each gets a node
// that comes behind it.
func (w *world) after(t *testing.T, mark string) {
	t.Helper()
	for partition, c := range map[string]*fake.Clientset{"rp1": w.rp1, "rp2": w.rp2} {
		put(t, c, mark+"-"+partition, types.UID(mark+partition), nil)
		w.of(t, mark+"-"+partition, partition, types.UID(mark+partition))
	}
}

func TestHeartbeatsWriteNothing(t *testing.T) {
	w := newWorld(t)
	put(t, w.rp1, "n", "u", nil)
	w.start(t)
	w.of(t, "n", "rp1", "u")
	w.after(t, "first")
	was := w.writes()
	for i := range 10 {
		put(t, w.rp1, "n", "u", func(n *corev1.Node) {
			n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Duration(i) * time.Second))
		})
	}
	w.after(t, "second")
	if now := w.writes() - 2; now != was { // those of the two nodes
		t.Errorf("%d writes became %d", was, now)
	}
	put(t, w.rp1, "n", "u", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	until(t, "the change", func() bool { return w.copied(t, "n").Spec.Unschedulable })
	until(t, "all copies", w.importer.Complete)
}

// TestARestartWritesNothing: what is compared is the copy as it is stored.
func TestARestartWritesNothing(t *testing.T) {
	n := full()
	c := wantedNode(n, "rp1")
	c.Status.VolumesAttached = n.Status.VolumesAttached
	w := newWorld(t, c)
	put(t, w.rp1, n.Name, n.UID, nil)
	w.start(t)
	w.after(t, "mark")
	if w.writes() != 2 {
		t.Errorf("%d writes, want those of two other nodes", w.writes())
	}
}

// TestDeletedByWord: a copy is deleted when its partition says that the node is gone, and
// not before.
func TestDeletedByWord(t *testing.T) {
	w := newWorld(t)
	put(t, w.rp1, "n", "u", nil)
	w.start(t)
	w.of(t, "n", "rp1", "u")
	w.down["rp1"].Store(true)
	remove(t, w.rp1, "n") // the event comes, and then nobody answers
	w.rp2Marks(t)
	if w.copied(t, "n") == nil {
		t.Fatal("it was deleted without the word of its partition")
	}
	w.down["rp1"].Store(false)
	until(t, "the end of the copy", func() bool { return w.copied(t, "n") == nil })
}

func (w *world) rp2Marks(t *testing.T) {
	t.Helper()
	put(t, w.rp2, "mark", "mark", nil)
	w.of(t, "mark", "rp2", "mark")
}

// TestAPartitionThatIsDown at the start of the importer keeps all of its copies.
func TestAPartitionThatIsDown(t *testing.T) {
	w := newWorld(t, wantedNode(full(), "rp1"))
	w.down["rp1"].Store(true)
	w.start(t)
	w.rp2Marks(t)
	if w.copied(t, "n") == nil {
		t.Error("the copy was deleted")
	}
	if w.importer.Complete() {
		t.Error("the importer says that it has everything")
	}
	w.down["rp1"].Store(false)
	until(t, "the end of the copy", func() bool { return w.copied(t, "n") == nil })
	until(t, "all copies", w.importer.Complete)
}

// TestAPartitionThatForgotANode: a copy whose node is missing stays, until the node registers again
// or somebody deletes it.
func TestAPartitionThatForgotANode(t *testing.T) {
	w := newWorld(t, wantedNode(full(), "rp1"))
	w.patience = time.Hour
	w.start(t)
	until(t, "a question for the node", func() bool {
		return slices.ContainsFunc(w.rp1.Actions(),
			func(a clienttesting.Action) bool { return a.Matches("get", "nodes") })
	})
	w.rp2Marks(t)
	if w.copied(t, "n") == nil {
		t.Fatal("the copy was deleted without a word of the deletion of its node")
	}
	put(t, w.rp1, "n", "second", nil)
	w.of(t, "n", "rp1", "second")
	remove(t, w.rp1, "n")
	until(t, "the end of the copy", func() bool { return w.copied(t, "n") == nil })
}

// TestAForgottenNodeThatIsElsewhere: its copy does not stay in the way of the node.
func TestAForgottenNodeThatIsElsewhere(t *testing.T) {
	w := newWorld(t, wantedNode(full(), "rp1"))
	w.patience = time.Hour
	put(t, w.rp2, "n", "second", nil)
	w.start(t)
	w.of(t, "n", "rp2", "second")
}

// TestAListThatIsOld: a list without the node deletes nothing if the partition has it.
func TestAListThatIsOld(t *testing.T) {
	w := newWorld(t, wantedNode(full(), "rp1"))
	put(t, w.rp1, "n", full().UID, nil)
	var asked atomic.Int64
	w.rp1.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked.Add(1)
		return false, nil, nil
	})
	w.rp1.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
	})
	w.rp1.PrependWatchReactor("nodes", clienttesting.DefaultWatchReactor(watch.NewFake(), nil))
	w.start(t)
	until(t, "the question", func() bool { return asked.Load() > 1 })
	if w.copied(t, "n") == nil {
		t.Error("the copy was deleted")
	}
}

func TestANameThatSeveralHave(t *testing.T) {
	own := full()
	own.Name = "own"
	w := newWorld(t, own)
	problem := func(name, part string) bool {
		return slices.ContainsFunc(w.problems.Holdings(), func(h health.Holding) bool {
			return h.Code == health.NodeNameTaken && h.Subject == name && strings.Contains(h.Detail, part)
		})
	}
	put(t, w.rp1, "n", "first", nil)
	w.start(t)
	w.of(t, "n", "rp1", "first")
	put(t, w.rp2, "n", "second", nil)
	put(t, w.rp1, "own", "third", nil)
	until(t, "problems", func() bool { return problem("n", "ignored: rp2") && problem("own", "that of this server") })
	w.after(t, "mark")
	w.of(t, "n", "rp1", "first")
	if n := w.copied(t, "own"); n.UID != own.UID || n.Labels[Label] != "" {
		t.Errorf("the node of the server became %+v", n)
	}
	remove(t, w.rp1, "n")
	w.of(t, "n", "rp2", "second")
	remove(t, w.rp1, "own")
	until(t, "no problems", func() bool { return len(w.problems.Holdings()) == 0 })
}

func TestAnotherNodeOfTheName(t *testing.T) {
	w := newWorld(t)
	put(t, w.rp1, "n", "first", nil)
	w.start(t)
	w.of(t, "n", "rp1", "first")
	put(t, w.rp1, "n", "second", nil) // deleted and made while nobody looked
	w.of(t, "n", "rp1", "second")
}

func TestAPartitionThatIsNotKnownAnyMore(t *testing.T) {
	w := newWorld(t)
	put(t, w.rp1, "n", "u", nil)
	w.start(t)
	w.of(t, "n", "rp1", "u")
	w.follows(t, Source{"rp2", w.rp2})
	w.rp2Marks(t)
	remove(t, w.rp1, "n")
	put(t, w.rp2, "later", "later", nil)
	w.of(t, "later", "rp2", "later")
	if w.copied(t, "n") == nil {
		t.Error("the copy was deleted")
	}
}

// TestPartitionThatLeft: its copies go when home says that it left, and not before.
func TestPartitionThatLeft(t *testing.T) {
	w := newWorld(t)
	put(t, w.rp1, "n1", "1", nil)
	put(t, w.rp2, "m1", "2", nil)
	w.start(t)
	until(t, "the copies", func() bool { return w.copied(t, "n1") != nil && w.copied(t, "m1") != nil })
	w.mu.Lock()
	w.silent = true
	w.mu.Unlock()
	w.set(Source{"rp2", w.rp2})
	put(t, w.rp2, "m2", "3", nil)
	until(t, "a later copy", func() bool { return w.copied(t, "m2") != nil })
	if w.copied(t, "n1") == nil {
		t.Fatal("the copy went although home did not say anything")
	}
	w.mu.Lock()
	w.silent = false
	w.mu.Unlock()
	w.set(Source{"rp2", w.rp2})
	put(t, w.rp2, "m3", "4", nil)
	until(t, "a later copy", func() bool { return w.copied(t, "m3") != nil })
	if w.copied(t, "n1") == nil {
		t.Fatal("the copy went although its partition did not leave")
	}
	w.mu.Lock()
	w.left = map[string]bool{"rp1": true}
	w.mu.Unlock()
	w.set(Source{"rp2", w.rp2})
	until(t, "no copy", func() bool { return w.copied(t, "n1") == nil })
	for _, name := range []string{"m1", "m2", "m3"} {
		if w.copied(t, name) == nil {
			t.Errorf("copy %s of a partition that stayed went", name)
		}
	}
}

// TestCopiesAreNotCopied: a resource partition that has tenants, too, has copies of nodes of
// others, which are not its own. One may have the name of a node that it had.
func TestCopiesAreNotCopied(t *testing.T) {
	w := newWorld(t)
	of := func(partition string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels = map[string]string{Label: partition} }
	}
	put(t, w.rp1, "n1", "1", nil)
	put(t, w.rp1, "m1", "2", of("rp2"))
	put(t, w.rp1, "moved", "4", of("rp2"))
	put(t, w.rp2, "m1", "2", nil)
	put(t, w.rp2, "moved", "4", nil)
	put(t, w.tp, "moved", "3", of("rp1"))
	w.start(t)
	until(t, "the copies", func() bool {
		moved := w.copied(t, "moved")
		return w.copied(t, "n1") != nil && w.copied(t, "m1") != nil && moved != nil && moved.Labels[Label] == "rp2"
	})
	if of := w.copied(t, "m1").Labels[Label]; of != "rp2" {
		t.Errorf("the copy is of %s", of)
	}
	if held := w.problems.Holdings(); len(held) > 0 {
		t.Errorf("%v", held)
	}
}

// TestBehind: a resource partition whose nodes are not all known is reported by the server
// that leads, and by no other.
func TestBehind(t *testing.T) {
	w := newWorld(t)
	put(t, w.rp1, "n1", "1", nil)
	put(t, w.rp2, "m1", "2", nil)
	w.down["rp1"].Store(true)
	var refuse atomic.Bool
	refuse.Store(true)
	w.tp.PrependReactor("create", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refuse.Load(), nil, errors.New("refused")
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.importer = New(Options{Client: w.tp, Sources: w.get, Left: w.hasLeft,
		Log: logrus.NewEntry(logrus.StandardLogger())})
	behind := func(want ...string) func() bool {
		return func() bool {
			w.importer.Check(t.Context(), w.problems)
			var got []string
			for _, h := range w.problems.Holdings() {
				got = append(got, h.Subject+": "+h.Detail)
			}
			slices.Sort(got)
			return slices.Equal(got, want)
		}
	}
	until(t, "nothing while it does not lead", behind())
	done := make(chan error, 1)
	go func() { done <- w.importer.Component().Run(ctx, func() {}) }()
	until(t, "both", behind("rp1: its nodes could not be listed yet", "rp2: 1 nodes have no copy, m1 for one"))
	refuse.Store(false)
	until(t, "one", behind("rp1: its nodes could not be listed yet"))
	w.down["rp1"].Store(false)
	until(t, "none", behind())
	w.down["rp1"].Store(true)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	until(t, "nothing when it does not lead any more", behind())
}
