package process

import (
	"context"
	"net"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"

	// What the main functions of upstream's programs link in for its effect alone:
	// the metrics of clients and of the version, and the time zones of CronJobs where
	// the machine has none. tests/architecture compares with upstream (mains_test.go).
	_ "time/tzdata"

	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// setUpstreamGlobals sets what the main functions of upstream's programs set for
// their process. It comes before anything has a client.
func setUpstreamGlobals() {
	// Upstream's components use deprecated APIs on purpose, and would be told.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	metrics.RequestLatency = latency{metrics.RequestLatency}
	metrics.RateLimiterLatency = latency{metrics.RateLimiterLatency}
	metrics.ResolverLatency = resolving{metrics.ResolverLatency}
	metrics.RequestSize = size{metrics.RequestSize}
	metrics.ResponseSize = size{metrics.ResponseSize}
	metrics.RequestResult = result{metrics.RequestResult}
	metrics.RequestRetry = retry{metrics.RequestRetry}
}

// others is the host of clients whose servers tenants choose: webhooks and the like.
// Each host has series of its own for ever, so tenants are not to make them.
const others = "others"

// bounded is the host of a request as the metrics of clients have it.
func bounded(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() || name == "localhost" {
		return host
	}
	return others
}

type latency struct{ metrics.LatencyMetric }

// Observe implements metrics.LatencyMetric.
func (l latency) Observe(ctx context.Context, verb string, u url.URL, took time.Duration) {
	l.LatencyMetric.Observe(ctx, verb, url.URL{Host: bounded(u.Host)}, took)
}

type resolving struct{ metrics.ResolverLatencyMetric }

// Observe implements metrics.ResolverLatencyMetric.
func (r resolving) Observe(ctx context.Context, host string, took time.Duration) {
	r.ResolverLatencyMetric.Observe(ctx, bounded(host), took)
}

type size struct{ metrics.SizeMetric }

// Observe implements metrics.SizeMetric.
func (s size) Observe(ctx context.Context, verb, host string, bytes float64) {
	s.SizeMetric.Observe(ctx, verb, bounded(host), bytes)
}

type result struct{ metrics.ResultMetric }

// Increment implements metrics.ResultMetric.
func (r result) Increment(ctx context.Context, code, method, host string) {
	r.ResultMetric.Increment(ctx, code, method, bounded(host))
}

type retry struct{ metrics.RetryMetric }

// IncrementRetry implements metrics.RetryMetric.
func (r retry) IncrementRetry(ctx context.Context, code, method, host string) {
	r.RetryMetric.IncrementRetry(ctx, code, method, bounded(host))
}
