package serving

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

func mustList(t *testing.T, ctx context.Context, s storage.Interface, key string) []string {
	t.Helper()
	items, _, err := list(ctx, s, key)
	if err != nil {
		t.Fatal(err)
	}
	for i := range items {
		items[i], _, _ = strings.Cut(items[i], "@")
	}
	return items
}

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestEveryAnswerIsComplete: whoever is asked, a tenant's list, a list of the system and
// a list of everything have all; the part of a group has the group's tenants and the
// system.
func TestEveryAnswerIsComplete(t *testing.T) {
	etcd := runEtcd(t)
	configure(t, etcd, "0", "", "m")
	configure(t, etcd, "1", "m", "")
	if _, err := etcd.Put(t.Context(), namespaces+"kube-system", ""); err != nil {
		t.Fatal(err)
	}
	servers := map[string]storage.Interface{"0": server(t, etcd, "0"), "1": server(t, etcd, "1")}
	create(t, servers["0"], "a", "one", "")
	create(t, servers["0"], "z", "two", "")
	create(t, servers["1"], space.System, "three", "")
	for group, s := range servers {
		equal(t, "tenant a", mustList(t, of(t, "a"), s, prefix+"/a/"), "a/default/one")
		equal(t, "tenant z", mustList(t, of(t, "z"), s, prefix+"/z/default/"), "z/default/two")
		equal(t, "a namespace of the system", mustList(t, of(t, space.System), s, prefix+"/kube-system/"),
			"kube-system/three")
		equal(t, "everything", mustList(t, t.Context(), s, prefix), "a/default/one", "kube-system/three",
			"z/default/two")
		part := mustList(t, partitionapi.WithPart(t.Context()), s, prefix)
		want := map[string][]string{"0": {"a/default/one", "kube-system/three"}, "1": {"kube-system/three",
			"z/default/two"}}
		equal(t, "the part of "+group, part, want[group]...)
		var found corev1.ConfigMap
		for _, rev := range []string{"", "0"} {
			err := s.Get(of(t, "z"), prefix+"/z/default/two", storage.GetOptions{ResourceVersion: rev}, &found)
			if err != nil || found.Name != "two" {
				t.Errorf("group %s does not find what tenant z has at %q: %v", group, rev, err)
			}
		}
	}
}

// TestWatchGoesOn: the watch of a tenant goes on when the tenant leaves the group of its
// server, and when it returns. Nobody sees its objects go.
func TestWatchGoesOn(t *testing.T) {
	etcd := runEtcd(t)
	configure(t, etcd, "0", "", "m")
	s := server(t, etcd, "0")
	create(t, s, "a", "one", "")
	ctx := of(t, "a")
	_, rev, err := list(ctx, s, prefix+"/a/")
	if err != nil {
		t.Fatal(err)
	}
	opts := everything()
	opts.ResourceVersion = rev
	tenant, err := s.Watch(ctx, prefix+"/a/", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer tenant.Stop()
	part, err := s.Watch(partitionapi.WithPart(t.Context()), prefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer part.Stop()
	if _, ok := tenant.(*continued); !ok {
		t.Fatalf("the watch of a tenant that the group holds is a %T", tenant)
	}
	create(t, s, "a", "two", "")
	expect(t, tenant, "ADDED two")
	expect(t, part, "ADDED two")

	left := configure(t, etcd, "0", "b", "m")
	expect(t, part, "DELETED one")
	expect(t, part, "DELETED two")
	create(t, s, "a", "three", "")
	expect(t, tenant, "ADDED three")

	configure(t, etcd, "0", "", "m")
	for range 3 {
		expect(t, part, "ADDED *")
	}
	created := create(t, s, "a", "four", "")
	expect(t, tenant, "ADDED four")
	expect(t, part, "ADDED four")

	// One that is asked from before the tenant came back has what happened meanwhile.
	opts.ResourceVersion = itoa(left)
	late, err := s.Watch(ctx, prefix+"/a/", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Stop()
	expect(t, late, "ADDED three")
	expect(t, late, "ADDED four")
	// What was put in has its own revision.
	items, _, err := list(ctx, s, prefix+"/a/")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(items, "a/default/four@"+created.ResourceVersion) || len(items) != 4 {
		t.Errorf("the list is %q", items)
	}
	for _, item := range items {
		name, rev, _ := strings.Cut(strings.TrimPrefix(item, "a/default/"), "@")
		var stored corev1.ConfigMap
		if err := s.Get(ctx, prefix+"/a/default/"+name, storage.GetOptions{}, &stored); err != nil ||
			stored.ResourceVersion != rev {
			t.Errorf("%s is in the cache as of %s, and in the datastore as of %s (%v)", name, rev,
				stored.ResourceVersion, err)
		}
	}
}

// expect waits for the next event that is not a bookmark; * is for any name.
func expect(t *testing.T, w watch.Interface, want string) {
	t.Helper()
	for timeout := time.After(deadline); ; {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				t.Fatalf("the watch ended, want %s", want)
			}
			if e.Type == watch.Bookmark {
				continue
			}
			obj := e.Object
			if shared, ok := obj.(runtime.CacheableObject); ok {
				obj = shared.GetObject()
			}
			c, ok := obj.(*corev1.ConfigMap)
			if !ok {
				t.Fatalf("got %s %+v, want %s", e.Type, e.Object, want)
			}
			if got := string(e.Type) + " " + c.Name; got != want && string(e.Type)+" *" != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			return
		case <-timeout:
			t.Fatalf("nothing comes, want %s", want)
		}
	}
}

// TestInitialEvents: a watch that begins with what there is says when that is all, of a
// tenant and of the part, and while nothing else happens.
func TestInitialEvents(t *testing.T) {
	etcd := runEtcd(t)
	configure(t, etcd, "0", "", "m")
	configure(t, etcd, "1", "m", "")
	s := server(t, etcd, "0")
	create(t, s, "a", "one", "")
	create(t, s, "z", "two", "")
	opts := everything()
	opts.SendInitialEvents = new(true)
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	opts.Predicate.AllowWatchBookmarks = true
	for what, c := range map[string]struct {
		ctx  context.Context
		key  string
		want int
	}{
		"the part":         {partitionapi.WithPart(t.Context()), prefix, 1},
		"everything":       {t.Context(), prefix, 2},
		"a tenant":         {of(t, "a"), prefix + "/a/", 1},
		"a foreign tenant": {of(t, "z"), prefix + "/z/", 1},
	} {
		w, err := s.Watch(c.ctx, c.key, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		added := 0
		for ended, timeout := false, time.After(2*time.Minute); !ended; {
			select {
			case e := <-w.ResultChan():
				switch e.Type {
				case watch.Added:
					added++
				case watch.Bookmark:
					o, err := meta.Accessor(e.Object)
					ended = err == nil && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
				default:
					t.Fatalf("%s: %s %+v", what, e.Type, e.Object)
				}
			case <-timeout:
				t.Fatalf("%s: after %d objects the end does not come", what, added)
			}
		}
		if added != c.want {
			t.Errorf("%s: %d objects, want %d", what, added, c.want)
		}
	}
}
