package nsindex

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// namespaces are more than there are sets, so that some share one.
const namespaces = 3 * namespaceSets

const byLabel = "label"

func labelOf(obj any) ([]string, error) {
	return []string{obj.(*corev1.ServiceAccount).Labels["l"]}, nil
}

func namespace(i int) string { return fmt.Sprint("namespace-", i) }

func account(i int, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: name, Labels: map[string]string{"l": strconv.Itoa(i % 2)}}}
}

// both are a small index and one of upstream with the same objects.
func both(t *testing.T) (small indexer, upstream cache.Indexer) {
	t.Helper()
	small = indexer{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: setOfObject, byLabel: labelOf})}
	upstream = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, byLabel: labelOf})
	for _, i := range []cache.Indexer{small, upstream} {
		for n := range namespaces {
			for _, name := range []string{"default", "other"}[:1+n%2] {
				if err := i.Add(account(n, name)); err != nil {
					t.Fatal(err)
				}
			}
			if n%7 == 0 {
				if err := i.Delete(account(n, "default")); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return small, upstream
}

// said is an answer with objects, in an order.
func said(t *testing.T, objs []any, err error) []string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, obj := range objs {
		out = append(out, cache.MetaObjectToName(obj.(*corev1.ServiceAccount)).String())
	}
	slices.Sort(out)
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

func TestAnswersAreUpstreams(t *testing.T) {
	small, upstream := both(t)
	keys := func(i cache.Indexer, name, value string) []string {
		t.Helper()
		keys, err := i.IndexKeys(name, value)
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	for n := range namespaces + 2 { // two that have nothing
		ns := namespace(n)
		got, err := small.ByIndex(cache.NamespaceIndex, ns)
		want, wantErr := upstream.ByIndex(cache.NamespaceIndex, ns)
		same(t, "ByIndex "+ns, said(t, got, err), said(t, want, wantErr))
		got, err = small.Index(cache.NamespaceIndex, &metav1.ObjectMeta{Namespace: ns})
		want, wantErr = upstream.Index(cache.NamespaceIndex, &metav1.ObjectMeta{Namespace: ns})
		same(t, "Index "+ns, said(t, got, err), said(t, want, wantErr))
		same(t, "IndexKeys "+ns, keys(small, cache.NamespaceIndex, ns), keys(upstream, cache.NamespaceIndex, ns))
	}
	same(t, "ListIndexFuncValues", small.ListIndexFuncValues(cache.NamespaceIndex), upstream.ListIndexFuncValues(cache.NamespaceIndex))

	// Other indexes are upstream's.
	got, err := small.ByIndex(byLabel, "1")
	want, wantErr := upstream.ByIndex(byLabel, "1")
	same(t, "ByIndex of labels", said(t, got, err), said(t, want, wantErr))
	got, err = small.Index(byLabel, account(1, "default"))
	want, wantErr = upstream.Index(byLabel, account(1, "default"))
	same(t, "Index of labels", said(t, got, err), said(t, want, wantErr))
	same(t, "IndexKeys of labels", keys(small, byLabel, "0"), keys(upstream, byLabel, "0"))
	same(t, "ListIndexFuncValues of labels", small.ListIndexFuncValues(byLabel), upstream.ListIndexFuncValues(byLabel))
}

func TestListersListNamespaces(t *testing.T) {
	small, upstream := both(t)
	for _, selector := range []string{"", "l=1"} {
		s, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		for n := range namespaces {
			names := func(i cache.Indexer) (out []string) {
				accounts, err := corelisters.NewServiceAccountLister(i).ServiceAccounts(namespace(n)).List(s)
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range accounts {
					out = append(out, a.Namespace+"/"+a.Name)
				}
				return out
			}
			same(t, selector, names(small), names(upstream))
		}
	}
}

func TestErrorsAreUpstreams(t *testing.T) {
	small, _ := both(t)
	if _, err := small.Index(cache.NamespaceIndex, "no object"); err == nil {
		t.Error("what has no metadata is in a namespace")
	}
	without := indexer{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
	if _, err := without.ByIndex(cache.NamespaceIndex, "n"); err == nil {
		t.Error("an answer of an index that is not there")
	}
	if _, err := without.IndexKeys(cache.NamespaceIndex, "n"); err == nil {
		t.Error("keys of an index that is not there")
	}
}

// The factory's users get the small index, whoever asks it for the informer.
func TestFactoriesHaveSmallIndexes(t *testing.T) {
	client := fake.NewClientset(account(1, "default"),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(1), Name: "c"}})
	f := informers.NewSharedInformerFactory(client, 0)
	ServiceAccounts(f)
	ConfigMaps(f)
	core := f.Core().V1()
	for name, i := range map[string]cache.SharedIndexInformer{
		"service accounts": core.ServiceAccounts().Informer(), "config maps": core.ConfigMaps().Informer(),
	} {
		inner, ok := i.GetIndexer().(indexer)
		if !ok {
			t.Errorf("%s: the index is a %T", name, i.GetIndexer())
			continue
		}
		if sets, err := inner.GetIndexers()[cache.NamespaceIndex](account(1, "default")); err != nil || !slices.Equal(sets, []string{namespace(1)}) {
			t.Errorf("%s: said to be by %q, %v", name, sets, err)
		}
		if err := i.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}); err == nil {
			t.Errorf("%s: two indexes by namespace", name)
		}
	}
	f.StartWithContext(t.Context())
	f.WaitForCacheSyncWithContext(t.Context())
	if _, err := core.ServiceAccounts().Lister().ServiceAccounts(namespace(1)).Get("default"); err != nil {
		t.Error(err)
	}
	for name, list := range map[string]func() (int, error){
		"service accounts": func() (int, error) {
			found, err := core.ServiceAccounts().Lister().ServiceAccounts(namespace(1)).List(labels.Everything())
			return len(found), err
		},
		"config maps": func() (int, error) {
			found, err := core.ConfigMaps().Lister().ConfigMaps(namespace(1)).List(labels.Everything())
			return len(found), err
		},
	} {
		if n, err := list(); n != 1 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

// Upstream's informers have no other way to be without the index. This tells when
// it is closed.
func TestDroppedIndexesAreGone(t *testing.T) {
	f := informers.NewSharedInformerFactory(fake.NewClientset(account(1, "default"), account(2, "default")), 0)
	i := f.Core().V1().ServiceAccounts().Informer()
	if err := i.AddIndexers(cache.Indexers{byLabel: labelOf}); err != nil {
		t.Fatal(err)
	}
	Drop(i)
	f.StartWithContext(t.Context())
	f.WaitForCacheSyncWithContext(t.Context())
	if has := i.GetIndexer().ListIndexFuncValues(cache.NamespaceIndex); len(has) > 0 {
		t.Errorf("it has sets for %q", has)
	}
	lister := f.Core().V1().ServiceAccounts().Lister().ServiceAccounts(namespace(1))
	if _, err := lister.Get("default"); err != nil {
		t.Error(err)
	}
	if found, err := lister.List(labels.Everything()); len(found) != 1 || err != nil {
		t.Errorf("in a namespace: %v, %v", found, err)
	}
	if found, err := i.GetIndexer().ByIndex(byLabel, "1"); len(found) != 1 || err != nil {
		t.Errorf("by another index: %v, %v", found, err)
	}
}

// Sets do not grow in number with namespaces.
func TestSetsAreFew(t *testing.T) {
	small, _ := both(t)
	if n := len(small.Indexer.ListIndexFuncValues(cache.NamespaceIndex)); n > namespaceSets {
		t.Errorf("%d sets", n)
	}
}

func BenchmarkList(b *testing.B) {
	small := indexer{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: setOfObject})}
	for n := range 30_000 {
		if err := small.Add(account(n, "default")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if found, err := small.ByIndex(cache.NamespaceIndex, namespace(7)); len(found) != 1 || err != nil {
			b.Fatal(found, err)
		}
	}
}
