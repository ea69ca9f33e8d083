package merge

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/sirupsen/logrus"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/a4s-io/a4s/agent/origin/objectfile"
)

// ringSize is how many changes are kept for watches.
const ringSize = 1024

var (
	// errExpired says that changes since a version are not known any more.
	errExpired = errors.New("the client has to list again")
	// errUnknown says that nobody knows what a partition has.
	errUnknown = errors.New("what a partition has on this node is not known, and it does not answer")
)

// source is a partition as one set sees it.
type source struct {
	knowledge // guarded by the set
	name      string
	home      bool
	// taken are the node ports of others. It changes while nothing feeds the set.
	taken []utilnet.PortRange
}

func (s *source) qualifier() string {
	if s.home {
		return ""
	}
	return s.name
}

// claim is an object of one partition.
type claim struct {
	from    *source
	version string         // that the partition gave it
	obj     runtime.Object // never changed once it was shown
}

// change is one step of a set. old or obj is nil for an object that was not there
// before or is not after; gone is the last state of the latter.
type change struct {
	version        int64
	old, obj, gone runtime.Object
}

// set is one collection of all partitions. Its lock is taken after Collections.mu, and before those
// of Placement and objectfile.Pending (see Collections); watches wait for news without it.
type set struct {
	kind
	placement *Placement
	log       *logrus.Entry
	// touched is told what has to go to the disk: soon, if it decides whether a
	// pod runs. It may be called under mu.
	touched func(s *set, from *source, soon bool)

	mu      sync.Mutex
	base    int64 // of the versions of this process
	version int64
	ring    [ringSize]change
	// entries have the claims to a name, the one that is shown first.
	entries map[types.NamespacedName][]claim
	sources []*source
	// news is closed at the next change, also of what is known.
	news chan struct{}
}

func newSet(k kind, base int64, p *Placement, log *logrus.Entry, touched func(*set, *source, bool)) *set {
	return &set{kind: k, placement: p, log: log, touched: touched, base: base, version: base,
		entries: map[types.NamespacedName][]claim{}, news: make(chan struct{})}
}

// join adds a partition.
func (s *set) join(from *source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources = append(s.sources, from)
	s.wake()
}

// leave takes away a partition and all that it has.
func (s *set) leave(from *source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources = slices.DeleteFunc(s.sources, func(o *source) bool { return o == from })
	for key := range s.entries {
		s.take(from, key, nil)
	}
	s.wake()
}

// learn changes what is known of a partition that is waited for. objs are what it said before,
// which count if that was not known, as when it has answered meanwhile.
func (s *set) learn(from *source, learned func(*knowledge) bool, objs []runtime.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !learned(&from.knowledge) {
		return false
	}
	for _, obj := range objs {
		s.give(from, obj)
	}
	s.wake()
	return true
}

// replace takes over all that a partition has.
func (s *set) replace(from *source, objs []runtime.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := make(map[types.NamespacedName]bool, len(objs))
	for _, obj := range objs {
		key, err := keyOf(obj)
		if err != nil {
			return err
		}
		has[key] = true
		if !s.same(from, key, obj) {
			s.give(from, obj)
		}
	}
	for key := range s.entries {
		if !has[key] {
			s.take(from, key, nil)
		}
	}
	from.answered()
	s.touched(s, from, true)
	s.wake()
	return nil
}

// same reports whether the partition has the object like this already. Bootstrap
// pods may change without another version.
func (s *set) same(from *source, key types.NamespacedName, obj runtime.Object) bool {
	i := s.find(from, key)
	m, err := meta.Accessor(obj)
	if i < 0 || err != nil || s.entries[key][i].version != m.GetResourceVersion() {
		return false
	}
	return apiequality.Semantic.DeepEqual(s.entries[key][i].native(), obj)
}

// native is the object with the version that its partition gave it.
func (c claim) native() runtime.Object {
	obj := c.obj.DeepCopyObject()
	if m, err := meta.Accessor(obj); err == nil {
		m.SetResourceVersion(c.version)
	}
	return obj
}

func (s *set) put(from *source, obj runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched(s, from, s.give(from, obj))
}

func (s *set) drop(from *source, obj runtime.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, err := keyOf(obj)
	if err != nil {
		return err
	}
	s.take(from, key, obj)
	s.touched(s, from, true)
	return nil
}

// find returns the index of the claim of a partition, -1 if it has none.
func (s *set) find(from *source, key types.NamespacedName) int {
	return slices.IndexFunc(s.entries[key], func(c claim) bool { return c.from == from })
}

// give sets the claim of a partition. It reports whether the change decides if a
// pod runs.
func (s *set) give(from *source, obj runtime.Object) (matter bool) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return false // adopt has seen to it
	}
	key := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
	c := claim{from: from, version: m.GetResourceVersion(), obj: obj}
	claims := s.entries[key]
	var old runtime.Object
	if len(claims) > 0 {
		old = claims[0].obj
	}
	if i := s.find(from, key); i >= 0 {
		matter = objectfile.Matters(claims[i].obj, obj)
		claims[i] = c
	} else {
		matter = true
		if tenant := s.tenant(m); s.placement.add(tenant, from.name, 1) {
			s.log.WithFields(logrus.Fields{"tenant": tenant, "partition": from.name}).
				Error("a tenant is in two partitions; that of the first one counts")
		}
		claims = append(claims, c)
		slices.SortFunc(claims, func(a, b claim) int {
			if a.from.home != b.from.home {
				if a.from.home {
					return -1
				}
				return 1
			}
			return cmp.Compare(a.from.name, b.from.name)
		})
		s.entries[key] = claims
	}
	if claims[0].from == from {
		s.show(old, obj, nil)
	}
	return matter
}

// take removes the claim of a partition, if it has one. last is the object as it
// was in the end, nil if that is not known.
func (s *set) take(from *source, key types.NamespacedName, last runtime.Object) {
	i := s.find(from, key)
	if i < 0 {
		return
	}
	claims := s.entries[key]
	old := claims[i].obj
	if m, err := meta.Accessor(old); err == nil {
		s.placement.add(s.tenant(m), from.name, -1)
	}
	claims = slices.Delete(claims, i, i+1)
	if len(claims) == 0 {
		delete(s.entries, key)
	} else {
		s.entries[key] = claims
	}
	switch {
	case i > 0:
		// It was not shown.
	case len(claims) > 0:
		claims[0].obj = claims[0].obj.DeepCopyObject() // it may have been shown before
		s.show(old, claims[0].obj, nil)
	default:
		if last == nil {
			last = old.DeepCopyObject()
		}
		s.show(old, nil, last)
	}
}

// show makes a step from one object to another, which gets the next version.
func (s *set) show(old, obj, gone runtime.Object) {
	if old != nil && obj != nil && uidOf(old) != uidOf(obj) {
		s.show(old, nil, old.DeepCopyObject())
		old = nil
	}
	s.version++
	for _, o := range []runtime.Object{obj, gone} {
		if o == nil {
			continue
		}
		if m, err := meta.Accessor(o); err == nil {
			m.SetResourceVersion(formatVersion(s.version))
		}
	}
	s.ring[s.version%ringSize] = change{version: s.version, old: old, obj: obj, gone: gone}
	s.wake()
}

func (s *set) wake() {
	close(s.news)
	s.news = make(chan struct{})
}

// all returns what is shown, and the version of it. While a partition is waited for
// it returns a channel to wait on.
func (s *set) all() (objs []runtime.Object, version int64, wait <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, from := range s.sources {
		switch from.is {
		case waiting:
			wait = s.news
		case unknown:
			err = errUnknown
		}
	}
	if wait != nil || err != nil {
		return nil, 0, wait, err
	}
	objs = make([]runtime.Object, 0, len(s.entries))
	for _, claims := range s.entries {
		objs = append(objs, claims[0].obj)
	}
	return objs, s.version, nil, nil
}

// since returns the changes after a version, and a channel to wait on for more.
func (s *set) since(version int64) (changes []change, more <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version < s.base || version > s.version || s.version-version > ringSize {
		return nil, nil, errExpired
	}
	for v := version + 1; v <= s.version; v++ {
		changes = append(changes, s.ring[v%ringSize])
	}
	return changes, s.news, nil
}

// byName returns the object that is shown under a name without a namespace, nil if
// there is none.
func (s *set) byName(name string) runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if claims := s.entries[types.NamespacedName{Name: name}]; len(claims) > 0 {
		return claims[0].obj
	}
	return nil
}

// allOf returns what each partition has under a name without a namespace.
func (s *set) allOf(name string) []runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var objs []runtime.Object
	for _, c := range s.entries[types.NamespacedName{Name: name}] {
		objs = append(objs, c.obj)
	}
	return objs
}

// of returns copies of all that a partition has, with the versions that it gave
// them, and whether that is known.
func (s *set) of(from *source) (objs []runtime.Object, ok bool) {
	s.mu.Lock()
	var claims []claim
	for key := range s.entries {
		if i := s.find(from, key); i >= 0 {
			claims = append(claims, s.entries[key][i])
		}
	}
	ok = from.is == known && slices.Contains(s.sources, from)
	s.mu.Unlock()
	for _, c := range claims {
		objs = append(objs, c.native())
	}
	return objs, ok
}

func keyOf(obj runtime.Object) (types.NamespacedName, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return types.NamespacedName{}, err
	}
	return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, nil
}

func uidOf(obj runtime.Object) types.UID {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetUID()
}

func formatVersion(v int64) string { return strconv.FormatInt(v, 10) }
