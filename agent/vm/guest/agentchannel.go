package guest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

const (
	// syncEvery is how often an agent is asked to show where its answers begin.
	syncEvery = time.Second
	// maxAgentLine is the longest answer: 16 MiB of each stream, in base64.
	maxAgentLine = 48 << 20
	// agentMark precedes the answer to a synchronization.
	agentMark = 0xff
)

// agentChannel exchanges questions and answers with an agent, one at a time.
type agentChannel struct {
	dial Dialer
	turn chan struct{} // holds a token while nobody asks

	mu     sync.Mutex
	conn   net.Conn
	closed bool

	// Only with the turn.
	r    *bufio.Reader
	last int
}

func newAgentChannel(dial Dialer) *agentChannel {
	// Answers to an earlier client must not look like those to this one.
	c := &agentChannel{dial: dial, turn: make(chan struct{}, 1), last: rand.IntN(1 << 30)}
	c.turn <- struct{}{}
	return c
}

func (c *agentChannel) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}

// agentError is a refusal of the agent.
type agentError struct {
	Class   string `json:"class"`
	Message string `json:"desc"`
}

// Error implements error.
func (e *agentError) Error() string { return "guest agent: " + e.Message }

// Is makes a command that the agent does not have, or may not do, ErrUnsupported.
func (e *agentError) Is(target error) bool {
	return target == ErrUnsupported && e.Class == "CommandNotFound"
}

type agentQuestion struct {
	Execute   string         `json:"execute"`
	Arguments map[string]any `json:"arguments,omitempty"`
}

type agentAnswer struct {
	Return json.RawMessage `json:"return"`
	Error  *agentError     `json:"error"`
}

// execute asks the agent to do something. After anything but an answer the next
// call begins with a new connection.
func (c *agentChannel) execute(ctx context.Context, command string, arguments map[string]any, result any) error {
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	conn, err := c.connected(ctx)
	if err == nil {
		err = c.ask(ctx, conn, agentQuestion{command, arguments}, result)
	}
	var refused *agentError
	if err == nil || errors.As(err, &refused) {
		return err
	}
	c.mu.Lock()
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
	closed := c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", command, context.Cause(ctx))
	}
	return fmt.Errorf("%s: %w: %w", command, ErrDisconnected, err)
}

// connected returns a connection whose next answer is to the next question.
func (c *agentChannel) connected(ctx context.Context) (net.Conn, error) {
	c.mu.Lock()
	conn, closed := c.conn, c.closed
	c.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if conn != nil {
		return conn, nil
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.conn = conn
	closed = c.closed
	c.mu.Unlock()
	if closed {
		_ = conn.Close()
		return nil, ErrClosed
	}
	c.r = bufio.NewReader(conn)
	return conn, c.synchronize(ctx, conn)
}

// synchronize reads over whatever an earlier connection left to be answered.
func (c *agentChannel) synchronize(ctx context.Context, conn net.Conn) error {
	for {
		err := c.synchronizeOnce(ctx, conn)
		// An agent that has just started may not have heard it.
		var slow net.Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &slow) || !slow.Timeout() {
			return err
		}
	}
}

func (c *agentChannel) synchronizeOnce(ctx context.Context, conn net.Conn) error {
	release := limited(ctx, conn, time.Now().Add(syncEvery))
	defer release()
	c.last++
	question, err := json.Marshal(agentQuestion{"guest-sync-delimited", map[string]any{"id": c.last}})
	if err != nil {
		return err
	}
	// The mark resets the agent's parser, whatever it has read.
	if _, err := conn.Write(append(append([]byte{agentMark}, question...), '\n')); err != nil {
		return err
	}
	for {
		b, err := c.r.ReadByte()
		if err != nil {
			return err
		}
		if b != agentMark {
			continue
		}
		line, err := c.line()
		if err != nil {
			return err
		}
		var answer struct{ Return int }
		if json.Unmarshal(line, &answer) == nil && answer.Return == c.last {
			return nil
		}
	}
}

// ask asks one question.
func (c *agentChannel) ask(ctx context.Context, conn net.Conn, q agentQuestion, result any) error {
	release := limited(ctx, conn, time.Time{})
	defer release()
	data, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(data, '\n')); err != nil {
		return err
	}
	line, err := c.line()
	if err != nil {
		return err
	}
	var answer agentAnswer
	if err := json.Unmarshal(line, &answer); err != nil {
		return fmt.Errorf("answer of the guest agent: %w", err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Return, result)
}

// line reads a line of bounded length.
func (c *agentChannel) line() ([]byte, error) {
	var line []byte
	for {
		part, err := c.r.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxAgentLine {
			return nil, fmt.Errorf("an answer of more than %d bytes: %w", maxAgentLine, io.ErrShortBuffer)
		}
	}
}

// limited makes reads and writes end at the deadline, if there is one, and when
// ctx ends.
func limited(ctx context.Context, conn net.Conn, deadline time.Time) (release func()) {
	_ = conn.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return func() {
		if stop() {
			_ = conn.SetDeadline(time.Time{})
		}
	}
}
