package tenancy

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/internal/tenantclient"
)

// BenchmarkTenants makes A4S_BENCH_TENANTS tenants (1000) in a server with all
// its controllers, and deletes a part of them. It reports how many that is a
// second, how long it takes from the request until a token of the tenant's
// default service account is good, and what an idle tenant weighs.
func BenchmarkTenants(b *testing.B) {
	tenants := fromEnv(b, "A4S_BENCH_TENANTS", 1000)
	server := startChild(b, complete)
	client := server.tenants(b)
	makeTenant(b.Context(), b, client, "first")
	waitSpace(b.Context(), b, server, "first")
	_, rssOne, heapOne := server.settled(b)

	var mu sync.Mutex
	var waits []time.Duration
	began := time.Now()
	inParallel(tenants, func(i int) {
		at := time.Now()
		name := fmt.Sprintf("t-%d", i)
		makeTenant(b.Context(), b, client, name)
		waitSpace(b.Context(), b, server, name)
		mu.Lock()
		defer mu.Unlock()
		waits = append(waits, time.Since(at))
	})
	made := time.Since(began)
	if b.Failed() {
		return
	}
	_, rssAll, heapAll := server.settled(b)
	if dir := profiles(); dir != "" {
		server.command(b, "heap "+dir+"/tenants.heap")
	}

	// One after the other: the time that a single tenant takes.
	var single []time.Duration
	for i := range 50 {
		at := time.Now()
		name := fmt.Sprintf("single-%d", i)
		makeTenant(b.Context(), b, client, name)
		waitSpace(b.Context(), b, server, name)
		single = append(single, time.Since(at))
	}

	deleted := min(tenants, 200)
	began = time.Now()
	inParallel(deleted, func(i int) {
		if err := client.Delete(b.Context(), fmt.Sprintf("t-%d", i), metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
	inParallel(deleted, func(i int) { waitGone(b.Context(), b, client, fmt.Sprintf("t-%d", i)) })
	gone := time.Since(began)

	for b.Loop() { // all of it was one measurement
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(rssAll-rssOne)/1024/float64(tenants), "RSS-KiB/tenant")
	b.ReportMetric(float64(heapAll-heapOne)/1024/float64(tenants), "heap-KiB/tenant")
	b.ReportMetric(float64(rssOne)/(1<<20), "RSS-MiB-with-1")
	b.ReportMetric(float64(rssAll)/(1<<20), "RSS-MiB-with-all")
	b.ReportMetric(float64(tenants)/made.Seconds(), "creates/s")
	b.ReportMetric(float64(deleted)/gone.Seconds(), "deletes/s")
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
func makeTenant(ctx context.Context, b *testing.B, client *tenantclient.Client, name string) {
	_, err := client.Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		b.Error(err)
	}
}

// waitSpace waits until a token of the space's default service account can be
// had and is good for a request.
func waitSpace(ctx context.Context, b *testing.B, server *child, name string) {
	cfg := *server.admin
	cfg.Host += "/tenants/" + name
	admin, err := kubernetes.NewForConfig(&cfg)
	if err != nil {
		b.Error(err)
		return
	}
	token := ""
	ask := func() error {
		if token == "" {
			answer, err := admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			token = answer.Status.Token
		}
		user := *server.admin
		user.CertFile, user.KeyFile, user.BearerToken = "", "", token
		client, err := kubernetes.NewForConfig(&user)
		if err != nil {
			return err
		}
		_, err = client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return err
	}
	for end := time.Now().Add(deadline); ; time.Sleep(10 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
		if time.Now().After(end) || ctx.Err() != nil {
			b.Errorf("waiting for a token of %s: %v", name, err)
			return
		}
	}
}

func waitGone(ctx context.Context, b *testing.B, client *tenantclient.Client, name string) {
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
