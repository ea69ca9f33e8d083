package limits

import (
	"maps"
	"slices"
)

// numbers are how much there is of what has a name: devices by their class, and what quotas
// of a tenant name.
type numbers map[string]int64

func (n numbers) add(of numbers, times int64) {
	for name, many := range of {
		if n[name] += times * many; n[name] == 0 {
			delete(n, name)
		}
	}
}

// tally is what is used by names, and reserved for writes that are under way.
type tally struct{ used, reserved totals }

// take counts what something uses.
func (t *tally) take(of numbers, times int64) {
	if len(of) == 0 {
		return
	}
	if t.used == nil {
		t.used = totals{}
	}
	t.used.add(of, times)
}

// reserve takes what is needed, or says of what there is too little, and how much of it is used.
func (t *tally) reserve(need numbers, limit func(name string) (most int64, bounded bool)) (
	lack string, used int64, ok bool,
) {
	for _, name := range slices.Sorted(maps.Keys(need)) {
		most, bounded := limit(name)
		if used := t.used[name].and(t.reserved[name]).value(); bounded && need[name] > most-used {
			return name, used, false
		}
	}
	if len(need) > 0 && t.reserved == nil {
		t.reserved = totals{}
	}
	t.reserved.add(need, 1)
	return "", 0, true
}

// reservation is what a write has reserved by names.
type reservation struct{ devices, quota numbers }

// release gives it back.
func (r reservation) release(a *account) {
	a.devices.reserved.add(r.devices, -1)
	a.quota.reserved.add(r.quota, -1)
}
