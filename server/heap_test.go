package server

import (
	"context"
	"testing"
	"time"
)

func TestMemoryIsGivenBackOnceAfterWork(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tick, freed := make(chan time.Time), 0
	var used time.Duration
	ended := make(chan struct{})
	asked := make(chan struct{}, 100)
	go func() {
		defer close(ended)
		giveBack(ctx, tick, func() time.Duration {
			now := used
			asked <- struct{}{}
			return now
		}, func() { freed++ })
	}()
	<-asked
	for i, step := range []struct {
		work time.Duration
		want int
	}{
		{0, 1},           // the start was work
		{0, 1},           // idle since
		{time.Hour, 1},   // busy
		{time.Hour, 1},   // still
		{time.Second, 2}, // not any more
		{time.Second, 2},
		{time.Hour, 2},
		{0, 3},
	} {
		used += step.work
		before := freed
		tick <- time.Time{}
		<-asked
		if step.want > before {
			<-asked // after it was freed
		}
		if freed != step.want {
			t.Errorf("step %d: given back %d times, want %d", i, freed, step.want)
		}
	}
	cancel()
	<-ended
}
