package server

import (
	"context"
	"slices"
	"testing"
	"time"
)

func TestGarbageOfListsIsCollectedOften(t *testing.T) {
	for name, c := range map[string]struct {
		remembered []int64 // at each look, -1 when it is over
		want       []int   // what was wished for
	}{
		"without tenants": {[]int64{0, manyValues / 5, manyValues / 5, -1}, nil},
		"with many":       {[]int64{10, manyValues + 1, 10 * manyValues, -1}, []int{listsPercent, 0}},
		"as it ends":      {[]int64{10, manyValues + 1}, []int{listsPercent, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var set []int
			tick, ended, now := make(chan time.Time), make(chan struct{}), make(chan int64)
			go func() {
				defer close(ended)
				collectOften(ctx, tick, func() (int64, bool) {
					n := <-now
					return n, n >= 0
				}, func(percent int) { set = append(set, percent) })
			}()
			for _, n := range c.remembered {
				tick <- time.Time{}
				now <- n
			}
			if last := c.remembered[len(c.remembered)-1]; last >= 0 {
				cancel()
			}
			<-ended
			if !slices.Equal(set, c.want) {
				t.Errorf("set %d, want %d", set, c.want)
			}
		})
	}
}
