package edge

import (
	"context"
	"sync"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// builds has each document built once at a time, by the first who asks for it and in the seat
// of that request: one of a space with many CRDs takes a processor for a while and some ten
// megabytes. There are about as many at a time as seats: a request computes on that has lost its
// seat after long.
type builds struct {
	mu      sync.Mutex
	running map[string]*build
}

// build is one that goes on. It has a document at its end if that is for all who ask with the key.
type build struct {
	over     chan struct{}
	document *discoveryDocument
}

// do returns what f returns, or the document that it returned to another request with the same
// key at this moment, if f said that it may be shared. It fails with the context.
func (b *builds) do(
	ctx context.Context, key string, f func() (m *discoveryDocument, shared bool, err error),
) (*discoveryDocument, error) {
	seat := fairqueue.Of(ctx)
	// Before it begins: while others wait for a build, it waits for nobody.
	seat.Need()
	now, mine := b.begin(key)
	if mine {
		return b.run(key, now, f)
	}
	if err := now.wait(ctx); err != nil {
		return nil, err
	}
	if now.document != nil {
		return now.document, nil
	}
	// It was not for all. Those who waited for it do not wait for each other as well.
	seat.Need()
	m, _, err := f()
	return m, err
}

func (b *builds) begin(key string) (now *build, mine bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.running[key]; now != nil {
		return now, false
	}
	if b.running == nil {
		b.running = map[string]*build{}
	}
	b.running[key] = &build{over: make(chan struct{})}
	return b.running[key], true
}

func (b *builds) run(
	key string, now *build, f func() (m *discoveryDocument, shared bool, err error),
) (*discoveryDocument, error) {
	defer func() {
		b.mu.Lock()
		delete(b.running, key)
		b.mu.Unlock()
		close(now.over)
	}()
	m, shared, err := f()
	if err == nil && shared {
		now.document = m
	}
	return m, err
}

func (now *build) wait(ctx context.Context) error {
	seat := fairqueue.Of(ctx)
	seat.BeginWait()
	defer seat.EndWait()
	select {
	case <-now.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
