package directory

import (
	"context"
	"sync"
)

// news tells whoever waits.
type news struct {
	telling sync.Mutex
	turn    chan struct{}
}

// Changes is closed when the partitions change next, or what is known of them.
func (n *news) Changes() <-chan struct{} {
	n.telling.Lock()
	defer n.telling.Unlock()
	return n.turn
}

// tell closes it.
func (n *news) tell() {
	n.telling.Lock()
	defer n.telling.Unlock()
	close(n.turn)
	n.turn = make(chan struct{})
}

// Await blocks until a condition holds that changes with the partitions. It reports false
// if the context ends first.
func (n *news) Await(ctx context.Context, holds func() bool) bool {
	for {
		changes := n.Changes()
		if holds() {
			return true
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return false
		}
	}
}
