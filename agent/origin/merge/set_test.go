package merge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func kindOf(t *testing.T, resource schema.GroupVersionResource) kind {
	t.Helper()
	for _, k := range kinds() {
		if k.resource == resource {
			return k
		}
	}
	t.Fatalf("no collection of %s", resource)
	return kind{}
}

func testSet(t *testing.T, resource schema.GroupVersionResource) (*set, *Placement) {
	t.Helper()
	logger, _ := logtest.NewNullLogger()
	p := newPlacement()
	return newSet(kindOf(t, resource), firstVersion(), p, logrus.NewEntry(logger), func(*set, *source, bool) {}), p
}

// model is what the partitions have, by name on this node.
type model map[types.NamespacedName]map[string]types.UID

// shown is which of them counts.
func (m model) shown() map[types.NamespacedName]types.UID {
	out := map[types.NamespacedName]types.UID{}
	for key, by := range m {
		names := make([]string, 0, len(by))
		for name := range by {
			names = append(names, name)
		}
		slices.Sort(names) // "a", the home partition, comes first
		if len(names) > 0 {
			out[key] = by[names[0]]
		}
	}
	return out
}

func equal(a, b map[types.NamespacedName]types.UID) bool {
	if len(a) != len(b) {
		return false
	}
	for key, uid := range a {
		if b[key] != uid {
			return false
		}
	}
	return true
}

// TestListIsTheUnion makes any sequence of events and compares what is listed, and
// what a client knows that only watches, with what the partitions have.
func TestListIsTheUnion(t *testing.T) {
	for _, resource := range []schema.GroupVersionResource{podsResource,
		{Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"}} {
		for seed := range uint64(300) {
			t.Run(fmt.Sprintf("%s %d", resource.Resource, seed), func(t *testing.T) { union(t, resource, seed) })
		}
	}
}

func union(t *testing.T, resource schema.GroupVersionResource, seed uint64) {
	s, placement := testSet(t, resource)
	r := rand.New(rand.NewPCG(seed, 1))
	want, seen := model{}, map[types.NamespacedName]types.UID{}
	from := map[string]*source{}
	for _, name := range []string{"a", "b", "c"} {
		from[name] = &source{name: name, home: name == "a", knowledge: knowledge{is: known}}
		s.join(from[name])
	}
	names := []string{"x", "y", "z"}
	namespaces := []string{"kube-system", "default.t1"}
	if resource != podsResource {
		namespaces = []string{""}
	}
	uids := 0
	object := func(f *source, namespace, name string) runtime.Object {
		obj := s.item()
		m, ok := obj.(metav1.Object)
		if !ok {
			t.Fatalf("%T has no metadata", obj)
		}
		uids++
		m.SetNamespace(namespace)
		m.SetName(name)
		m.SetUID(types.UID(strconv.Itoa(uids)))
		m.SetResourceVersion(strconv.Itoa(uids))
		if err := s.adopt(f.qualifier(), obj); err != nil {
			t.Fatal(err)
		}
		key, _ := keyOf(obj)
		if want[key] == nil {
			want[key] = map[string]types.UID{}
		}
		want[key][f.name] = m.GetUID()
		return obj
	}
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	version := s.base
	for step := range 60 {
		f := from[pick([]string{"a", "b", "c"})]
		switch op := r.IntN(10); {
		case op < 5:
			s.put(f, object(f, pick(namespaces), pick(names)))
		case op < 8:
			obj := object(f, pick(namespaces), pick(names)) // it need not be there
			key, _ := keyOf(obj)
			delete(want[key], f.name)
			if err := s.drop(f, obj); err != nil {
				t.Fatal(err)
			}
		case op == 8:
			for key := range want {
				delete(want[key], f.name)
			}
			var objs []runtime.Object
			for _, name := range names[:r.IntN(len(names)+1)] {
				objs = append(objs, object(f, namespaces[0], name))
			}
			if err := s.replace(f, objs); err != nil {
				t.Fatal(err)
			}
		default:
			for key := range want {
				delete(want[key], f.name)
			}
			s.leave(f)
			s.join(f)
		}
		listed := map[types.NamespacedName]types.UID{}
		objs, at, wait, err := s.all()
		if wait != nil || err != nil {
			t.Fatal("the list is not known", err)
		}
		for _, obj := range objs {
			key, _ := keyOf(obj)
			listed[key] = uidOf(obj)
		}
		if !equal(listed, want.shown()) {
			t.Fatalf("step %d: listed %v, the partitions have %v", step, listed, want.shown())
		}
		if at < version {
			t.Fatalf("version %d after %d", at, version)
		}
		if r.IntN(3) > 0 {
			continue // the watch is behind
		}
		changes, _, err := s.since(version)
		if err != nil {
			t.Fatal(err)
		}
		version = replay(t, seen, version, changes)
		if !equal(seen, listed) {
			t.Fatalf("step %d: watched %v, listed %v", step, seen, listed)
		}
	}
	for _, f := range from {
		s.leave(f)
		placement.forget(f.name)
	}
	if len(s.entries) != 0 || len(placement.tenants) != 0 {
		t.Errorf("after all have left there is %v, tenants %v", s.entries, placement.tenants)
	}
}

// replay does what a client of a watch does.
func replay(
	t *testing.T, seen map[types.NamespacedName]types.UID, version int64, changes []change,
) int64 {
	t.Helper()
	for _, c := range changes {
		if c.version != version+1 {
			t.Fatalf("version %d follows %d", c.version, version)
		}
		version = c.version
		obj := c.obj
		if obj == nil {
			obj = c.gone
		}
		key, _ := keyOf(obj)
		if _, had := seen[key]; had != (c.old != nil) {
			t.Fatalf("a change of %s from %v; the client had it: %v", key, c.old, had)
		}
		if m, ok := obj.(metav1.Object); !ok || m.GetResourceVersion() != formatVersion(version) {
			t.Fatalf("version %d is on %v", version, obj)
		}
		if c.obj == nil {
			delete(seen, key)
		} else {
			seen[key] = uidOf(obj)
		}
	}
	return version
}

func pod(namespace, name string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid, ResourceVersion: "5"},
		Spec: corev1.PodSpec{NodeName: "node1"}}
}

func TestOldChangesAreForgotten(t *testing.T) {
	s, _ := testSet(t, podsResource)
	from := &source{name: "a", home: true, knowledge: knowledge{is: known}}
	s.join(from)
	for i := range ringSize + 1 {
		s.put(from, pod("default", "p", types.UID(strconv.Itoa(i/2))))
	}
	if _, _, err := s.since(s.version - ringSize); err != nil {
		t.Errorf("the last %d changes: %v", ringSize, err)
	}
	for what, version := range map[string]int64{"too old": s.version - ringSize - 1, "of another process": s.base - 1,
		"of a server": 12345, "of the future": s.version + 1} {
		if _, _, err := s.since(version); !errors.Is(err, errExpired) {
			t.Errorf("a version that is %s: %v", what, err)
		}
	}
	if !IsLocal(formatVersion(s.version)) || IsLocal("12345") || IsLocal("") || IsLocal("x") {
		t.Error("versions of this node are not told from those of servers")
	}
	if later := firstVersion(); later <= s.base {
		t.Errorf("the next process begins at %d, before %d", later, s.base)
	}
}

func TestWhatIsShownNeverChanges(t *testing.T) {
	s, _ := testSet(t, podsResource)
	home := &source{name: "a", home: true, knowledge: knowledge{is: known}}
	s.join(home)
	first := pod("default", "p", "1")
	if err := s.adopt(home.qualifier(), first); err != nil {
		t.Fatal(err)
	}
	s.put(home, first)
	kept := first.DeepCopy()
	again := pod("default", "p", "1")
	again.ResourceVersion = "6"
	s.put(home, again)
	if err := s.drop(home, pod("default", "p", "1")); err != nil {
		t.Fatal(err)
	}
	if first.ResourceVersion != kept.ResourceVersion {
		t.Errorf("an object that was shown at %s is now at %s", kept.ResourceVersion, first.ResourceVersion)
	}
}

// TestReplaceIsQuiet is about a partition that is listed again: what it had is no
// news, but a bootstrap pod may be another one at the same version.
func TestReplaceIsQuiet(t *testing.T) {
	s, _ := testSet(t, podsResource)
	from := &source{name: "a", home: true}
	s.join(from)
	list := func(phase corev1.PodPhase) []runtime.Object {
		p := pod("default", "p", "1")
		p.Status.Phase = phase
		if err := s.adopt("", p); err != nil {
			t.Fatal(err)
		}
		return []runtime.Object{p}
	}
	for _, step := range []struct {
		phase corev1.PodPhase
		news  int64
	}{{corev1.PodPending, 1}, {corev1.PodPending, 0}, {corev1.PodRunning, 1}} {
		before := s.version
		if err := s.replace(from, list(step.phase)); err != nil {
			t.Fatal(err)
		}
		if s.version-before != step.news {
			t.Errorf("a list with a pod that is %s makes %d changes, want %d", step.phase, s.version-before, step.news)
		}
	}
	if objs, ok := s.of(from); !ok || len(objs) != 1 || objs[0].(*corev1.Pod).ResourceVersion != "5" {
		t.Errorf("for the disk it has %v", objs)
	}
}

// TestAnotherObjectOfTheName is the end of one and the beginning of another.
func TestAnotherObjectOfTheName(t *testing.T) {
	s, _ := testSet(t, podsResource)
	from := &source{name: "a", home: true, knowledge: knowledge{is: known}}
	s.join(from)
	s.put(from, pod("default", "p", "1"))
	s.put(from, pod("default", "p", "2"))
	changes, _, err := s.since(s.base)
	if err != nil || len(changes) != 3 {
		t.Fatal(changes, err)
	}
	if gone := changes[1]; gone.obj != nil || uidOf(gone.gone) != "1" {
		t.Errorf("it does not end: %+v", gone)
	}
	if next := changes[2]; next.old != nil || uidOf(next.obj) != "2" {
		t.Errorf("it does not begin: %+v", next)
	}
}

func TestPlacementOfTenants(t *testing.T) {
	s, placement := testSet(t, podsResource)
	a, b := &source{name: "a", home: true, knowledge: knowledge{is: known}},
		&source{name: "b", knowledge: knowledge{is: known}}
	s.join(a)
	s.join(b)
	check := func(want string) {
		t.Helper()
		if got, ok := placement.Of("t1"); got != want || ok != (want != "") {
			t.Errorf("the tenant is in %q, want %q", got, want)
		}
	}
	check("")
	s.put(a, pod("kube-system", "x", "0"))
	check("")
	s.put(b, pod("default.t1", "x", "1"))
	check("b")
	s.put(a, pod("other.t1", "x", "2")) // cannot be: the first one counts
	check("b")
	for _, drop := range []struct {
		from *source
		pod  *corev1.Pod
		want string
	}{{b, pod("default.t1", "x", "1"), "a"}, {a, pod("other.t1", "x", "2"), "a"}} {
		if err := s.drop(drop.from, drop.pod); err != nil {
			t.Fatal(err)
		}
		check(drop.want)
	}
	s.put(b, pod("default.t1", "y", "3")) // it was made anew, elsewhere
	check("b")
}

// TestTenantsThatAreGone are remembered, but not all that ever were.
func TestTenantsThatAreGone(t *testing.T) {
	p := newPlacement()
	p.add("stays", "b", 1)
	for i := range 3 * maxGone {
		tenant := strconv.Itoa(i)
		p.add(tenant, "b", 1)
		p.add(tenant, "b", -1)
		if partition, ok := p.Of(tenant); !ok || partition != "b" {
			t.Fatalf("tenant %s is forgotten at once", tenant)
		}
	}
	if n := len(p.tenants); n > maxGone+1 {
		t.Errorf("%d tenants are remembered", n)
	}
	if _, ok := p.Of("stays"); !ok {
		t.Error("a tenant who is here is forgotten")
	}
	if n := cap(p.gone); n > 4*maxGone {
		t.Errorf("the queue has room for %d", n)
	}
}

func TestSelectors(t *testing.T) {
	pods, services := kindOf(t, podsResource), kindOf(t, servicesResource)
	headless := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{"l": "v"}},
		Spec: corev1.ServiceSpec{ClusterIP: "None"}}
	for _, c := range []struct {
		kind   kind
		o      metav1.ListOptions
		obj    runtime.Object
		ok     bool
		failed bool
	}{
		{kind: pods, o: metav1.ListOptions{FieldSelector: "spec.nodeName=node1"}, obj: pod("d", "p", "1"), ok: true},
		{kind: pods, o: metav1.ListOptions{FieldSelector: "spec.nodeName=node2"}, obj: pod("d", "p", "1")},
		{kind: pods, o: metav1.ListOptions{FieldSelector: "spec.unknown=1"}, failed: true},
		{kind: pods, o: metav1.ListOptions{FieldSelector: "metadata.name=p,metadata.namespace=d"},
			obj: pod("d", "p", "1"), ok: true},
		{kind: services, o: metav1.ListOptions{FieldSelector: "spec.clusterIP!=None"}, obj: headless},
		{kind: services, o: metav1.ListOptions{FieldSelector: "spec.clusterIP=None"}, obj: headless, ok: true},
		{kind: services, o: metav1.ListOptions{LabelSelector: "l=v"}, obj: headless, ok: true},
		{kind: services, o: metav1.ListOptions{LabelSelector: "!l"}, obj: headless},
		{kind: services, o: metav1.ListOptions{LabelSelector: "l in ("}, failed: true},
		{kind: services, o: metav1.ListOptions{FieldSelector: "x"}, failed: true},
	} {
		match, err := c.kind.matcher(&c.o)
		if (err != nil) != c.failed {
			t.Errorf("%+v: %v", c.o, err)
		}
		if err == nil && match(c.obj) != c.ok {
			t.Errorf("%+v matches: %v", c.o, !c.ok)
		}
	}
	if got := selectorFor(pods, "node1"); got != fields.OneTermEqualSelector("spec.nodeName", "node1").String() {
		t.Errorf("partitions are asked for pods of %q", got)
	}
}
