package limits

import (
	"net/http"
	"strconv"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	// namedTenants is the number of tenants that metrics name at a time: the
	// first to ask for anything. The rest is called other, which is short
	// for all that is not named and is not to be taken for a tenant's name.
	namedTenants = 1000
	other        = "(other)"
)

var requests, inFlight, use, allowed = func() (*metrics.CounterVec, *metrics.GaugeVec, *metrics.GaugeVec,
	*metrics.GaugeVec) {
	r := metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "a4s_tenant_requests_total",
		Help:           "Requests of tenants' users that were answered, by tenant, verb and HTTP code.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"tenant", "verb", "code"})
	f := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "a4s_tenant_requests_in_flight",
		Help:           "Requests of tenants' users that are being served, without long-running ones, by tenant.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"tenant"})
	u := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "a4s_tenant_used",
		Help:           "What tenants use of their limits, by tenant and name of the limit; cpu in cores.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"tenant", "limit"})
	a := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "a4s_tenant_limit",
		Help:           "What bounds a4s_tenant_used, by tenant and name of the limit; none where there is no bound.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"tenant", "limit"})
	legacyregistry.MustRegister(r, f, u, a)
	return r, f, u, a
}()

// labels are the tenants that metrics name. They belong to the metrics, of
// which a process has one set.
var labels = &labelSet{named: map[string]bool{}, most: namedTenants}

type labelSet struct {
	mu    sync.RWMutex
	named map[string]bool
	most  int
}

// with calls do with the label of a tenant, which stays while do runs. A
// tenant that is gone has none: its last watches can end later than it.
func (s *labelSet) with(u *usage, do func(label string)) {
	s.mu.RLock()
	if s.named[u.tenant] || u.gone || len(s.named) >= s.most {
		defer s.mu.RUnlock()
		s.do(u, do)
		return
	}
	s.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.named) < s.most && !u.gone {
		s.named[u.tenant] = true
	}
	s.do(u, do)
}

func (s *labelSet) do(u *usage, do func(label string)) {
	switch {
	case u.gone:
	case s.named[u.tenant]:
		do(u.tenant)
	default:
		do(other)
	}
}

// forget removes what is said about a tenant.
func (s *labelSet) forget(u *usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.gone = true
	if s.named[u.tenant] {
		delete(s.named, u.tenant)
		requests.DeletePartialMatch(map[string]string{"tenant": u.tenant})
		inFlight.Delete(map[string]string{"tenant": u.tenant})
		use.DeletePartialMatch(map[string]string{"tenant": u.tenant})
		allowed.DeletePartialMatch(map[string]string{"tenant": u.tenant})
	}
}

func (u *usage) count(verb string, code int) {
	text := other
	if http.StatusText(code) != "" { // what a tenant's own pod answers can be any number
		text = strconv.Itoa(code)
	}
	labels.with(u, func(label string) { requests.WithLabelValues(label, verb, text).Inc() })
}

// begin shows one more request in flight, until the returned function is
// called: under the same label, though the tenant may have got one of its own
// meanwhile.
func (u *usage) begin() (ended func()) {
	as := ""
	labels.with(u, func(label string) {
		as = label
		inFlight.WithLabelValues(label).Inc()
	})
	return func() {
		if as == other {
			inFlight.WithLabelValues(other).Dec()
			return
		}
		labels.with(u, func(string) { inFlight.WithLabelValues(as).Dec() })
	}
}
