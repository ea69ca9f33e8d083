package mux

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/a4s-io/a4s/internal/component"
)

// followEvents hands on the events of all runtimes, also of those that are
// added later. The end of the primary's stream is the end of this one, and
// the kubelet begins anew as it would without the mux. Streams of others are
// taken up again: what they miss, the kubelet finds when it lists.
func (rt *router) followEvents(c *call) error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	var sending sync.Mutex
	send := func(event any) error {
		sending.Lock()
		defer sending.Unlock()
		return c.stream.SendMsg(event)
	}
	ended := make(chan error, 1)
	following := map[*service]bool{}
	for {
		all, changed := rt.snapshot()
		for _, s := range all {
			if following[s] {
				continue
			}
			following[s] = true
			one := *c
			one.ctx = ctx
			wg.Go(func() {
				if s.Primary {
					ended <- one.follow(s, send)
					return
				}
				for s.isOpen() {
					err := one.follow(s, send)
					if status.Code(err) == codes.Unimplemented || component.Sleep(ctx, maxReconnect) != nil {
						return
					}
				}
			})
		}
		select {
		case err := <-ended:
			return err
		case <-changed:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}
