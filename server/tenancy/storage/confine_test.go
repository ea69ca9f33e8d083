package storage_test

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/space"
)

// reads are the ways of the API to ask for a list: from the cache, from etcd,
// and whatever upstream makes of it. The first one waits until the cache has the
// newest, so that any version is that one.
func reads(version string) iter.Seq2[string, func(*apistorage.ListOptions)] {
	type read struct {
		name    string
		version string
		match   metav1.ResourceVersionMatch
		limit   int64
	}
	return func(yield func(string, func(*apistorage.ListOptions)) bool) {
		for _, r := range []read{
			{"not older than", version, metav1.ResourceVersionMatchNotOlderThan, 0},
			{"consistent", "", "", 0},
			{"consistent, limited", "", "", 100},
			{"any", "0", "", 0},
			{"not older than, paged", version, metav1.ResourceVersionMatchNotOlderThan, 100},
			{"exact", version, metav1.ResourceVersionMatchExact, 0},
			{"exact, limited", version, metav1.ResourceVersionMatchExact, 100},
			{"at a version, limited", version, "", 100},
			{"at least, without match", version, "", 0},
		} {
			if !yield(r.name, func(o *apistorage.ListOptions) {
				o.ResourceVersion, o.ResourceVersionMatch, o.Predicate.Limit = r.version, r.match, r.limit
			}) {
				return
			}
		}
	}
}

// TestSystemNamespaceCalledLikeATenant: /registry/configmaps/a/ has both the
// objects of the system's namespace a and everything of tenant a. Each request
// finds its own, and so with what is not namespaced.
func TestSystemNamespaceCalledLikeATenant(t *testing.T) {
	everyway(t, func(t *testing.T, open func(resource) *store) {
		s := open(configMaps())
		s.create(t, "a", "default") // key of the object, prefix of the tenant's namespace
		s.create(t, "a", "own")
		s.create(t, "default", "plain")
		s.create(t, "default.a", "default")
		s.create(t, "other.a", "x")
		s.create(t, "default.ab", "x")
		version := s.create(t, "a.b", "x")
		same(t, "keys", s.keys(t), "/registry/configmaps/a/default", "/registry/configmaps/a/default/default",
			"/registry/configmaps/a/other/x",
			"/registry/configmaps/a/own", "/registry/configmaps/ab/default/x", "/registry/configmaps/b/a/x",
			"/registry/configmaps/default/plain")
		for name, read := range reads(version) {
			for _, c := range []struct {
				what, tenant, namespace string
				want                    []string
			}{
				{"tenant a", "a", "", []string{"default.a/default", "other.a/x"}},
				{"namespace default of tenant a", "a", "default.a", []string{"default.a/default"}},
				{"tenant b", "b", "", []string{"a.b/x"}},
				{"no tenant at all", "none", "", nil},
				{"system space", space.System, "", []string{"a/default", "a/own", "default/plain"}},
				{"namespace a of the system", space.System, "a", []string{"a/default", "a/own"}},
				{"namespace a of the system, composite", "", "a", []string{"a/default", "a/own"}},
				{"namespace of a tenant, composite", "", "default.a", []string{"default.a/default"}},
				{"the whole cluster", "", "", []string{"a.b/x", "a/default", "a/own", "default.a/default",
					"default.ab/x", "default/plain", "other.a/x"}},
			} {
				ctx := t.Context()
				if c.tenant != "" {
					ctx = in(t, c.tenant)
				}
				got, _ := s.list(t, ctx, s.key(c.namespace, ""), read)
				same(t, name+": "+c.what, got, c.want...)
			}
		}
		pv := open(volumes())
		pv.create(t, "", "a")
		pv.create(t, "", "b")
		pv.create(t, "", "x.a.tenant")
		version = pv.create(t, "", "a.b.tenant")
		ns := open(namespaces())
		for _, name := range []string{"a", "b", "x.a"} {
			ns.create(t, "", name)
		}
		nsVersion := ns.create(t, "", "a.b")
		for _, c := range []struct {
			tenant     string
			pvs, names []string
		}{
			{"a", []string{"x.a.tenant"}, []string{"x.a"}},
			{"b", []string{"a.b.tenant"}, []string{"a.b"}},
			{space.System, []string{"a", "b"}, []string{"a", "b"}},
		} {
			for name, read := range reads(version) {
				got, _ := pv.list(t, in(t, c.tenant), "/persistentvolumes", read)
				same(t, name+": volumes of "+c.tenant, got, c.pvs...)
			}
			for name, read := range reads(nsVersion) {
				got, _ := ns.list(t, in(t, c.tenant), "/namespaces", read)
				same(t, name+": namespaces of "+c.tenant, got, c.names...)
			}
		}
	})
}

// TestPagesOfOneSpace: pages have the limit's length, together are the space,
// and say nothing of how much there is beside it.
func TestPagesOfOneSpace(t *testing.T) {
	everyway(t, func(t *testing.T, open func(resource) *store) {
		s := open(configMaps())
		var want []string
		var version string
		for i := range 7 {
			version = s.create(t, "default.a", fmt.Sprint("x", i))
			s.create(t, "default.b", fmt.Sprint("x", i))
			s.create(t, "a", fmt.Sprint("x", i))
			want = append(want, fmt.Sprint("default.a/x", i))
		}
		for _, match := range []metav1.ResourceVersionMatch{"", metav1.ResourceVersionMatchExact} {
			var got []string
			token, pages := "", 0
			for {
				page, list := s.list(t, in(t, "a"), "/configmaps", func(o *apistorage.ListOptions) {
					o.Predicate.Limit, o.Predicate.Continue = 3, token
					if token == "" && match != "" {
						o.ResourceVersion, o.ResourceVersionMatch = version, match
					}
				})
				left := int64(len(want) - len(got) - len(page))
				if remaining := list.GetRemainingItemCount(); (remaining == nil) != (left == 0) ||
					remaining != nil && *remaining != left {
					t.Errorf("%v are said to remain after %v, not %d", remaining, page, left)
				}
				got, token, pages = append(got, page...), list.GetContinue(), pages+1
				if token == "" {
					break
				}
				if len(page) != 3 {
					t.Errorf("a page of %v", page)
				}
				// What is made meanwhile is not in later pages.
				s.create(t, "zz.a", fmt.Sprint("late", match, pages))
			}
			for i := 1; i < pages; i++ {
				if err := s.Delete(t.Context(), s.key("zz.a", fmt.Sprint("late", match, i)), s.newObject(), nil,
					apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			same(t, "all pages", got, want...)
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
		}
	})
}

// TestRemaining: a page says how much comes after it, as upstream's do, of its
// own space, whatever else lies below the same prefix.
func TestRemaining(t *testing.T) {
	everyway(t, func(t *testing.T, open func(resource) *store) {
		for _, r := range []resource{configMaps(), triggered()} {
			s := open(r)
			for i := range 5 {
				s.create(t, "a", fmt.Sprint("x", i))
				s.create(t, "default.a", fmt.Sprint("x", i))
				s.create(t, "other.a", fmt.Sprint("x", i))
			}
			for _, c := range []struct {
				what, tenant, namespace string
				want                    int64
			}{
				{"tenant a", "a", "", 8},
				{"namespace default of tenant a", "a", "default.a", 3},
				{"the same, composite", "", "default.a", 3},
				{"namespace a of the system", space.System, "a", 3},
				{"the same, composite", "", "a", 3},
				{"the whole cluster", "", "", 13},
			} {
				ctx := t.Context()
				if c.tenant != "" {
					ctx = in(t, c.tenant)
				}
				_, list := s.list(t, ctx, s.key(c.namespace, ""), func(o *apistorage.ListOptions) {
					o.Predicate.Limit = 2
				})
				if got := list.GetRemainingItemCount(); got == nil || *got != c.want {
					t.Errorf("%s of %s: %v remain, want %d", r.Resource, c.what, got, c.want)
				}
				_, list = s.list(t, ctx, s.key(c.namespace, ""), func(o *apistorage.ListOptions) {
					o.Predicate.Limit, o.Predicate.Field = 1, fields.OneTermNotEqualSelector("metadata.name", "x0")
				})
				if got := list.GetRemainingItemCount(); got != nil {
					t.Errorf("%s of %s, selected: %d remain", r.Resource, c.what, *got)
				}
			}
		}
	})
}

// TestAnotherSpacesObjects are neither read nor written by a request that is
// addressed to one space; system objects are only read where they are shared.
func TestAnotherSpacesObjects(t *testing.T) {
	everyway(t, func(t *testing.T, open func(resource) *store) {
		s := open(configMaps())
		for _, ns := range []string{"default.a", "default.b", "default"} {
			s.create(t, ns, "x")
		}
		before := s.keys(t)
		for _, c := range []struct{ tenant, namespace string }{{"a", "default.b"}, {"a", "default"},
			{space.System, "default.a"}} {
			key := s.key(c.namespace, "x")
			if err := s.Get(in(t, c.tenant), key, apistorage.GetOptions{},
				s.newObject()); !apierrors.IsInternalError(err) {
				t.Errorf("%s reads %s: %v", c.tenant, key, err)
			}
			if err := s.GetList(in(t, c.tenant), s.key(c.namespace, ""), s.options(nil),
				s.newList()); !apierrors.IsInternalError(err) {
				t.Errorf("%s lists %s: %v", c.tenant, key, err)
			}
			if w, err := s.Watch(in(t, c.tenant), s.key(c.namespace, ""),
				s.options(nil)); !apierrors.IsInternalError(err) {
				t.Errorf("%s watches %s: %v, %v", c.tenant, key, w, err)
			}
			if err := s.Create(in(t, c.tenant), s.key(c.namespace, "y"), s.object(c.namespace, "y"), nil,
				0); !apierrors.IsForbidden(err) {
				t.Errorf("%s creates in %s: %v", c.tenant, c.namespace, err)
			}
			if err := s.GuaranteedUpdate(in(t, c.tenant), key, s.newObject(), false, nil,
				apistorage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
					return o, nil
				}), nil); !apierrors.IsForbidden(err) {
				t.Errorf("%s updates %s: %v", c.tenant, key, err)
			}
			if err := s.Delete(in(t, c.tenant), key, s.newObject(), nil, apistorage.ValidateAllObjectFunc, nil,
				apistorage.DeleteOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("%s deletes %s: %v", c.tenant, key, err)
			}
		}
		same(t, "keys", s.keys(t), before...)

		roles := open(clusterRoles())
		for _, name := range []string{"view", "system:basic-user", "secret", "own.a.tenant", "own.b.tenant"} {
			roles.create(t, "", name)
		}
		for name, want := range map[string]bool{"view": true, "system:basic-user": true, "own.a.tenant": true,
			"secret": false, "own.b.tenant": false} {
			if err := roles.Get(in(t, "a"), roles.key("", name), apistorage.GetOptions{},
				roles.newObject()); (err == nil) != want {
				t.Errorf("role %s: %v", name, err)
			}
		}
		got, _ := roles.list(t, in(t, "a"), "/clusterroles", nil)
		same(t, "roles", got, "own.a.tenant", "system:basic-user", "view")
		if err := roles.Delete(in(t, "a"), roles.key("", "view"), roles.newObject(), nil,
			apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a tenant deletes a shared role: %v", err)
		}
	})
}

// TestWatchOfOneSpace: a watch has the events of its space, from now, from a
// version on, and with what is there already.
func TestWatchOfOneSpace(t *testing.T) {
	everyway(t, func(t *testing.T, open func(resource) *store) {
		s := open(configMaps())
		first := s.create(t, "default.a", "first")
		s.create(t, "default.b", "before")
		s.create(t, "a", "default") // the key is the prefix of the tenant's namespace
		s.create(t, "default.a", "default")
		from := func(version string) func(*apistorage.ListOptions) {
			return func(o *apistorage.ListOptions) { o.ResourceVersion = version }
		}
		one := func(version, name string) func(*apistorage.ListOptions) {
			return func(o *apistorage.ListOptions) {
				o.ResourceVersion, o.Recursive = version, false
				o.Predicate.Field = fields.OneTermEqualSelector("metadata.name", name)
			}
		}
		initial := func(o *apistorage.ListOptions) {
			yes := true
			o.SendInitialEvents, o.ResourceVersionMatch, o.Predicate.AllowWatchBookmarks = &yes,
				metav1.ResourceVersionMatchNotOlderThan, true
		}
		cases := []struct {
			what, tenant, key, last string
			change                  func(*apistorage.ListOptions)
			want                    []string
		}{
			{"tenant from a version", "a", "/configmaps", "end.a/end", from(first),
				[]string{"default.a/default", "default.a/mine", "end.a/end"}},
			{"tenant with what is there", "a", "/configmaps", "end.a/end", initial,
				[]string{"default.a/default", "default.a/first", "default.a/mine", "end.a/end"}},
			{"tenant from 0", "a", "/configmaps", "end.a/end", from("0"),
				[]string{"default.a/default", "default.a/first", "default.a/mine", "end.a/end"}},
			{"namespace of the tenant", "a", "/configmaps/default.a", "default.a/mine", from(first),
				[]string{"default.a/default", "default.a/mine"}},
			{"other tenant", "b", "/configmaps", "end.b/end", from(first),
				[]string{"default.b/before", "default.b/mine", "end.b/end"}},
			{"system", space.System, "/configmaps", "z/end", from(first), []string{"a/default", "a/mine", "z/end"}},
			{"system's namespace a", space.System, "/configmaps/a", "a/mine", from(first),
				[]string{"a/default", "a/mine"}},
			{"system's namespace a, composite", "", "/configmaps/a", "a/mine", initial,
				[]string{"a/default", "a/mine"}},
			{"one object of the system", space.System, "/configmaps/a/default", "a/default", one(first, "default"),
				[]string{"a/default"}},
			{"one object of the tenant", "a", "/configmaps/default.a/default", "default.a/default",
				one(first, "default"), []string{"default.a/default"}},
		}
		var watches []func() []string
		for _, c := range cases {
			ctx := t.Context()
			if c.tenant != "" {
				ctx = in(t, c.tenant)
			}
			w := s.watch(t, ctx, c.key, c.change)
			watches = append(watches, func() []string { return until(t, w, c.last) })
		}
		// The first thing after all others that the watch of one object of the
		// system could mistake for it.
		lone := s.watch(t, in(t, space.System), "/configmaps/a/default", one(first, "default"))
		for _, o := range [][2]string{{"default.b", "mine"}, {"default.a", "mine"}, {"a", "mine"}, {"end.a", "end"},
			{"end.b", "end"}, {"z", "end"}} {
			s.create(t, o[0], o[1])
		}
		for i, c := range cases {
			got := watches[i]()
			slices.Sort(got) // what is there at the start comes in any order
			same(t, c.what, got, c.want...)
		}
		// Not before: a watch may only begin to look now at what is there.
		if err := s.Delete(t.Context(), s.key("default.a", "default"), s.newObject(), nil,
			apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), s.key("a", "default"), s.newObject(), nil, apistorage.ValidateAllObjectFunc,
			nil, apistorage.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"ADDED", "DELETED"} {
			if e := <-lone.ResultChan(); string(e.Type) != want || nameOf(t, e.Object) != "a/default" {
				t.Errorf("%s %s instead of %s of one object", e.Type, nameOf(t, e.Object), want)
			}
		}
	})
}
