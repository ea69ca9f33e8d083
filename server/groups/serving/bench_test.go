package serving

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
)

const (
	benchTenants = 400
	benchObjects = 20000 // of 2 kB each
	benchEvents  = 10000
)

// BenchmarkGroups weighs the cache of a server that holds all tenants, half of them and a
// quarter, and what an event costs it: of a tenant that it holds, of one that it does not,
// and without a cache. The datastore runs in the same process, and is taken off.
func BenchmarkGroups(b *testing.B) {
	etcd := runEtcd(b)
	fill(b, etcd)
	for range b.N {
		configure(b, etcd, "half", "", "t200")
		configure(b, etcd, "quarter", "t200", "t300")
		var heaps, costs []float64
		for _, group := range []string{"all", "half", "quarter"} {
			life := &scoped{TB: b}
			none, before := events(b, etcd, "t350"), heap()
			s := server(life, etcd, group)
			heaps = append(heaps, heap()-before)
			costs = append(costs, events(b, etcd, "t350")-none)
			runtime.KeepAlive(s)
			life.end()
		}
		b.ReportMetric(heaps[0], "all-MB")
		b.ReportMetric(heaps[1]/heaps[0], "half/all-heap")
		b.ReportMetric(heaps[2]/heaps[0], "quarter/all-heap")
		b.ReportMetric(costs[0], "own-event-us")
		b.ReportMetric(costs[1]/costs[0], "foreign/own-event")
	}
}

// scoped is the benchmark for something that ends before it does.
type scoped struct {
	testing.TB
	cleanups []func()
}

// Cleanup implements testing.TB.
func (s *scoped) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scoped) end() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
}

// fill stores objects of all tenants.
func fill(b *testing.B, etcd *clientv3.Client) {
	b.Helper()
	text := strings.Repeat("x", 2000)
	var ops []clientv3.Op
	for i := range benchObjects {
		c := configMap(fmt.Sprintf("t%03d", i%benchTenants), fmt.Sprint("c", i), text)
		ops = append(ops, clientv3.OpPut(root+mustKey(c), encoded(b, c)))
		if len(ops) == 100 {
			if _, err := etcd.Txn(b.Context()).Then(ops...).Commit(); err != nil {
				b.Fatal(err)
			}
			ops = nil
		}
	}
}

func mustKey(c *corev1.ConfigMap) string {
	key, _ := keyOf(c)
	return key
}

func encoded(b testing.TB, c *corev1.ConfigMap) string {
	b.Helper()
	var out bytes.Buffer
	if err := codec().Encode(c, &out); err != nil {
		b.Fatal(err)
	}
	return out.String()
}

// heap is what is alive, in MB, once what has ended is gone.
func heap() float64 {
	var m runtime.MemStats
	last := 0.0
	for same := 0; same < 5; {
		runtime.GC()
		runtime.ReadMemStats(&m)
		now := float64(m.HeapAlloc) / 1e6
		if same++; now < last-0.2 || now > last+0.2 {
			same = 0
		}
		last = now
		time.Sleep(50 * time.Millisecond)
	}
	return last
}

// events changes objects of a tenant, and returns the processor time of each in
// microseconds.
func events(b *testing.B, etcd *clientv3.Client, tenant string) float64 {
	b.Helper()
	value := encoded(b, configMap(tenant, "changes", strings.Repeat("x", 2000)))
	key := root + mustKey(configMap(tenant, "changes", ""))
	before := processor(b)
	for range benchEvents {
		if _, err := etcd.Put(b.Context(), key, value); err != nil {
			b.Fatal(err)
		}
	}
	time.Sleep(time.Second) // what follows the last event counts as well
	return float64(processor(b)-before) / float64(time.Microsecond) / benchEvents
}

func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
