package storage_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/storage"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

// triggered is a resource whose watches upstream tells apart by a trigger, as
// it does those of pods.
func triggered() resource {
	r := configMaps()
	r.Resource, r.prefix = "pods", "/pods"
	r.triggers = apistorage.IndexerFuncs{"spec.nodeName": func(obj runtime.Object) string {
		return obj.(*corev1.ConfigMap).Data["node"]
	}}
	return r
}

// TestWatchesOfTriggeredResource: where the tenant stands in the place of the
// name, every kind of watch and list still finds what it asks for, once and in
// order, with the name in its selectors.
func TestWatchesOfTriggeredResource(t *testing.T) {
	everyway(t, func(t *testing.T, open func(resource) *store) {
		s := open(triggered())
		version := s.create(t, "default.a", "old")
		named := func(name string) func(*apistorage.ListOptions) {
			return func(o *apistorage.ListOptions) {
				o.ResourceVersion, o.Predicate.Field = version, fields.OneTermEqualSelector("metadata.name", name)
			}
		}
		object := func(name string) func(*apistorage.ListOptions) {
			return func(o *apistorage.ListOptions) { named(name)(o); o.Recursive = false }
		}
		all := func(o *apistorage.ListOptions) { o.ResourceVersion = version }
		initial := func(o *apistorage.ListOptions) {
			yes := true
			o.SendInitialEvents, o.ResourceVersionMatch, o.Predicate.AllowWatchBookmarks = &yes,
				metav1.ResourceVersionMatchNotOlderThan, true
		}
		about := func(ctx context.Context, namespace, name string) context.Context {
			ctx = request.WithNamespace(ctx, namespace)
			return request.WithRequestInfo(ctx,
				&request.RequestInfo{IsResourceRequest: true, Verb: "watch", Namespace: namespace, Name: name})
		}
		system := in(t, space.System)
		cases := []struct {
			what   string
			ctx    context.Context
			key    string
			change func(*apistorage.ListOptions)
			want   []string
		}{
			{"tenant", in(t, "a"), "/pods", all,
				[]string{"default.a/x", "default.a/y", "other.a/x", "default.a/end", "other.a/end"}},
			{"tenant with what is there", in(t, "a"), "/pods", initial,
				[]string{"default.a/x", "default.a/y", "other.a/x", "default.a/end", "other.a/end"}},
			{"tenant, by name", about(in(t, "a"), "", "x"), "/pods", named("x"), []string{"default.a/x", "other.a/x"}},
			{"tenant, by the name of itself", about(in(t, "a"), "", "a"), "/pods", named("a"), nil},
			{"namespace of a tenant", about(in(t, "a"), "default.a", ""), "/pods/default.a", all,
				[]string{"default.a/x", "default.a/y", "default.a/end"}},
			{"one object of a tenant", about(in(t, "a"), "default.a", "y"), "/pods/default.a/y", object("y"),
				[]string{"default.a/y"}},
			{"system", system, "/pods", all, []string{"a/a", "a/end"}},
			{"system's namespace a", about(system, "a", ""), "/pods/a", all, []string{"a/a", "a/end"}},
			{"one object of the system", about(system, "a", "a"), "/pods/a/a", object("a"), []string{"a/a"}},
			{"everything", t.Context(), "/pods", all, []string{"default.a/x", "default.b/x", "a/a", "default.a/y",
				"other.a/x", "default.a/end", "other.a/end", "a/end"}},
			{"everything of a name", about(t.Context(), "", "x"), "/pods", named("x"),
				[]string{"default.a/x", "default.b/x", "other.a/x"}},
		}
		watches := make([]watch.Interface, len(cases))
		for i, c := range cases {
			watches[i] = s.watch(t, c.ctx, c.key, c.change)
		}
		// What comes before it has read what is there would be among that, in the order of keys.
		same(t, "what is there", until(t, watches[1], "default.a/old"), "default.a/old")
		for _, o := range [][2]string{
			{"default.a", "x"}, {"default.b", "x"}, {"a", "a"}, {"default.a", "y"}, {"other.a", "x"},
			{"default.a", "end"}, {"other.a", "end"}, {"a", "end"},
		} {
			s.create(t, o[0], o[1])
		}
		for i, c := range cases {
			if len(c.want) == 0 {
				continue
			}
			same(t, c.what, until(t, watches[i], c.want[len(c.want)-1]), c.want...)
		}
		for i, c := range cases {
			watches[i].Stop()
			for e := range watches[i].ResultChan() { // it ends, and has nothing more
				if e.Type != watch.Bookmark {
					t.Errorf("%s: %s %s is one too many", c.what, e.Type, nameOf(t, e.Object))
				}
			}
			got, _ := s.list(t, c.ctx, c.key, func(o *apistorage.ListOptions) {
				c.change(o)
				o.SendInitialEvents = nil
				o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
			})
			want := slices.Clone(c.want)
			if slices.Contains([]string{"tenant", "tenant with what is there", "namespace of a tenant",
				"everything"}, c.what) {
				want = append(want, "default.a/old")
			}
			slices.Sort(want)
			same(t, "list of "+c.what, got, want...)
		}
	})
}

// TestResumedWatchOfTriggeredResource: who comes back with the version of the
// last event gets those after it.
func TestResumedWatchOfTriggeredResource(t *testing.T) {
	everyway(t, func(t *testing.T, open func(resource) *store) {
		s := open(triggered())
		version := s.create(t, "default.a", "old")
		s.create(t, "default.a", "x")
		w := s.watch(t, in(t, "a"), "/pods", func(o *apistorage.ListOptions) { o.ResourceVersion = version })
		s.create(t, "default.b", "y")
		version = s.create(t, "default.a", "y")
		same(t, "first", until(t, w, "default.a/y"), "default.a/x", "default.a/y")
		w.Stop()
		s.create(t, "default.b", "z")
		s.create(t, "default.a", "z")
		again := s.watch(t, in(t, "a"), "/pods", func(o *apistorage.ListOptions) { o.ResourceVersion = version })
		s.create(t, "default.a", "end")
		same(t, "resumed", until(t, again, "default.a/end"), "default.a/z", "default.a/end")
	})
}

// TestWatchByTrigger: a watch of what upstream has the trigger for is woken by
// that, in every space.
func TestWatchByTrigger(t *testing.T) {
	s := open(t, plainetcd.Run(t), triggered(), storage.Decorate(getter{genericregistry.StorageWithCacher()},
		storage.Options{}))
	version := s.create(t, "default.a", "old")
	w := s.watch(t, t.Context(), "/pods", func(o *apistorage.ListOptions) {
		o.ResourceVersion = version
		o.Predicate.Field, o.Predicate.IndexFields = onNode{fields.Everything()}, []string{"spec.nodeName"}
	})
	for _, o := range []struct{ namespace, name, node string }{
		{"default.a", "x", "n1"}, {"default.a", "y", "n2"}, {"default", "n1", ""}, {"default.b", "x", "n1"},
		{"default", "end", "n1"},
	} {
		obj := s.object(o.namespace, o.name).(*corev1.ConfigMap)
		obj.Data = map[string]string{"node": o.node}
		if err := s.Create(t.Context(), s.key(o.namespace, o.name), obj, s.newObject(), 0); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "node", until(t, w, "default/end"), "default.a/x", "default.b/x", "default/end")
}

// onNode asks for the trigger n1 and leaves the rest to it.
type onNode struct{ fields.Selector }

func (onNode) Matches(fields.Fields) bool { return true }
func (onNode) Empty() bool                { return false }
func (onNode) RequiresExactMatch(field string) (string, bool) {
	return "n1", field == "spec.nodeName"
}
func (o onNode) DeepCopySelector() fields.Selector { return o }
