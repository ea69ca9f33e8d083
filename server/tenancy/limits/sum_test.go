package limits

import (
	"fmt"
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func TestSums(t *testing.T) {
	for _, c := range []struct {
		add  []int64
		want int64
	}{
		{nil, 0},
		{[]int64{1, 2, -3}, 0},
		{[]int64{-1}, -1},
		{[]int64{math.MaxInt64}, math.MaxInt64},
		{[]int64{math.MaxInt64, 1}, math.MaxInt64},
		{[]int64{math.MaxInt64, math.MaxInt64, math.MaxInt64, -math.MaxInt64, -math.MaxInt64}, math.MaxInt64},
		{[]int64{math.MaxInt64, 5, -math.MaxInt64}, 5},
		{[]int64{math.MinInt64}, math.MinInt64},
		{[]int64{math.MinInt64, -1}, math.MinInt64},
		{[]int64{math.MinInt64, -1, math.MaxInt64, 1}, -1},
	} {
		var one, other sum
		for i, n := range c.add {
			if one = one.plus(n); i%2 == 0 {
				other = other.and(sum{}.plus(n))
			} else {
				other = sum{}.plus(n).and(other)
			}
		}
		if one.value() != c.want || other != one {
			t.Errorf("%v: %d (%v, %v), want %d", c.add, one.value(), one, other, c.want)
		}
	}
}

// TestUseThatIsLargerThanANumber: a tenant that made as much as no number holds, before it had a
// limit, gets no more under one, and what is gone is taken off.
func TestUseThatIsLargerThanANumber(t *testing.T) {
	const many = 1<<13 + 1 // of 1 Pi each, of which a number holds one less than 1<<13
	of := charge{volumes: most, claim: &claim{devices: numbers{"gpu": most}},
		quota: &quotaUse{numbers{"requests.storage": most}}}
	claim := &core.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = core.ResourceList{"storage": resource.MustParse("9E")}
	if got := chargeOf(claim).volumes; got != most {
		t.Fatalf("the largest claim costs %d", got)
	}
	l := New(Options{})
	for i := range int64(many) {
		l.accounting.put("t", fmt.Sprint(i), i+1, 1, isObject, of)
	}
	tenant := &tenantapi.Tenant{}
	tenant.Name = "t"
	storage := resource.MustParse("1Ti")
	tenant.Spec.Limits = &tenantapi.TenantLimits{Storage: &storage, Devices: map[string]int64{"gpu": 5},
		Quota: quotaOf("requests.storage", "1Ti")}
	c, _ := l.quotas.want("t", tenant.Spec.Limits.Quota)
	close(c.done)
	close(l.accounting.loaded)
	refused := func(want bool) {
		t.Helper()
		need, bounds := isObject.amounts(1, charge{volumes: 1}), l.bounds(tenant)
		d, used, ok := l.accounting.reserve("t", &need, &bounds)
		if ok == want || want && (d != volumes || used < 0) {
			t.Errorf("of storage: %v, %d is used, %v", d, used, ok)
		}
		_, used, ok = l.accounting.reserveDevices("t", numbers{"gpu": 1}, tenant.Spec.Limits.Devices)
		if ok == want || want && used < 0 {
			t.Errorf("of devices: %d are used, %v", used, ok)
		}
		_, used, err := l.accounting.reserveQuota("t", numbers{"requests.storage": 1}, tenant.Spec.Limits.Quota,
			always)
		if (err != nil) != want || want && used < 0 {
			t.Errorf("of the quota: %d is used, %v", used, err)
		}
	}
	refused(true)
	seen := 0
	for _, u := range l.Usage(tenant) {
		if u.Used.Sign() < 0 {
			t.Errorf("%s: %s is used", u.Name, u.Used.String())
		}
		if u.Limit != nil && u.Used.Cmp(*u.Limit) > 0 {
			seen++
		}
	}
	if seen != 3 {
		t.Errorf("%d limits are exceeded, want 3", seen)
	}
	need, none := isObject.amounts(1, charge{volumes: 1}), unbounded()
	if d, used, ok := l.accounting.reserve("t", &need, &none); !ok {
		t.Errorf("without a limit: %v, %d", d, used)
	}
	l.accounting.release("t", &need, reservation{})
	for i := range int64(many) {
		l.accounting.remove("t", fmt.Sprint(i), many+1)
	}
	refused(false)
}
