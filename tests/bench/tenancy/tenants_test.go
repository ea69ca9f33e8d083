package tenancy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// historyGone is when etcd was compacted twice after the last change and the
// API server, which looks every 15 seconds, has noticed.
func historyGone() time.Duration { return 2*compaction() + 20*time.Second }

// weight is what a server has resident, in bytes: of its own, of files, and
// the live part of its heap.
type weight struct{ own, files, heap int64 }

// weigh waits until the past is forgotten and the server sees that it is idle,
// and weighs. The heap profile goes where A4S_BENCH_PROFILE says.
func (c *child) weigh(b *testing.B, name string) (w weight) {
	b.Helper()
	time.Sleep(historyGone()) // there is nothing to wait on
	c.settled(b)
	if dir := profiles(); dir != "" {
		c.command(b, "heap "+filepath.Join(dir, name+".heap"))
	}
	_, _, w.heap = c.command(b, "idle")
	_, w.own, w.files = c.command(b, "pages")
	return w
}

// BenchmarkTenants makes A4S_BENCH_TENANTS tenants (1000) in a server with all
// its controllers, and deletes a part of them. It reports how many that is a
// second, how long it takes from the request until a token of the tenant's
// default service account is good, and what an idle tenant weighs.
func BenchmarkTenants(b *testing.B) {
	tenants := fromEnv(b, "A4S_BENCH_TENANTS", 1000)
	server := startChild(b, complete)
	client := server.tenants(b)
	makeTenant(b.Context(), b, client, "first")
	waitSpace(b.Context(), b, server, "first", closely)
	one := server.weigh(b, "one")

	var mu sync.Mutex
	var waits []time.Duration
	began := time.Now()
	inParallel(tenants, func(i int) {
		at := time.Now()
		name := fmt.Sprintf("t-%d", i)
		makeTenant(b.Context(), b, client, name)
		waitSpace(b.Context(), b, server, name, closely)
		mu.Lock()
		defer mu.Unlock()
		waits = append(waits, time.Since(at))
	})
	made := time.Since(began)
	if b.Failed() {
		return
	}
	all := server.weigh(b, "all")

	// One after the other: the time that a single tenant takes.
	var single []time.Duration
	for i := range 50 {
		at := time.Now()
		name := fmt.Sprintf("single-%d", i)
		makeTenant(b.Context(), b, client, name)
		waitSpace(b.Context(), b, server, name, closely)
		single = append(single, time.Since(at))
	}

	deleted := min(tenants, 200)
	cpu, _, _ := server.command(b, "usage")
	began = time.Now()
	server.profiled(b, "deletions", func() {
		inParallel(deleted, func(i int) {
			if err := client.Delete(b.Context(), fmt.Sprintf("t-%d", i), metav1.DeleteOptions{}); err != nil {
				b.Error(err)
			}
		})
		inParallel(deleted, func(i int) { waitGone(b.Context(), b, client, fmt.Sprintf("t-%d", i)) })
	})
	gone := time.Since(began)
	used, _, _ := server.command(b, "usage")

	for b.Loop() { // all of it was one measurement
	}
	b.ReportMetric(0, "ns/op")
	each := func(all, one int64) float64 { return float64(all-one) / 1024 / float64(tenants) }
	b.ReportMetric(each(all.own+all.files, one.own+one.files), "RSS-KiB/tenant")
	b.ReportMetric(each(all.own, one.own), "RssAnon-KiB/tenant")
	b.ReportMetric(each(all.files, one.files), "RssFile-KiB/tenant")
	b.ReportMetric(each(all.heap, one.heap), "heap-KiB/tenant")
	b.ReportMetric(float64(one.own+one.files)/(1<<20), "RSS-MiB-with-1")
	b.ReportMetric(float64(all.own+all.files)/(1<<20), "RSS-MiB-with-all")
	b.ReportMetric(float64(tenants)/made.Seconds(), "creates/s")
	b.ReportMetric(float64(deleted)/gone.Seconds(), "deletes/s")
	b.ReportMetric(float64((used-cpu).Milliseconds())/float64(deleted), "cpu-ms/delete")
	for name, of := range map[string][]time.Duration{"parallel": waits, "single": single} {
		slices.Sort(of)
		b.ReportMetric(float64(of[len(of)/2].Milliseconds()), name+"-token-p50-ms")
		b.ReportMetric(float64(of[len(of)*99/100].Milliseconds()), name+"-token-p99-ms")
	}
}

// settled is the use of the server once it does not grow any more.
func (c *child) settled(b *testing.B) (cpu time.Duration, rss, heap int64) {
	b.Helper()
	for range 20 {
		before := heap
		cpu, rss, heap = c.command(b, "gc")
		if before != 0 && heap > before-before/100 {
			break
		}
		time.Sleep(time.Second) // there is nothing to wait on
	}
	return cpu, rss, heap
}

// inParallel calls do with 0 to n-1, some at once.
func inParallel(n int, do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	all.Wait()
}

// makeTenant makes a tenant if there is none of the name.
func makeTenant(ctx context.Context, b *testing.B, client *tenantapi.Client, name string) {
	_, err := client.Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		b.Error(err)
	}
}

// closely is how often a benchmark asks that wants to know when something is there.
const closely = 10 * time.Millisecond

// waitSpace waits until a token of the space's default service account can be
// had and is good for a request, and asks that often. All spaces share two connections: how many
// their clients would open is not the server's affair.
func waitSpace(ctx context.Context, b *testing.B, server *child, name string, every time.Duration) {
	admin, anyone := server.clients(b)
	token := ""
	ask := func() error {
		if token == "" {
			body, err := send(ctx, admin,
				server.admin.Host+"/tenants/"+name+"/api/v1/namespaces/default/serviceaccounts/default/token", "",
				`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1"}`)
			if err != nil {
				return err
			}
			var answer authenticationv1.TokenRequest
			if err := json.Unmarshal(body, &answer); err != nil {
				return err
			}
			token = answer.Status.Token
		}
		_, err := send(ctx, anyone, server.admin.Host+"/apis/authentication.k8s.io/v1/selfsubjectreviews", token,
			`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`)
		return err
	}
	for end := time.Now().Add(deadline); ; time.Sleep(every) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(end) || ctx.Err() != nil {
			b.Errorf("waiting for a token of %s: %v", name, err)
			return
		}
	}
}

// send posts a document and returns the answer.
func send(ctx context.Context, client *http.Client, url, token, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", mediaJSON)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it is read to its end
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %.300s", resp.Status, answer)
	}
	return answer, err
}

func waitGone(ctx context.Context, b *testing.B, client *tenantapi.Client, name string) {
	for end := time.Now().Add(deadline); ; time.Sleep(20 * time.Millisecond) {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(end) {
			b.Errorf("tenant %s is still there: %v", name, err)
			return
		}
	}
}

// profiles is the directory for profiles, "" for none.
func profiles() string { return os.Getenv("A4S_BENCH_PROFILE") }
