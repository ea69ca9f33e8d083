package load

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestRates: a steady load is reckoned as it is after some windows, and it decays when it
// ends, until the tenant is forgotten.
func TestRates(t *testing.T) {
	c := New()
	var rates Rates
	for range 60 {
		for range 120 {
			c.Wrote("a")
			c.Sent("b", 1000)
		}
		rates = c.reckon(time.Minute)
	}
	for what, got := range map[string][2]float64{
		"writes": {rates["a"].Writes, 2}, "bytes": {rates["b"].WatchBytes, 2000},
		"writes of b": {rates["b"].Writes, 0}, "bytes of a": {rates["a"].WatchBytes, 0},
	} {
		if math.Abs(got[0]-got[1]) > 0.01*got[1] {
			t.Errorf("%s: %v, want %v", what, got[0], got[1])
		}
	}
	rates = c.reckon(window)
	if got := rates["a"].Writes; math.Abs(got-2/math.E) > 0.01 {
		t.Errorf("after a window without writes: %v", got)
	}
	if rates = c.reckon(20 * window); len(rates) > 0 || len(c.tenants) > 0 {
		t.Errorf("after a long time: %v, %d are counted", rates, len(c.tenants))
	}
}

// TestCountersAreBounded: more tenants than that are not counted until others are
// forgotten, and a count takes no memory.
func TestCountersAreBounded(t *testing.T) {
	c := New()
	c.most = 3
	for i := range 100 {
		c.Wrote(fmt.Sprint("t", i))
	}
	if len(c.tenants) != 3 {
		t.Errorf("%d tenants are counted", len(c.tenants))
	}
	c.Forget("t0")
	c.Wrote("late")
	if rates := c.reckon(time.Second); rates["late"].Writes <= 0 || len(rates) != 3 {
		t.Errorf("once one is gone: %v", rates)
	}
	if n := testing.AllocsPerRun(1000, func() { c.Wrote("late"); c.Sent("late", 10); c.Wrote("not counted") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	var none *Counters
	none.Wrote("a")
	none.Sent("a", 1)
	none.Forget("a")
}

// TestPublished: what servers publish is added up, and goes with the Lease of its server.
func TestPublished(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	client := fake.NewClientset()
	for server, rates := range map[string]Rates{
		"one": {"a": {Writes: 1.2504}, "b": {WatchBytes: 100}},
		"two": {"a": {Writes: 2, WatchBytes: 7}},
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "of-" + server, UID: "uid",
			Namespace: metav1.NamespaceSystem}}
		p := Publisher{Client: client, Server: server, Lease: lease.Name, Log: logrus.NewEntry(logrus.New())}
		if err := p.publish(ctx, rates, now); err == nil {
			t.Error("there is no Lease, and it is published")
		}
		if _, err := client.CoordinationV1().Leases(lease.Namespace).Create(ctx, lease,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it exists
			if err := p.publish(ctx, rates, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := Read(ctx, client, now)
	want := Rates{"a": {Writes: 3.25, WatchBytes: 7}, "b": {WatchBytes: 100}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	m, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "a4s-load-one", metav1.GetOptions{})
	if err != nil || len(m.OwnerReferences) != 1 || m.OwnerReferences[0].Name != "of-one" {
		t.Errorf("%+v %v", m, err)
	}
	again := Publisher{Client: client, Counters: New(), Server: "one"}
	if err := again.resume(ctx, now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if rates := again.Counters.reckon(time.Millisecond); len(rates) != 2 || math.Abs(rates["a"].Writes-1.25) > 0.01 {
		t.Errorf("it is started again: %v", rates)
	}
	again = Publisher{Client: client, Counters: New(), Server: "new"}
	if err := again.resume(ctx, now); err != nil || len(again.Counters.tenants) > 0 {
		t.Errorf("a new server: %v", err)
	}
	for _, at := range []time.Time{now.Add(2 * counts), now.Add(-2 * counts)} {
		if got, err := Read(ctx, client, at); err != nil || len(got) > 0 {
			t.Errorf("at another time: %v %v", got, err)
		}
	}
}

// TestPublishedIsChecked: a ConfigMap that somebody else wrote does no harm.
func TestPublishedIsChecked(t *testing.T) {
	now := time.Now()
	for text, want := range map[string]Rates{
		`{"a":{"writes":-5,"watchBytes":1e300}}`: {"a": {WatchBytes: most}},
		`{"a":{"writes":`:                        nil,
		`[]`:                                     nil,
		``:                                       nil,
		`{"a":{"more":true}}`:                    {"a": {}},
	} {
		m := &corev1.ConfigMap{Data: map[string]string{ratesKey: text}, ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{measuredAt: now.UTC().Format(time.RFC3339)}}}
		if got := published(m, now); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestGreatest(t *testing.T) {
	rates := Rates{}
	for i := range 50 {
		rates[fmt.Sprintf("w%02d", i)] = Rate{Writes: float64(i)}
		rates[fmt.Sprintf("b%02d", i)] = Rate{WatchBytes: float64(i) * 1000}
	}
	got := greatest(rates, 4)
	want := Rates{"w49": {Writes: 49}, "w48": {Writes: 48}, "b49": {WatchBytes: 49_000}, "b48": {WatchBytes: 48_000}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func BenchmarkWrote(b *testing.B) {
	c := New()
	for i := range 1000 {
		c.Wrote(fmt.Sprint("t", i))
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Wrote("t7")
		}
	})
}
