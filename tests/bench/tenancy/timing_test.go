package tenancy

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/tests/planes"
)

// foreignGets are the ways in which a tenant can ask for what is another
// tenant's. %s is the name of something that the tenant "other" has, or of
// something of the same length that nobody has.
var foreignGets = []struct{ name, path string }{
	{"own-space-namespaced", "/api/v1/namespaces/default/configmaps/%s"},
	{"own-space-namespace", "/api/v1/namespaces/%s"},
	{"own-space-in-namespace", "/api/v1/namespaces/%s/configmaps/x"},
	{"own-space-cluster-scoped", "/api/v1/persistentvolumes/%s"},
	{"own-space-by-field", "/api/v1/configmaps?fieldSelector=metadata.name%%3D%s"},
	{"full-path-namespaced", "/api/v1/tenants/other/namespaces/default/configmaps/%s"},
	{"full-path-namespace", "/api/v1/tenants/other/namespaces/%s"},
	{"full-path-cluster-scoped", "/api/v1/tenants/other/persistentvolumes/%s"},
	{"prefix-namespaced", "/tenants/other/api/v1/namespaces/default/configmaps/%s"},
	{"prefix-cluster-scoped", "/tenants/other/api/v1/persistentvolumes/%s"},
	{"composite-namespace", "/api/v1/namespaces/default.other/configmaps/%s"},
	{"composite-namespace-itself", "/api/v1/namespaces/%s.other"},
	{"composite-cluster-scoped", "/api/v1/persistentvolumes/%s.other.tenant"},
	{"full-path-tenant", "/api/v1/tenants/%s/namespaces/default/configmaps/x"},
	{"prefix-tenant", "/tenants/%s/api/v1/namespaces/default/configmaps/x"},
	{"tenant-itself", "/api/v1/tenants/%s"},
	{"composite-tenant", "/api/v1/namespaces/default.%s/configmaps/x"},
	// Names that nobody has, on both sides: how much the measurement itself
	// tells apart.
	{"control", "/api/v1/namespaces/default/secrets/%s"},
}

// BenchmarkForeignGet compares how long the answer to a GET takes for what
// another tenant has and for what nobody has, in turns. For each way of asking
// it reports both medians, how likely a single foreign answer is to be the
// slower one (0.5 if the two cannot be distinguished), and the rank test's z
// (beyond 3 or so hardly by chance). A4S_BENCH_SAMPLES is the number of pairs.
func BenchmarkForeignGet(b *testing.B) {
	const names = 10
	samples := fromEnv(b, "A4S_BENCH_SAMPLES", 2000)
	server := startChild(b, withTenants)
	asker := &side{name: "asker", server: server, config: server.tenant(b, "asker")}
	asker.http = httpClient(b, asker.config)
	other := &side{name: "other", server: server, config: server.tenant(b, "other")}
	other.http = httpClient(b, other.config)
	tenants := server.tenants(b)
	for i := range names {
		name := fmt.Sprintf("canary-%d", i)
		for path, body := range map[string]string{
			"namespaces": `{"metadata":{"name":"` + name + `"}}`,
			"namespaces/default/configmaps": `{"metadata":{"name":"` + name + `"},"data":{"x":"` +
				strings.Repeat("x", 4096) + `"}}`,
			"persistentvolumes": `{"metadata":{"name":"` + name + `"},"spec":{"capacity":{"storage":"1Gi"},` +
				`"accessModes":["ReadWriteOnce"],"nfs":{"server":"192.0.2.9","path":"/"}}}`,
		} {
			if err := other.request(b.Context(), http.MethodPost, "/api/v1/"+path, mediaJSON, []byte(body),
				"Content-Type", mediaJSON); err != nil {
				b.Fatal(err)
			}
		}
		makeTenant(b.Context(), b, tenants, name)
		planes.AwaitAccount(b, server.user(b, "admin", "tenant:"+name), "default")
	}
	planes.AwaitAccount(b, other.config, fmt.Sprintf("canary-%d", names-1))
	server.settled(b)

	random := rand.New(rand.NewPCG(1, 2))
	for _, g := range foreignGets {
		b.Run(g.name, func(b *testing.B) {
			var theirs, nobodys []time.Duration
			for b.Loop() { // all of it is one measurement
			}
			for i := range samples + samples/10 {
				n := i % names
				foreign := [2]bool{true, false}
				if random.IntN(2) == 0 {
					foreign = [2]bool{false, true}
				}
				var took [2]time.Duration
				var codes [2]int
				for j, f := range foreign {
					name := "nobody"
					if f {
						name = "canary"
					}
					var err error
					if codes[j], took[j], err = asker.timed(b.Context(),
						fmt.Sprintf(g.path, fmt.Sprintf("%s-%d", name, n))); err != nil {
						b.Fatal(err)
					}
				}
				if codes[0] != codes[1] {
					b.Fatalf("the codes are %v for foreign: %v", codes, foreign)
				}
				if i < samples/10 { // warming up
					continue
				}
				for j, f := range foreign {
					if f {
						theirs = append(theirs, took[j])
					} else {
						nobodys = append(nobodys, took[j])
					}
				}
			}
			slower, z := ranks(theirs, nobodys)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(median(theirs).Nanoseconds())/1000, "foreign-µs")
			b.ReportMetric(float64(median(nobodys).Nanoseconds())/1000, "missing-µs")
			b.ReportMetric(slower, "p-slower")
			b.ReportMetric(z, "z")
		})
	}
}

// timed sends a GET and returns the code and the time to the end of the answer.
func (s *side) timed(ctx context.Context, path string) (int, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+path, nil)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // it is read to its end
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, time.Since(began), err
}

func median(d []time.Duration) time.Duration {
	s := slices.Clone(d)
	slices.Sort(s)
	return s[len(s)/2]
}

// ranks is the rank-sum test of Mann and Whitney: the share of pairs in which
// the first is the larger, and how many standard deviations that is from one
// half.
func ranks(first, second []time.Duration) (larger, z float64) {
	type sample struct {
		d     time.Duration
		first bool
	}
	var all []sample
	for _, d := range first {
		all = append(all, sample{d, true})
	}
	for _, d := range second {
		all = append(all, sample{d, false})
	}
	slices.SortFunc(all, func(x, y sample) int { return int(x.d - y.d) })
	sum := 0.0
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].d == all[i].d {
			j++
		}
		for _, s := range all[i:j] {
			if s.first {
				sum += float64(i+j+1) / 2 // equals share their ranks
			}
		}
		i = j
	}
	n, m := float64(len(first)), float64(len(second))
	u := sum - n*(n+1)/2
	return u / (n * m), (u - n*m/2) / math.Sqrt(n*m*(n+m+1)/12)
}
