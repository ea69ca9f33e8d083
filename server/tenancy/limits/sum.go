package limits

import (
	"math"
	"math/bits"
)

// sum is a sum that does not overflow, so that what was added can always be taken away again:
// what one object costs is bounded, and how many there are is not, unless they have a limit.
type sum struct {
	high int64
	low  uint64
}

// plus is the sum and a number more.
func (s sum) plus(n int64) sum {
	low, carry := bits.Add64(s.low, uint64(n), 0)
	return sum{s.high + n>>63 + int64(carry), low}
}

// and is two sums together.
func (s sum) and(o sum) sum {
	low, carry := bits.Add64(s.low, o.low, 0)
	return sum{s.high + o.high + int64(carry), low}
}

// value is the sum as a number, or the nearest one that there is.
func (s sum) value() int64 {
	switch {
	case s.high == int64(s.low)>>63:
		return int64(s.low)
	case s.high < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

// sums are those of each dimension.
type sums [dimensions]sum

func (s *sums) add(a *amounts, times int64) {
	for i, n := range a {
		s[i] = s[i].plus(times * n)
	}
}

func (s *sums) values() (out amounts) {
	for i := range s {
		out[i] = s[i].value()
	}
	return out
}

// totals are the sums of what has a name.
type totals map[string]sum

func (t totals) add(of numbers, times int64) {
	for name, n := range of {
		if t[name] = t[name].plus(times * n); t[name] == (sum{}) {
			delete(t, name)
		}
	}
}

func (t totals) values() numbers {
	if t == nil {
		return nil
	}
	out := make(numbers, len(t))
	for name, s := range t {
		out[name] = s.value()
	}
	return out
}
