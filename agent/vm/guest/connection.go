package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/a4s-io/a4s/embedded/guest/link"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// redialEvery is how long a lost guest is left alone before it is dialed again.
const redialEvery = 100 * time.Millisecond

// tries is how often a call is made that may be made twice.
const tries = 3

// connection is what a Client has of its guest: one session at a time.
type connection struct {
	dial Dialer
	// turn holds a token while nobody makes a session.
	turn chan struct{}

	mu      sync.Mutex
	session *link.Session
	closed  bool
}

func newConnection(dial Dialer) *connection {
	c := &connection{dial: dial, turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

// current returns the session if it lives.
func (c *connection) current() (*link.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if c.session != nil && c.session.Err() == nil {
		return c.session, nil
	}
	return nil, nil
}

// get returns a session; it makes one if there is none. A guest that cannot be
// dialed is an error, one that does not answer is waited for.
func (c *connection) get(ctx context.Context) (*link.Session, error) {
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", link.ErrNoGuest, context.Cause(ctx))
	}
	if s, err := c.current(); s != nil || err != nil {
		return s, err
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	s, err := link.Connect(ctx, conn, link.Options{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	c.mu.Lock()
	closed := c.closed
	c.session = s
	c.mu.Unlock()
	if closed {
		_ = s.Close()
		return nil, ErrClosed
	}
	return s, nil
}

func (c *connection) close() error {
	c.mu.Lock()
	c.closed = true
	s := c.session
	c.mu.Unlock()
	if s != nil {
		return s.Close()
	}
	return nil
}

// open makes a call and returns its stream after a successful reply. The stream
// is closed when ctx ends, or when the caller closes it.
func (c *connection) open(ctx context.Context, method string, params, result any) (*callStream, error) {
	s, err := c.get(ctx)
	if err != nil {
		return nil, err
	}
	st, err := s.Open()
	if err != nil {
		return nil, lost(ctx, err)
	}
	cs := &callStream{Stream: st, ctx: ctx}
	cs.release = context.AfterFunc(ctx, func() { _ = st.Close() })
	raw, err := json.Marshal(params)
	if err == nil {
		err = protocol.WriteMessage(st, protocol.Call{Method: method, Params: raw})
	}
	if err == nil {
		err = cs.reply(result)
	}
	if err != nil {
		_ = cs.Close()
		return nil, fmt.Errorf("%s: %w", method, lost(ctx, err))
	}
	return cs, nil
}

// call makes a call of one question and one answer.
func (c *connection) call(ctx context.Context, method string, params, result any) error {
	cs, err := c.open(ctx, method, params, result)
	if err != nil {
		return err
	}
	return cs.Close()
}

// repeat is call for what may be done twice.
func (c *connection) repeat(ctx context.Context, method string, params, result any) error {
	var err error
	for range tries {
		if err = c.call(ctx, method, params, result); !errors.Is(err, ErrDisconnected) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// persist calls f until it does not fail for want of a connection.
func persist(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || ctx.Err() != nil || !errors.Is(err, ErrDisconnected) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(redialEvery):
		}
	}
}

// callStream is the stream of a call.
type callStream struct {
	*link.Stream
	ctx     context.Context
	release func() bool
}

// Close ends the call.
func (cs *callStream) Close() error {
	cs.release()
	return cs.Stream.Close()
}

// reply reads the guest's answer into result, if that is not nil.
func (cs *callStream) reply(result any) error {
	var r protocol.Reply
	if err := protocol.ReadMessage(cs.Stream, &r); err != nil {
		return err
	}
	if r.Error != "" {
		return &callError{code: r.Code, message: r.Error}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(r.Result, result)
}

// lost says whether an error of a stream is the end of ctx or of the connection.
func lost(ctx context.Context, err error) error {
	var answered *callError
	switch {
	case errors.As(err, &answered), errors.Is(err, ErrDisconnected), errors.Is(err, ErrClosed):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
}

// callError is a failure that the guest reported.
type callError struct{ code, message string }

// Error implements error.
func (e *callError) Error() string { return e.message }

// Is makes the codes known as errors of this package.
func (e *callError) Is(target error) bool {
	switch e.code {
	case protocol.CodeNotFound:
		return target == ErrNotFound
	case protocol.CodeExists:
		return target == ErrExists
	case protocol.CodeState:
		return target == ErrState
	case protocol.CodeInvalid:
		return target == ErrInvalid
	case protocol.CodeNoExecutable:
		return target == ErrNoExecutable
	case protocol.CodeUnsupported:
		return target == ErrUnsupported
	}
	return false
}
