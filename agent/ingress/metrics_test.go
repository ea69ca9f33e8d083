package ingress

import (
	"fmt"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/agent/ingress/proxy"
)

// shown are the metrics as text.
func shown(n *Node) map[string]float64 {
	out := map[string]float64{}
	n.Metrics(func(name, _ string, value float64, labels map[string]string) {
		if value != 0 {
			out[name+" "+labels["tenant"]+" "+labels["code"]] = value
		}
	})
	return out
}

func of(tenant string, successes, errors uint64) proxy.TenantCount {
	return proxy.TenantCount{Tenant: tenant, Counts: proxy.Counts{Successes: successes, ServerErrors: errors}}
}

// TestCountsGoOn: a child that is replaced, and a tenant that had no host for a while, take nothing off.
func TestCountsGoOn(t *testing.T) {
	n := New(Options{})
	n.counts.take([]proxy.TenantCount{of("t1", 5, 1), of("t2", 2, 0)})
	n.counts.take([]proxy.TenantCount{of("t1", 7, 1)})
	n.counts.take([]proxy.TenantCount{of("t1", 8, 1), of("t2", 1, 0)})
	n.counts.settle()
	n.counts.take([]proxy.TenantCount{of("t1", 1, 0)})
	want := map[string]float64{"ingress_requests_total t1 2xx": 9, "ingress_requests_total t1 5xx": 1,
		"ingress_requests_total t2 2xx": 3}
	if got := shown(n); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMetricsNameSoManyTenants(t *testing.T) {
	n := New(Options{})
	for range 3 {
		var all []proxy.TenantCount
		for i := range 2 * namedTenants {
			all = append(all, of(fmt.Sprintf("t%d", i), 1, 0))
		}
		n.counts.take(all)
		n.counts.settle()
	}
	got := shown(n)
	if len(got) > namedTenants+1 || got["ingress_requests_total "+other+" 2xx"] != 3*namedTenants {
		t.Errorf("%d tenants, and %v of others", len(got), got["ingress_requests_total "+other+" 2xx"])
	}
}

// TestWhatAChildSays: the first word is that it serves, or why not.
func TestWhatAChildSays(t *testing.T) {
	for text, want := range map[string]bool{"": false, "x": false, "{}\n": true,
		"{}\n{\"counts\":[{\"Tenant\":\"t1\",\"Counts\":{\"Successes\":3}}]}\n": true} {
		n, serving := New(Options{}), make(chan error, 1)
		n.counts.listenTo(strings.NewReader(text), serving)
		if err := <-serving; (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
		if got := shown(n)["ingress_requests_total t1 2xx"]; (got == 3) != strings.Contains(text, "t1") {
			t.Errorf("%q: %v", text, got)
		}
	}
}
