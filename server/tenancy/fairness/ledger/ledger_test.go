package ledger

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// of is the line of a tenant in the last minute.
func of(t *testing.T, l *Ledger, tenant string) (joinapi.UseOfTenant, bool) {
	t.Helper()
	for _, u := range l.LastMinute().Tenants {
		if u.Tenant == tenant {
			return u, true
		}
	}
	return joinapi.UseOfTenant{}, false
}

// measured are the values of a metric, by tenant and the other label.
func measured(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			out[labels["tenant"]+" "+labels["work"]+labels["reason"]] = m.GetCounter().GetValue()
		}
	}
	return out
}

// forgetAll leaves the metrics as they were.
func forgetAll(l *Ledger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for tenant, of := range l.lines {
		l.drop(tenant, of)
	}
}

func TestLastMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		defer forgetAll(l)
		l.Began("tenant:acme", Lists)
		l.Used("tenant:acme", Lists, 3*time.Second, time.Second)
		l.Used("tenant:acme", Policies, time.Second, 0)
		l.Used("address:192.0.2.1", Gets, time.Second, 0)
		l.Used("address:192.0.2.2", Gets, 4*time.Second, 0)
		l.Refused("tenant:calm", Gets, Full, 0)
		l.Refused("tenant:calm", Gets, Late, 15*time.Second)
		use := l.LastMinute()
		var order []string
		for _, u := range use.Tenants {
			order = append(order, u.Tenant)
		}
		if want := []string{Unknown, "acme", "calm"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
		acme, _ := of(t, l, "acme")
		if acme.SeatSeconds != 4 || acme.WaitedSeconds != 1 || acme.Requests != 1 || len(acme.Work) != 2 ||
			acme.Work[0] != (joinapi.UseForWork{Work: "lists", SeatSeconds: 3, WaitedSeconds: 1, Requests: 1}) ||
			acme.Work[1].Work != "policies" {
			t.Errorf("%+v", acme)
		}
		calm, _ := of(t, l, "calm")
		if calm.Refused["full"] != 1 || calm.Refused["late"] != 1 || calm.WaitedSeconds != 15 {
			t.Errorf("%+v", calm)
		}
		for name, want := range map[string]map[string]float64{
			"a4s_tenant_seat_seconds_total":     {"acme lists": 3, "acme policies": 1, "(unknown) gets": 5},
			"a4s_tenant_wait_seconds_total":     {"acme lists": 1, "calm gets": 15},
			"a4s_tenant_refused_requests_total": {"calm full": 1, "calm late": 1},
		} {
			if got := measured(t, name); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}

		time.Sleep(30 * time.Second)
		l.Used("tenant:acme", Watches, 2*time.Second, 0)
		time.Sleep(29 * time.Second)
		if acme, _ := of(t, l, "acme"); acme.SeatSeconds != 6 {
			t.Errorf("after 59 seconds: %+v", acme)
		}
		time.Sleep(slot + time.Second)
		acme, _ = of(t, l, "acme")
		_, there := of(t, l, "calm")
		if there || acme.SeatSeconds != 2 || len(acme.Work) != 1 || len(acme.Refused) != 0 {
			t.Errorf("after %s: calm is there: %v; %+v", time.Minute+slot, there, acme)
		}
		if use := l.LastMinute(); use.Seconds < 60 || use.Seconds > 65 {
			t.Errorf("the last minute is %f s", use.Seconds)
		}
		time.Sleep(time.Hour)
		if use := l.LastMinute(); len(use.Tenants) != 0 {
			t.Errorf("an hour later: %+v", use)
		}
	})
}

// However many tenants there are, few are named, among them who uses most, and nothing of what
// was used is lost.
func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		defer forgetAll(l)
		const tenants = 5 * named
		want := 0.0
		for i := range tenants {
			l.Used("tenant:noisy", Lists, time.Second, 0)
			l.Used(FlowOf(fmt.Sprintf("t%d", i)), Gets, time.Millisecond, time.Millisecond)
			want += 1.001
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
		}
		use, sum := l.LastMinute(), 0.0
		for _, u := range use.Tenants {
			sum += u.SeatSeconds
		}
		if len(use.Tenants) > named || math.Abs(sum-want) > 1e-6 {
			t.Errorf("%d lines of %f s, want at most %d of %f s", len(use.Tenants), sum, named, want)
		}
		if u := use.Tenants[0]; u.Tenant != "noisy" || u.SeatSeconds != tenants {
			t.Errorf("the first is %s with %f s", u.Tenant, u.SeatSeconds)
		}
		if u, there := of(t, l, Other); !there || u.SeatSeconds == 0 {
			t.Errorf("the rest: %+v", u)
		}
		for _, name := range []string{"a4s_tenant_seat_seconds_total", "a4s_tenant_wait_seconds_total"} {
			if got := measured(t, name); len(got) > named {
				t.Errorf("%s has %d series", name, len(got))
			}
		}
		if got := measured(t, "a4s_tenant_seat_seconds_total")["noisy lists"]; got != tenants {
			t.Errorf("the metric of the noisy one is %f", got)
		}
	})
}

// A deleted tenant is not named, nor are those of its requests that end after it.
func TestForgottenTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		defer forgetAll(l)
		l.Used("tenant:acme", Watches, time.Second, 0)
		l.Forget("acme")
		if u, there := of(t, l, "acme"); there || len(measured(t, "a4s_tenant_seat_seconds_total")) != 0 {
			t.Errorf("after the tenant: %+v", u)
		}
		l.Used("tenant:acme", Watches, time.Second, 0)
		time.Sleep(again)
		synctest.Wait()
		if got := measured(t, "a4s_tenant_seat_seconds_total"); len(got) != 0 {
			t.Errorf("after its last request: %v", got)
		}
	})
}

func TestNoLedger(t *testing.T) {
	var l *Ledger
	l.Used("tenant:acme", Gets, 1, 1)
	l.Began("tenant:acme", Gets)
	l.Refused("tenant:acme", Gets, Full, 1)
	l.Forget("acme")
	if use := l.LastMinute(); len(use.Tenants) != 0 {
		t.Errorf("%+v", use)
	}
}
