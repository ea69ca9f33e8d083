package groupwatch

import (
	"context"
	"errors"
	"io"
	"time"
)

// opener opens a stream of a group from a revision on.
type opener func(ctx context.Context, group string, from int64) (frames, io.Closer, error)

// arrived is what came of a stream.
type arrived struct {
	group string
	turn  int
	what  *frame
	err   error // it ended
}

// merge does what a machine says.
type merge struct {
	groups  *Groups
	session *session
	open    opener
	send    func(raw []byte) error

	in    chan arrived
	close map[int]context.CancelFunc // by turn
}

// run merges until ctx ends or a stream cannot go on. first is what is to be done first.
func (m *merge) run(ctx context.Context, first []output) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.in, m.close = make(chan arrived), map[int]context.CancelFunc{}
	if err := m.do(ctx, first); err != nil {
		return err
	}
	step := func(f func(*machine) ([]output, error)) (bool, error) {
		outs, open, err := m.session.do(f)
		return open, errors.Join(m.do(ctx, outs), err)
	}
	for applied := int64(0); ; {
		if open, err := step(func(m *machine) ([]output, error) {
			applied = m.applied
			return nil, nil
		}); !open || err != nil {
			return err
		}
		more, changed, ok := m.groups.after(applied)
		if !ok {
			return errAnew
		}
		for _, t := range more {
			if open, err := step(func(m *machine) ([]output, error) { return m.change(t) }); !open || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case a := <-m.in:
			if a.err != nil {
				return a.err
			}
			if open, err := step(func(m *machine) ([]output, error) {
				return m.take(a.group, a.turn, a.what, time.Now())
			}); !open || err != nil {
				return err
			}
		}
	}
}

// do does what is to be done, in order.
func (m *merge) do(ctx context.Context, outs []output) error {
	for _, o := range outs {
		switch {
		case o.open > 0:
			m.start(ctx, o)
		case o.close > 0:
			m.close[o.close]()
			delete(m.close, o.close)
		default:
			if err := m.send(o.send.raw); err != nil {
				return err
			}
		}
	}
	return nil
}

// start reads a stream. It is opened again where it was whenever it ends.
func (m *merge) start(ctx context.Context, o output) {
	ctx, m.close[o.open] = context.WithCancel(ctx)
	go func() {
		hand := func(f *frame, err error) bool {
			select {
			case m.in <- arrived{o.group, o.open, f, err}:
				return true
			case <-ctx.Done():
				return false
			}
		}
		for pause, from := minPause, o.from; ; {
			next, body, err := m.open(ctx, o.group, from)
			for err == nil {
				var f *frame
				if f, err = next(); err != nil {
					break
				}
				pause, from = minPause, max(from, f.rev)
				if !hand(f, nil) {
					break
				}
			}
			if body != nil {
				_ = body.Close() // all of it was read that is wanted
			}
			if ctx.Err() != nil {
				return
			}
			if errors.Is(err, errAnew) || errors.Is(err, errFrame) {
				hand(nil, errAnew)
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			pause = min(2*pause, maxPause)
		}
	}()
}

// Pauses between two tries to open a stream.
const (
	minPause = 20 * time.Millisecond
	maxPause = time.Second
)
