package spaces_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/nstest"
)

// TestFlood measures, and only if A4S_FLOOD says by how many clients, what the
// flood of one tenant does to the latency of another. Clients and server share
// this machine, so the flood's clients take their part of the CPU too.
// A4S_FLOOD_LIMIT sets the flooding tenant's requestsInFlight, A4S_FLOOD_LEVEL
// is a patch of the priority level of tenants to try.
func TestFlood(t *testing.T) {
	clients, err := strconv.Atoi(os.Getenv("A4S_FLOOD"))
	if err != nil {
		t.Skip("A4S_FLOOD is not a number of clients")
	}
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	for _, s := range []*space{a, b} {
		for i := range 100 {
			if _, err := s.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i)}, Data: map[string]string{"x": strings.Repeat("x", 500)},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the flow schema of tenants", func(ctx context.Context) (bool, error) {
		_, err := p.admin.FlowcontrolV1().FlowSchemas().Get(ctx, "a4s-tenants", metav1.GetOptions{})
		return err == nil, nil
	})
	if patch := os.Getenv("A4S_FLOOD_LEVEL"); patch != "" {
		if _, err := p.admin.FlowcontrolV1().PriorityLevelConfigurations().Patch(t.Context(), "a4s-tenants", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := os.Getenv("A4S_FLOOD_LIMIT"); n != "" {
		p.limit(t, "a", `{"requestsInFlight":`+n+`}`)
	}
	const path = "/api/v1/namespaces/default/configmaps"
	latencies(t, b.config, path+"/c1", time.Second) // warm
	alone := latencies(t, b.config, path+"/c1", 5*time.Second)
	t.Logf("alone:   %s", alone)

	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var served, refused atomic.Int64
	for range clients {
		group.Go(func() {
			for ctx.Err() == nil {
				switch code := status(ctx, t, a.config, path); code {
				case http.StatusOK:
					served.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				}
			}
		})
	}
	latencies(t, b.config, path+"/c1", time.Second)
	served.Store(0)
	refused.Store(0)
	flooded := latencies(t, b.config, path+"/c1", 10*time.Second)
	t.Logf("flooded: %s, by %d clients with %d lists/s and %d refusals/s", flooded, clients, served.Load()/10, refused.Load()/10)
	t.Logf("ratio of p50 %.2f, of p99 %.2f", float64(flooded.p50)/float64(alone.p50), float64(flooded.p99)/float64(alone.p99))
	cancel()
	group.Wait()
}

type distribution struct {
	n        int
	p50, p99 time.Duration
}

func (d distribution) String() string { return fmt.Sprintf("n %d, p50 %v, p99 %v", d.n, d.p50, d.p99) }

// latencies asks one thing after the other, as a person or a controller does.
func latencies(t *testing.T, cfg *rest.Config, path string, how time.Duration) distribution {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var all []time.Duration
	for end := time.Now().Add(how); time.Now().Before(end); <-tick.C {
		begin := time.Now()
		if code := status(t.Context(), t, cfg, path); code != http.StatusOK {
			t.Errorf("GET %s: %d", path, code)
		}
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	return distribution{len(all), all[len(all)/2], all[len(all)*99/100]}
}

// status is the code of a GET, 0 when it was cut short.
func status(ctx context.Context, t *testing.T, cfg *rest.Config, path string) int {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Error(err)
		return 0
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+path, nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0
	}
	return resp.StatusCode
}
