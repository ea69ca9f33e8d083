package interning

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// list has more objects than the pool has places for any of what they say.
func list() []kruntime.Object {
	var out []kruntime.Object
	for i := range 2 * shortPlaces {
		m := objectMeta()
		m.UID, m.ResourceVersion = types.UID(fmt.Sprint("uid-", i)), fmt.Sprint(i)
		m.Labels = map[string]string{"tenant": fmt.Sprint("tenant-", i)}
		m.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(fmt.Sprintf(`{"f:data":{"f:%d":{}}}`, i))
		out = append(out, &rbacv1.ClusterRole{ObjectMeta: m, Rules: []rbacv1.PolicyRule{{Verbs: []string{fmt.Sprint("verb-", i)}}}})
	}
	return out
}

// Lists fill caches one after the other: what was first in one comes again when
// the pool has seen all the rest of it.
func TestListsFindEachOther(t *testing.T) {
	p := New()
	p.Fill(time.Hour)
	first, second := list(), list()
	for i := range first {
		p.Object(first[i])
	}
	for i := range second {
		p.Object(second[i])
	}
	for i := range first {
		a, b := first[i].(*rbacv1.ClusterRole), second[i].(*rbacv1.ClusterRole)
		if at(a.UID) != at(b.UID) || at(a.Rules[0].Verbs[0]) != at(b.Rules[0].Verbs[0]) {
			t.Fatalf("%d: two copies of a string", i)
		}
		if reflect.ValueOf(a.Labels).Pointer() != reflect.ValueOf(b.Labels).Pointer() {
			t.Fatalf("%d: two copies of a map", i)
		}
		if a.ManagedFields[0].FieldsV1 != b.ManagedFields[0].FieldsV1 {
			t.Fatalf("%d: two copies of managed fields", i)
		}
		if &a.Rules[0] != &b.Rules[0] {
			t.Fatalf("%d: two copies of a slice", i)
		}
		if want := fmt.Sprint("tenant-", i); b.Labels["tenant"] != want || b.ResourceVersion != fmt.Sprint(i) {
			t.Fatalf("%d became %v", i, b)
		}
	}
}

func TestInformersThatListFindEachOther(t *testing.T) {
	p := New()
	keep := func(obj kruntime.Object) any {
		t.Helper()
		got, err := p.Transform(obj)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	p.Fill(time.Hour)
	var first []any
	for _, obj := range list() {
		first = append(first, keep(obj))
	}
	// What only parts of the objects are asked for is between the two.
	for _, obj := range list() {
		keep(&metav1.PartialObjectMetadata{ObjectMeta: obj.(*rbacv1.ClusterRole).ObjectMeta})
	}
	for i, obj := range list() {
		if keep(obj) != first[i] {
			t.Fatalf("%d: two copies", i)
		}
	}
	secret := &corev1.Secret{ObjectMeta: objectMeta()}
	if keep(secret.DeepCopy()) == keep(secret.DeepCopy()) {
		t.Error("the pool remembers secrets")
	}
}

// remembers tells whether what was seen first is known at the end of a list.
func remembers(p *Pool) bool {
	p.known("first")
	for i := range 10 * shortPlaces {
		p.known(fmt.Sprint("other-", i))
	}
	_, known := p.known("first")
	return known
}

func TestFillingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New()
		after := func(d time.Duration) bool {
			time.Sleep(d)
			synctest.Wait()
			return p.filling.Load() != nil
		}
		p.Fill(time.Hour)
		if !remembers(p) {
			t.Error("it remembers nothing")
		}
		if n, filling := p.Remembered(); n < 10*shortPlaces || !filling {
			t.Errorf("said to be %d, %t", n, filling)
		}
		p.Forget()
		if n, filling := p.Remembered(); n != 0 || filling {
			t.Errorf("said to be %d, %t after it", n, filling)
		}
		if remembers(p) || p.filling.Load() != nil {
			t.Error("it remembers what it was to forget")
		}
		p.Fill(time.Minute)
		if !remembers(p) {
			t.Error("it does not begin again")
		}
		if after(time.Minute + 1) {
			t.Error("it goes on for ever")
		}
		p.Fill(time.Minute)
		p.known("before")
		p.Fill(time.Second)
		if _, known := p.known("before"); !known {
			t.Error("it began anew while it was at it")
		}
		if after(time.Second + 1) {
			t.Error("it does not end earlier")
		}
		p.Fill(time.Second)
		p.Fill(time.Minute)
		if !after(time.Minute - 1) {
			t.Error("it does not end later")
		}
	})
}

// The memory is there again, too.
func TestWhatWasRememberedIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New()
		for name, end := range map[string]func(){
			"told":  p.Forget,
			"timed": func() { time.Sleep(time.Minute); synctest.Wait() },
		} {
			p.Fill(time.Minute)
			f := weak.Make(p.filling.Load())
			end()
			runtime.GC()
			if f.Value() != nil {
				t.Errorf("%s: it is still there", name)
			}
		}
	})
}

// However much there is, the pool stays small.
func TestFillingIsBounded(t *testing.T) {
	p := New()
	f := newFilling(100)
	p.filling.Store(f)
	for _, obj := range list()[:200] {
		if _, err := p.Transform(obj); err != nil {
			t.Fatal(err)
		}
	}
	var values int
	for i := range fillingShards {
		values += len(f.strings.shards[i].of) + len(f.maps.shards[i].of) + len(f.fields.shards[i].of) + len(f.slices.shards[i].of) + len(f.objects.shards[i].of)
	}
	if n, filling := p.Remembered(); n != 100 || !filling {
		t.Errorf("said to be %d, %t", n, filling)
	}
	if values != 100 {
		t.Errorf("%d values", values)
	}
	// What has no room has its place, as at other times.
	if _, known := p.known("late"); known {
		t.Error("known before")
	}
	if _, known := p.known("late"); !known {
		t.Error("not known after")
	}
}
