package tenancy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// BenchmarkEvent is what one change in a tenant costs the server when that
// tenant alone watches all its objects, and when A4S_BENCH_TENANTS others
// (1000) watch all of theirs too. The processor time is that of the server, for
// the request, its event, and whoever is woken by it.
func BenchmarkEvent(b *testing.B) {
	others := fromEnv(b, "A4S_BENCH_TENANTS", 1000)
	server := startChild(b, withTenants)
	s := &side{name: "tenant", server: server, config: server.tenant(b, "bench")}
	s.http = httpClient(b, s.config)
	client := server.tenants(b)
	inParallel(others, func(i int) { makeTenant(b.Context(), b, client, fmt.Sprintf("other-%d", i)) })
	waitSpace(b.Context(), b, server, fmt.Sprintf("other-%d", others-1), closely)
	server.settled(b)
	kinds := []struct{ resource, body string }{
		{"pods", string(podBody(mediaJSON, "default", 1))},
		{"configmaps", `{"metadata":{"name":"pod-000001"}}`},
		{"services", `{"metadata":{"name":"pod-000001"},"spec":{"ports":[{"port":80}]}}`},
	}
	for _, k := range kinds {
		if err := s.request(b.Context(), http.MethodPost, "/api/v1/namespaces/default/"+k.resource, mediaJSON,
			[]byte(k.body), "Content-Type", mediaJSON); err != nil {
			b.Fatal(err)
		}
	}
	// As many watches as come of tenants are opened by the system's
	// administrator, natively: what matters is whose events they are.
	master := &side{name: "system", server: server, config: server.admin}
	for _, k := range kinds {
		b.Run(k.resource, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			own := s.watchAll(ctx, b, s.http, "/api/v1/"+k.resource)
			alone := s.changes(b, k.resource, own)
			for i := range others {
				if i%200 == 0 { // so many streams fit on a connection
					master.http = httpClient(b, master.config)
				}
				w := master.watchAll(ctx, b, master.http, fmt.Sprintf("/tenants/other-%d/api/v1/%s", i, k.resource))
				go io.Copy(io.Discard, w.in) //nolint:errcheck // it ends with the watch
			}
			together := s.changes(b, k.resource, own)
			for b.Loop() { // all of it was one measurement
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(alone.Microseconds()), "alone-µs/event")
			b.ReportMetric(float64(together.Microseconds()), "together-µs/event")
			b.ReportMetric(float64(together)/float64(alone), "ratio")
		})
	}
}

// watchAll opens a watch of a whole space.
func (s *side) watchAll(ctx context.Context, b *testing.B, client *http.Client, path string) *stream {
	b.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+path+"?watch=1&resourceVersion=0", nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("watching %s: %s", path, resp.Status)
	}
	return newStream(resp)
}

// changes is what a change costs, the least of some series: what else happens
// in the server only adds to it.
func (s *side) changes(b *testing.B, resource string, own *stream) time.Duration {
	b.Helper()
	const series, of = 10, 50
	least := time.Duration(0)
	for range series {
		before, _, _ := s.server.command(b, "usage")
		for range of {
			n := s.serial.Add(1)
			if err := s.request(b.Context(), http.MethodPatch,
				"/api/v1/namespaces/default/"+resource+"/pod-000001", mediaJSON,
				fmt.Appendf(nil, `{"metadata":{"annotations":{"bench":"%d"}}}`, n), "Content-Type",
				"application/merge-patch+json"); err != nil {
				b.Fatal(err)
			}
			if _, err := own.next(); err != nil {
				b.Fatal(err)
			}
		}
		after, _, _ := s.server.command(b, "usage")
		if d := (after - before) / of; least == 0 || d < least {
			least = d
		}
	}
	return least
}
