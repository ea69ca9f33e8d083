package sides

import (
	"context"
	"slices"
	"time"

	"github.com/a4s-io/a4s/tests/measure"
)

// Meter measures the processor time of a side from a moment on.
type Meter struct {
	side   *Side
	before time.Duration
	began  time.Time
}

// NewMeter begins to measure.
func NewMeter(s *Side) (Meter, error) {
	before, err := s.CPU()
	return Meter{side: s, before: before, began: time.Now()}, err
}

// Began is when the meter was made.
func (m Meter) Began() time.Time { return m.began }

// Read returns the processor time since then, and how long that is.
func (m Meter) Read() (used, elapsed time.Duration, err error) {
	now, err := m.side.CPU()
	return now - m.before, time.Since(m.began), err
}

// Beyond is the processor time since then beyond a rate, in seconds.
func (m Meter) Beyond(cores float64) (float64, error) {
	used, elapsed, err := m.Read()
	return used.Seconds() - cores*elapsed.Seconds(), err
}

// CoresDuring measures how many cores each side needs for a while, all at the same time.
func CoresDuring(ctx context.Context, d time.Duration, all ...*Side) ([]float64, error) {
	meters := make([]Meter, len(all))
	var err error
	for i, s := range all {
		if meters[i], err = NewMeter(s); err != nil {
			return nil, err
		}
	}
	if err := Sleep(ctx, d); err != nil {
		return nil, err
	}
	cores := make([]float64, len(all))
	for i, m := range meters {
		used, elapsed, err := m.Read()
		if err != nil {
			return nil, err
		}
		cores[i] = used.Seconds() / elapsed.Seconds()
	}
	return cores, nil
}

// Sleep is for what is measured by the clock.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Memory is what all processes of a side have resident, of it what is of no file, and
// what each had resident at most, in MiB: peaks that came at different times are added, too.
func (s *Side) Memory() (now, anon, peak float64, err error) {
	programs, err := s.Programs()
	for _, p := range programs {
		now += p.RSS
		anon += p.Anon
		peak += p.Peak
	}
	return now, anon, peak, err
}

// Weigh returns medians of several looks at Memory, in MiB.
func (s *Side) Weigh(ctx context.Context) (resident, anon float64, err error) {
	const looks, between = 5, 200 * time.Millisecond
	var all, own []float64
	for range looks {
		now, of, _, err := s.Memory()
		if err != nil {
			return 0, 0, err
		}
		all, own = append(all, now), append(own, of)
		if err := Sleep(ctx, between); err != nil {
			return 0, 0, err
		}
	}
	slices.Sort(all)
	slices.Sort(own)
	return measure.Quantile(all, 0.5), measure.Quantile(own, 0.5), nil
}

// Seconds returns a quantile of durations that are in order.
func Seconds(took []time.Duration, part float64) float64 {
	values := make([]float64, len(took))
	for i, t := range took {
		values[i] = t.Seconds()
	}
	return measure.Quantile(values, part)
}
