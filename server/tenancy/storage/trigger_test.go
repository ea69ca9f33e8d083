package storage_test

import (
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/storage"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

// counting selects everything and counts how often it is asked: that is how
// often a watch was woken by something below its prefix.
type counting struct {
	fields.Selector
	asked *atomic.Int32
}

func (c counting) Matches(fields.Fields) bool               { c.asked.Add(1); return true }
func (c counting) Empty() bool                              { return false }
func (c counting) DeepCopySelector() fields.Selector        { return c }
func (c counting) RequiresExactMatch(string) (string, bool) { return "", false }

// TestWatchIsWokenByItsOwnSpace: the cache does not even hand the events of
// other spaces to the watch of a tenant. The system's namespace a lies below
// the prefix of tenant a, so that only the trigger distinguishes them before the
// selector is asked. So it is for a
// resource with a trigger of its own.
func TestWatchIsWokenByItsOwnSpace(t *testing.T) {
	etcd := plainetcd.Run(t)
	withTrigger := configMaps()
	withTrigger.Resource, withTrigger.prefix = "pods", "/pods"
	withTrigger.triggers = apistorage.IndexerFuncs{"spec.nodeName": func(runtime.Object) string { return "" }}
	for _, c := range []struct {
		resource
		asked int32
	}{{configMaps(), 1}, {withTrigger, 1}} {
		s := open(t, etcd, c.resource, storage.Decorate(getter{genericregistry.StorageWithCacher()},
			storage.Options{}))
		asked := &atomic.Int32{}
		version := s.create(t, "first", "x")
		w := s.watch(t, in(t, "a"), c.prefix, func(o *apistorage.ListOptions) {
			o.ResourceVersion, o.Predicate.Field = version, counting{fields.Everything(), asked}
		})
		for i := range 50 {
			s.create(t, "a", strings.Repeat("x", i+1))
		}
		s.create(t, "default.a", "mine")
		same(t, c.Resource, until(t, w, "default.a/mine"), "default.a/mine")
		if got := asked.Load(); got != c.asked {
			t.Errorf("the watch of %s was woken %d times, want %d", c.Resource, got, c.asked)
		}
	}
}

// TestWhatLiesInTheWrongPlaceIsNotHandedOut: if etcd has an object under the
// key of another space, a list fails and a watch leaves it out; both count.
func TestWhatLiesInTheWrongPlaceIsNotHandedOut(t *testing.T) {
	s := open(t, plainetcd.Run(t), configMaps(), storage.Decorate(getter{generic.UndecoratedStorage},
		storage.Options{}))
	version := s.create(t, "default.b", "canary")
	misplaced, err := s.etcd.Get(t.Context(), "/registry/configmaps/b/default/canary")
	if err != nil {
		t.Fatal(err)
	}
	before := crossings(t)
	w := s.watch(t, in(t, "a"), "/configmaps/default.a", func(o *apistorage.ListOptions) {
		o.ResourceVersion = version
	})
	if _, err := s.etcd.Put(t.Context(), "/registry/configmaps/a/default/canary",
		string(misplaced.Kvs[0].Value)); err != nil {
		t.Fatal(err)
	}
	s.create(t, "default.a", "mine")
	same(t, "watch", until(t, w, "default.a/mine"), "default.a/mine")
	if got := crossings(t); got != before+1 {
		t.Errorf("%v crossings of the watch were counted", got-before)
	}
	err = s.GetList(in(t, "a"), "/configmaps/default.a", s.options(nil), s.newList())
	if !apierrors.IsInternalError(err) || strings.Contains(err.Error(), "canary") {
		t.Errorf("list: %v", err)
	}
	if got := crossings(t); got != before+2 {
		t.Errorf("%v crossings were counted", got-before)
	}
	got, _ := s.list(t, in(t, space.System), "/configmaps", nil)
	same(t, "system", got)
}

// crossings is the value of the metric for configmaps.
func crossings(t *testing.T) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, f := range families {
		if f.GetName() != "a4s_storage_space_crossings_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == "configmaps" {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}
