package tenancy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"
)

// accounts are where the memory of a server is, in bytes, by name: Go's own
// classes, what the kernel says that is resident, and the objects of a size
// that live, by their number.
type accounts map[string]int64

// account is what the kernel and Go say now.
func account() (accounts, error) {
	a := accounts{}
	all := metrics.All()
	var samples []metrics.Sample
	for _, d := range all {
		if strings.HasPrefix(d.Name, "/memory/classes/") || strings.HasPrefix(d.Name, "/gc/cycles/") ||
			strings.HasPrefix(d.Name, "/sched/goroutines:") || strings.HasPrefix(d.Name, "/gc/heap/allocs:") {
			samples = append(samples, metrics.Sample{Name: d.Name})
		}
	}
	metrics.Read(samples)
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			a[s.Name] = int64(s.Value.Uint64())
		}
	}
	rollup, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return nil, err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(rollup) + string(status)) {
		var name string
		var n int64
		if _, err := fmt.Sscanf(line, "%s %d kB", &name, &n); err == nil &&
			strings.HasSuffix(strings.TrimSpace(line), "kB") {
			a[name] = n << 10
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for _, s := range m.BySize {
		a[fmt.Sprintf("size %5d", s.Size)] = int64(s.Mallocs - s.Frees)
	}
	return a, nil
}

// writeAccounts writes them to a file.
func writeAccounts(path string) error {
	a, err := account()
	if err != nil {
		return err
	}
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// accounts asks the server for its own.
func (c *child) accounts(b *testing.B) (a accounts) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "accounts")
	c.command(b, "accounts "+path)
	data, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(data, &a); err != nil {
		b.Fatal(err)
	}
	return a
}

// seldom is how often somebody asks who makes a tenant to use it.
const seldom = 100 * time.Millisecond

// BenchmarkTenantMemory makes A4S_BENCH_FEW tenants (500), then as many more
// as make A4S_BENCH_TENANTS (2000), and says where the memory of one is.
func BenchmarkTenantMemory(b *testing.B) {
	few, many := fewAndMany(b)
	server := startChild(b, complete)
	server.addTenants(b, 0, few)
	before := server.weighed(b, few)
	took, used := server.addTenants(b, few, many)
	after := server.weighed(b, many)
	for b.Loop() { // all of it was one measurement
	}
	before.compare(b, after, many-few)
	b.ReportMetric(float64(many-few)/took.Seconds(), "creates/s")
	b.ReportMetric(float64(used.Milliseconds())/float64(many-few), "cpu-ms/create")
}

// BenchmarkTenantMemoryAfterRestart is BenchmarkTenantMemory with servers that
// found the tenants in the datastore when they started. It says what the start
// with all of them took, and how long the first and the later requests of tenants
// take that are made then. A4S_BENCH_DATA is as in BenchmarkDormantTenants.
func BenchmarkTenantMemoryAfterRestart(b *testing.B) {
	few, many := fewAndMany(b)
	dir := dataDir(b)
	var took, used time.Duration // by the last start
	var later requests           // of the last server
	restarted := func(from, to int) accounts {
		first := startChildIn(b, complete, dir)
		first.addTenants(b, from, to)
		first.stop()
		began := time.Now()
		second := startChildIn(b, complete, dir)
		defer second.stop()
		took = time.Since(began)
		used, _, _ = second.command(b, "usage")
		of := second.weighed(b, to)
		if to == many {
			second.addDormant(b, 10*firsts)
			later = second.firstRequests(b, 10*firsts, 1)
		}
		return of
	}
	before := restarted(0, few)
	after := restarted(few, many)
	for b.Loop() { // all of it was one measurement
	}
	before.compare(b, after, many-few)
	b.ReportMetric(took.Seconds(), "start-s")
	b.ReportMetric(used.Seconds(), "start-cpu-s")
	size := fileSize(b, filepath.Join(dir, "server", "db", "etcd", "member", "snap", "db"))
	b.ReportMetric(float64(size)/float64(many)/1024, "datastore-KiB/tenant")
	later.report(b)
}

func fewAndMany(b *testing.B) (few, many int) {
	return fromEnv(b, "A4S_BENCH_FEW", 500), fromEnv(b, "A4S_BENCH_TENANTS", 2000)
}

// addTenants makes the tenants from one number to another. It returns how long
// that took, and the processor time of the server.
func (c *child) addTenants(b *testing.B, from, to int) (took, used time.Duration) {
	b.Helper()
	client := c.tenants(b)
	before, _, _ := c.command(b, "usage")
	began := time.Now()
	inParallel(to-from, func(i int) {
		name := fmt.Sprintf("t-%d", from+i)
		makeTenant(b.Context(), b, client, name)
		// Whoever asks all the time measures the garbage of their questions.
		time.Sleep(seldom)
		waitSpace(b.Context(), b, c, name, seldom)
	})
	took = time.Since(began)
	after, _, _ := c.command(b, "usage")
	return took, after - before
}

func (c *child) weighed(b *testing.B, tenants int) accounts {
	b.Helper()
	c.weigh(b, fmt.Sprint(tenants))
	return c.accounts(b)
}

// compare reports what each of some more tenants added.
func (a accounts) compare(b *testing.B, after accounts, tenants int) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	var names []string
	for name := range after {
		if after[name] != a[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		slope := float64(after[name]-a[name]) / float64(tenants)
		if !strings.HasPrefix(name, "size ") {
			fmt.Printf("%-45s %9.2f KiB/tenant %8.1f MiB -> %8.1f MiB\n", name, slope/1024, float64(a[name])/(1<<20),
				float64(after[name])/(1<<20))
			continue
		}
		var size int
		fmt.Sscanf(name, "size %d", &size) //nolint:errcheck // it is ours
		fmt.Printf("%-45s %9.2f objects/tenant %9.2f KiB/tenant\n", name, slope, slope*float64(size)/1024)
	}
	b.ReportMetric(float64(after["Anonymous:"]-a["Anonymous:"])/1024/float64(tenants), "Anonymous-KiB/tenant")
	b.ReportMetric(float64(after["VmRSS:"]-a["VmRSS:"])/1024/float64(tenants), "RSS-KiB/tenant")
}
