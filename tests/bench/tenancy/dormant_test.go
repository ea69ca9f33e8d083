package tenancy

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

const (
	// inFlight is how many requests make dormant tenants at a time.
	inFlight = 64
	// firsts is of how many tenants the first requests are measured.
	firsts = 500
	// nextEach is how many more requests are measured of each of them.
	nextEach = 5
)

// BenchmarkDormantTenants makes A4S_BENCH_DORMANT tenants (20,000) that nobody uses.
// It reports how many that is a second, what one costs, what the start with all of
// them takes beside that of an empty server, and how long the first request and the
// later ones of a tenant take.
func BenchmarkDormantTenants(b *testing.B) {
	n, dir := fromEnv(b, "A4S_BENCH_DORMANT", 20000), dataDir(b)
	server := startChildIn(b, complete, dir) // it makes keys, which later starts find
	server.stop()
	server, empty := timedStart(b, dir)
	before := server.weigh(b, "empty")

	took, used := server.addDormant(b, n)
	if b.Failed() {
		return
	}
	b.Logf("%d tenants were made in %v, by %v of processor time", n, took, used)
	after := server.weigh(b, "dormant")
	server.stop()
	size := fileSize(b, filepath.Join(dir, "server", "db", "etcd", "member", "snap", "db"))
	server, full := timedStart(b, dir)
	restarted := server.weigh(b, "dormant-restarted")
	b.Logf("anonymous memory: %d KiB empty, %d with all, %d after a restart; the datastore has %d KiB",
		before.own/1024, after.own/1024, restarted.own/1024, size/1024)
	listed, pages := server.listAll(b, n)
	requests := server.firstRequests(b, n, 1)

	for b.Loop() { // all of it was one measurement
	}
	each := func(after, before int64) float64 { return float64(after-before) / float64(n) / 1024 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n)/took.Seconds(), "creates/s")
	b.ReportMetric(float64(used.Microseconds())/float64(n)/1000, "cpu-ms/create")
	b.ReportMetric(each(after.own, before.own), "Anonymous-KiB/tenant")
	b.ReportMetric(each(restarted.own, before.own), "Anonymous-KiB/tenant-restarted")
	b.ReportMetric(each(restarted.files, before.files), "RssFile-KiB/tenant-restarted")
	b.ReportMetric(float64(size)/float64(n)/1024, "datastore-KiB/tenant")
	b.ReportMetric(empty.Seconds(), "start-empty-s")
	b.ReportMetric(full.Seconds(), "start-s")
	b.ReportMetric(full.Seconds()/empty.Seconds(), "start/start-empty")
	b.ReportMetric(listed.Seconds(), "list-s")
	b.ReportMetric(float64(pages), "list-pages")
	requests.report(b)
}

// dataDir is what A4S_BENCH_DATA names, for the data of the server to stay there, or else
// a directory that goes with the benchmark.
func dataDir(b *testing.B) string {
	if dir := os.Getenv("A4S_BENCH_DATA"); dir != "" {
		return dir
	}
	return b.TempDir()
}

// requests are how long requests of tenants took, and the processor time of the server
// for all of them.
type requests struct {
	first, next []time.Duration
	used        time.Duration
}

func (r requests) report(b *testing.B) {
	for name, of := range map[string][]time.Duration{"first": r.first, "next": r.next} {
		slices.Sort(of)
		b.ReportMetric(milliseconds(of[len(of)/2]), name+"-p50-ms")
		b.ReportMetric(milliseconds(of[len(of)*99/100]), name+"-p99-ms")
	}
	b.ReportMetric(milliseconds(r.used)/float64(len(r.first)), "cpu-ms/first")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// timedStart starts a server three times and returns the last one with the median of the
// times that the starts took.
func timedStart(b *testing.B, dir string) (*child, time.Duration) {
	b.Helper()
	var server *child
	var took []time.Duration
	for range 3 {
		if server != nil {
			server.stop()
		}
		began := time.Now()
		server = startChildIn(b, complete, dir)
		took = append(took, time.Since(began))
	}
	b.Logf("starts took %v", took)
	slices.Sort(took)
	return server, took[1]
}

func fileSize(b *testing.B, path string) int64 {
	b.Helper()
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

func dormantName(i int) string { return fmt.Sprintf("dormant-%d", i) }

// addDormant makes tenants by one client. It returns how long that took, and the
// processor time of the server.
func (c *child) addDormant(b *testing.B, n int) (took, used time.Duration) {
	b.Helper()
	client := c.tenants(b)
	before, _, _ := c.command(b, "usage")
	began := time.Now()
	var next atomic.Int64
	var all sync.WaitGroup
	for range inFlight {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && !b.Failed(); i = next.Add(1) - 1 {
				if _, err := client.Create(b.Context(), &tenantapi.Tenant{
					ObjectMeta: metav1.ObjectMeta{Name: dormantName(int(i))},
				}, metav1.CreateOptions{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	took = time.Since(began)
	after, _, _ := c.command(b, "usage")
	return took, after - before
}

// listAll lists all tenants in the pages that the server makes.
func (c *child) listAll(b *testing.B, n int) (took time.Duration, pages int) {
	b.Helper()
	client := c.tenants(b)
	began, seen := time.Now(), 0
	for options := (metav1.ListOptions{}); ; {
		list, err := client.List(b.Context(), options)
		var expired apierrors.APIStatus
		if errors.As(err, &expired) && apierrors.IsResourceExpired(err) && expired.Status().Continue != "" {
			options.Continue = expired.Status().Continue // etcd forgets what was 10 seconds ago here
			continue
		}
		if err != nil {
			b.Fatal(err)
		}
		pages++
		seen += len(list.Items)
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	if seen < n {
		b.Errorf("the pages have %d tenants of %d", seen, n)
	}
	return time.Since(began), pages
}

// firstRequests uses some tenants, one after the other, which the seed says.
func (c *child) firstRequests(b *testing.B, n int, seed uint64) (r requests) {
	b.Helper()
	admin, _ := c.clients(b)
	ask := func(tenant string) time.Duration {
		began := time.Now()
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet,
			c.admin.Host+"/tenants/"+tenant+"/api/v1/namespaces/default", nil)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := admin.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it is read to its end
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("%s: %s %.300s, %v", tenant, resp.Status, body, err)
		}
		return time.Since(began)
	}
	before, _, _ := c.command(b, "usage")
	for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(n)[:min(n, firsts)] {
		r.first = append(r.first, ask(dormantName(i)))
		for range nextEach {
			r.next = append(r.next, ask(dormantName(i)))
		}
	}
	after, _, _ := c.command(b, "usage")
	r.used = after - before
	return r
}

// BenchmarkStart starts a server with the data that A4S_BENCH_DATA names, which another
// benchmark left there, and an empty one, by turns, weighs both, and then sends the first
// requests of some of its A4S_BENCH_DORMANT tenants. A4S_BENCH_TENANTS is how many it has
// in all.
func BenchmarkStart(b *testing.B) {
	data := os.Getenv("A4S_BENCH_DATA")
	if data == "" {
		b.Skip("A4S_BENCH_DATA names no directory")
	}
	n, empty := fromEnv(b, "A4S_BENCH_DORMANT", 20000), b.TempDir()
	all := fromEnv(b, "A4S_BENCH_TENANTS", n)
	startChildIn(b, complete, empty).stop() // it makes keys, which later starts find
	var server *child
	took, weights := map[string][]time.Duration{}, map[string]weight{}
	for i := range 3 {
		for _, dir := range []string{empty, data} {
			if server != nil {
				server.stop()
			}
			began := time.Now()
			server = startChildIn(b, complete, dir)
			took[dir] = append(took[dir], time.Since(began))
			if i == 2 {
				weights[dir] = server.weigh(b, filepath.Base(dir))
			}
		}
	}
	requests := server.firstRequests(b, n, uint64(time.Now().UnixNano())) // others than those before
	for b.Loop() {                                                        // all of it was one measurement
	}
	b.Logf("starts took %v, empty %v", took[data], took[empty])
	b.ReportMetric(0, "ns/op")
	slices.Sort(took[data])
	slices.Sort(took[empty])
	each := func(bytes int64) float64 { return float64(bytes) / float64(all) / 1024 }
	b.ReportMetric(each(weights[data].own-weights[empty].own), "Anonymous-KiB/tenant")
	b.ReportMetric(float64(weights[data].own)/(1<<20), "Anonymous-MiB")
	b.ReportMetric(each(fileSize(b, filepath.Join(data, "server", "db", "etcd", "member", "snap", "db"))),
		"datastore-KiB/tenant")
	b.ReportMetric(took[empty][1].Seconds(), "start-empty-s")
	b.ReportMetric(took[data][1].Seconds(), "start-s")
	b.ReportMetric(took[data][1].Seconds()/took[empty][1].Seconds(), "start/start-empty")
	requests.report(b)
}
