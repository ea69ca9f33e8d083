package main

import (
	"context"
	"slices"
	"time"

	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/measure"
)

// meter measures the processor time of a side from a moment on.
type meter struct {
	side   *sides.Side
	before time.Duration
	began  time.Time
}

func newMeter(s *sides.Side) (meter, error) {
	before, err := s.CPU()
	return meter{side: s, before: before, began: time.Now()}, err
}

// read returns the processor time since then, and how long that is.
func (m meter) read() (used, elapsed time.Duration, err error) {
	now, err := m.side.CPU()
	return now - m.before, time.Since(m.began), err
}

// beyond is the processor time since then beyond a rate, in seconds.
func (m meter) beyond(cores float64) (float64, error) {
	used, elapsed, err := m.read()
	return used.Seconds() - cores*elapsed.Seconds(), err
}

// coresDuring measures how many cores a side needs for a while.
func coresDuring(ctx context.Context, s *sides.Side, d time.Duration) (float64, error) {
	m, err := newMeter(s)
	if err != nil {
		return 0, err
	}
	if err := sleep(ctx, d); err != nil {
		return 0, err
	}
	used, elapsed, err := m.read()
	return used.Seconds() / elapsed.Seconds(), err
}

// sleep is for what is measured by the clock.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// memory is what all processes of a side have resident and what each had at
// most, in MiB: peaks that came at different times are added, too.
func memory(s *sides.Side) (now, peak float64, err error) {
	programs, err := s.Programs()
	for _, p := range programs {
		now += p.RSS
		peak += p.Peak
	}
	return now, peak, err
}

// resident is the median of several looks, in MiB.
func resident(ctx context.Context, s *sides.Side) (float64, error) {
	const looks, between = 5, 200 * time.Millisecond
	var values []float64
	for range looks {
		now, _, err := memory(s)
		if err != nil {
			return 0, err
		}
		values = append(values, now)
		if err := sleep(ctx, between); err != nil {
			return 0, err
		}
	}
	slices.Sort(values)
	return measure.Quantile(values, 0.5), nil
}

// seconds returns a quantile of durations that are in order.
func seconds(took []time.Duration, part float64) float64 {
	values := make([]float64, len(took))
	for i, t := range took {
		values[i] = t.Seconds()
	}
	return measure.Quantile(values, part)
}
