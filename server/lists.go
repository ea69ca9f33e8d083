package server

import (
	"context"
	"os"
	"time"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

const (
	// manyValues is how many values there are in the caches of a server with
	// some hundred tenants. One without any has a fifth of it.
	manyValues = 10_000
	// listsPercent is GOGC while lists fill the caches of such a server.
	listsPercent = 25
	// listsPoll is how often it is looked how far lists are.
	listsPoll = 100 * time.Millisecond
)

// listsMemory has garbage collected more often while lists fill the caches of a
// server that finds many objects in its datastore. A list leaves ten times as
// much garbage as objects, and what stays lies among it; see growth. A server
// without tenants starts as Go has it, and so does one whose operator said when
// to collect.
func listsMemory(pool *interning.Pool, percent *gcPercent) component.Component {
	return component.Component{Name: "lists-memory", Run: func(ctx context.Context, ready func()) error {
		ready()
		if os.Getenv("GOGC") == "" {
			tick := time.NewTicker(listsPoll)
			collectOften(ctx, tick.C, pool.Remembered, func(n int) { percent.wish(byLists, n) })
			tick.Stop()
		}
		<-ctx.Done()
		return nil
	}}
}

// collectOften wishes for the percentage when the pool remembers many values,
// and for none any more when lists have filled the caches. Then it returns.
func collectOften(ctx context.Context, tick <-chan time.Time, remembered func() (int64, bool), wish func(int)) {
	often := false
	defer func() {
		if often {
			wish(0)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		n, filling := remembered()
		if !filling {
			return
		}
		if n > manyValues && !often {
			wish(listsPercent)
			often = true
		}
	}
}
