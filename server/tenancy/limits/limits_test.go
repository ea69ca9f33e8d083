package limits

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func TestMetricsNameSoManyTenants(t *testing.T) {
	s := &labelSet{named: map[string]bool{}, most: 2}
	users := map[string]*usage{}
	label := func(tenant string) (l string) {
		if users[tenant] == nil {
			users[tenant] = &usage{tenant: tenant}
		}
		s.with(users[tenant], func(label string) { l = label })
		return l
	}
	for i, want := range []string{"t0", "t1", other, other} {
		if got := label(fmt.Sprintf("t%d", i)); got != want {
			t.Errorf("tenant t%d is called %s, want %s", i, got, want)
		}
	}
	if got := label("t1"); got != "t1" {
		t.Errorf("t1 became %s", got)
	}
	s.forget(users["t0"])
	if got := label("t0"); got != "" {
		t.Errorf("the last request of a tenant that is gone is counted for %s", got)
	}
	if got := label("t3"); got != "t3" {
		t.Errorf("the place of a tenant that is gone is not free: %s", got)
	}
}

type oneTenant struct{ tenant *tenantapi.Tenant }

func (o *oneTenant) Get(_ context.Context, name string) (*tenantapi.Tenant, error) {
	if name != o.tenant.Name {
		return nil, nil
	}
	return o.tenant, nil
}

// unreadable is for tenants that cannot be read now.
type unreadable struct{}

func (unreadable) Get(context.Context, string) (*tenantapi.Tenant, error) {
	return nil, errors.New("no datastore")
}

func TestRequestsInFlight(t *testing.T) {
	limit := int64(2)
	tenant := &tenantapi.Tenant{Spec: tenantapi.TenantSpec{Limits: &tenantapi.TenantLimits{RequestsInFlight: &limit}}}
	tenant.Name = "inflight"
	l := New(Options{Tenants: &oneTenant{tenant}})
	defer l.Forget(tenant.Name)
	serve := func(name string, long bool, during func()) error {
		return l.Serve(t.Context(), httptest.NewRecorder(), Request{Tenant: name, Verb: "get", LongRunning: long},
			func(w http.ResponseWriter) error {
				w.WriteHeader(http.StatusNoContent)
				during()
				return nil
			})
	}
	check := func(what string, err error, refused bool) {
		t.Helper()
		if apierrors.IsTooManyRequests(err) != refused || !refused && err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if seconds, ok := apierrors.SuggestsClientDelay(err); refused && (!ok || seconds < 1) {
			t.Errorf("%s: no time to come back is said", what)
		}
	}
	nothing := func() {}
	check("the first", serve(tenant.Name, false, func() {
		check("a watch", serve(tenant.Name, true, nothing), false)
		check("the second", serve(tenant.Name, false, func() {
			check("the third", serve(tenant.Name, false, func() { t.Error("it was served") }), true)
			check("a watch in between", serve(tenant.Name, true, nothing), false)
			check("of nobody's tenant", serve("nobody", false, nothing), false)
			limit = 3 // at once
			check("the third, by a higher limit", serve(tenant.Name, false, nothing), false)
		}), false)
	}), false)
}

// TestWatchesAreBounded: open watches count by themselves, and other long requests and
// those of other tenants do not.
func TestWatchesAreBounded(t *testing.T) {
	limit := int64(1)
	tenant := &tenantapi.Tenant{Spec: tenantapi.TenantSpec{Limits: &tenantapi.TenantLimits{RequestsInFlight: &limit}}}
	tenant.Name = "watches"
	l := New(Options{Tenants: &oneTenant{tenant}, Defaults: &tenantapi.TenantLimits{Watches: &limit}})
	defer l.Forget(tenant.Name)
	serve := func(name, verb string, during func()) error {
		long := verb == "watch" || verb == "connect"
		return l.Serve(t.Context(), httptest.NewRecorder(), Request{Tenant: name, Verb: verb, LongRunning: long},
			func(w http.ResponseWriter) error {
				w.WriteHeader(http.StatusOK)
				during()
				return nil
			})
	}
	nothing := func() {}
	for range 2 { // the first round leaves nothing that counts in the second
		if err := serve(tenant.Name, "watch", func() {
			err := serve(tenant.Name, "watch", func() { t.Error("it was served") })
			if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok ||
				seconds < 1 || !strings.Contains(err.Error(), "1 watches open") ||
				!strings.Contains(err.Error(), "spec.limits.watches") {
				t.Errorf("a watch too many: %v", err)
			}
			for _, c := range [][2]string{{tenant.Name, "connect"}, {tenant.Name, "list"}, {"nobody", "watch"}} {
				if err := serve(c[0], c[1], nothing); err != nil {
					t.Errorf("a %s of %s beside the watch: %v", c[1], c[0], err)
				}
			}
			more := int64(2)
			tenant.Spec.Limits.Watches = &more
			if err := serve(tenant.Name, "watch", nothing); err != nil {
				t.Errorf("a watch by the tenant's own limit: %v", err)
			}
			tenant.Spec.Limits.Watches = nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// TestGaugeReturns: the requests in flight are 0 in the end, whatever happens
// to the tenant's label meanwhile.
func TestGaugeReturns(t *testing.T) {
	value := func(label string) float64 {
		v, err := testutil.GetGaugeMetricValue(inFlight.WithLabelValues(label))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := value(other)
	u := &usage{tenant: "gauge"}
	most := labels.most
	labels.most = 0
	first := u.begin()
	labels.most = most
	second := u.begin()
	if value(other) != before+1 || value(u.tenant) != 1 {
		t.Errorf("%v others, %v named", value(other), value(u.tenant))
	}
	first()
	second()
	if value(other) != before || value(u.tenant) != 0 {
		t.Errorf("in the end %v others, %v named", value(other), value(u.tenant))
	}
	third := u.begin()
	labels.forget(u)
	third()
	if v := value(u.tenant); v != 0 {
		t.Errorf("a tenant that is gone has %v", v)
	}
	inFlight.Delete(map[string]string{"tenant": u.tenant})
}

// TestLimitsAreShown: metrics say what a tenant may use beside what it uses, as long as that
// is bounded and the tenant is there.
func TestLimitsAreShown(t *testing.T) {
	most := int64(7)
	tenant := &tenantapi.Tenant{Spec: tenantapi.TenantSpec{Limits: &tenantapi.TenantLimits{Pods: &most}}}
	tenant.Name = "shown"
	l := New(Options{Tenants: &oneTenant{tenant}})
	defer l.Forget(tenant.Name)
	l.usageOf(tenant.Name)
	l.accounting.put(tenant.Name, "key", 1, 10, isObject, charge{})
	close(l.accounting.loaded)
	shows := func(name string) (values map[string]float64) {
		t.Helper()
		values = map[string]float64{}
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				labels := map[string]string{}
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				if f.GetName() == name && labels["tenant"] == tenant.Name {
					values[labels["limit"]] = m.GetGauge().GetValue()
				}
			}
		}
		return values
	}
	l.show(t.Context())
	if got := shows("a4s_tenant_limit"); len(got) != 1 || got["pods"] != 7 {
		t.Errorf("it may use %v", got)
	}
	if got := shows("a4s_tenant_used"); len(got) != len(shown()) || got["bytes"] == 0 {
		t.Errorf("it uses %v", got)
	}
	tenant.Spec.Limits.Quota = quotaOf("count/jobs.batch", "5", "requests.cpu", "2")
	l.show(t.Context())
	if got := shows("a4s_tenant_used"); len(got) != len(shown()) || l.quotas.of(tenant.Name) != nil {
		t.Errorf("before quotas are counted it uses %v", got)
	}
	c, _ := l.quotas.want(tenant.Name, tenant.Spec.Limits.Quota)
	close(c.done)
	l.accounting.put(tenant.Name, "job", 2, 10, isObject, charge{quota: &quotaUse{numbers{"count/jobs.batch": 1,
		"requests.cpu": 1500}}})
	l.show(t.Context())
	if got := shows("a4s_tenant_limit"); len(got) != 3 || got["quota.count/jobs.batch"] != 5 {
		t.Errorf("by name it may use %v", got)
	}
	if got := shows("a4s_tenant_used"); got["quota.count/jobs.batch"] != 1 || got["quota.requests.cpu"] != 1.5 {
		t.Errorf("by name it uses %v", got)
	}
	delete(tenant.Spec.Limits.Quota, "requests.cpu")
	l.show(t.Context())
	if got := shows("a4s_tenant_used"); len(got) != len(shown())+1 {
		t.Errorf("with a name less it uses %v", got)
	}
	tenant.Spec.Limits.Quota = nil
	tenant.Spec.Limits.Pods = nil
	l.show(t.Context())
	if got := shows("a4s_tenant_limit"); len(got) != 0 {
		t.Errorf("without limits it may use %v", got)
	}
	tenant.Spec.Limits.Pods = &most
	l.show(t.Context())
	l.tenants = unreadable{}
	l.show(t.Context())
	if got := shows("a4s_tenant_limit"); got["pods"] != 7 {
		t.Errorf("a tenant that cannot be read may use %v", got)
	}
	l.Forget(tenant.Name)
	if got := shows("a4s_tenant_limit"); len(got) != 0 {
		t.Errorf("a tenant that is gone may use %v", got)
	}
}
