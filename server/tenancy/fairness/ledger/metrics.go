package ledger

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

var seatSeconds, waitSeconds, refusals = func() (seat, wait, refused *metrics.CounterVec) {
	counter := func(name, help, label string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA},
			[]string{"tenant", label})
	}
	seat = counter("a4s_tenant_seat_seconds_total",
		"Seconds that requests computed in a seat, by tenant and kind of work.", "work")
	wait = counter("a4s_tenant_wait_seconds_total",
		"Seconds that requests waited for a seat, by tenant and kind of work.", "work")
	refused = counter("a4s_tenant_refused_requests_total",
		"Requests that did not get a seat, by tenant and reason: full, late or gone.", "reason")
	legacyregistry.MustRegister(seat, wait, refused)
	return seat, wait, refused
}()

// series are the metrics of a tenant, each made when it is first counted.
type series struct {
	tenant     string
	seat, wait [kinds]metrics.CounterMetric
	refusal    [reasons]metrics.CounterMetric
}

func (s *series) used(kind fairqueue.Work, computed, waited time.Duration) {
	count(&s.seat[kind], seatSeconds, s.tenant, kindNames[kind], computed.Seconds())
	count(&s.wait[kind], waitSeconds, s.tenant, kindNames[kind], waited.Seconds())
}

func (s *series) refused(why Reason) {
	count(&s.refusal[why], refusals, s.tenant, why.String(), 1)
}

func count(c *metrics.CounterMetric, of *metrics.CounterVec, tenant, label string, by float64) {
	if by <= 0 {
		return
	}
	if *c == nil {
		*c = of.WithLabelValues(tenant, label)
	}
	(*c).Add(by)
}

// end takes the series away.
func (s *series) end() {
	labels := map[string]string{"tenant": s.tenant}
	seatSeconds.DeletePartialMatch(labels)
	waitSeconds.DeletePartialMatch(labels)
	refusals.DeletePartialMatch(labels)
}
