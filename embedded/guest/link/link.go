package link

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// Options of a host's session.
type Options struct {
	// PingEvery is how often the guest is asked for a sign of life, 5 s if
	// zero, and Patience how long its silence is borne, 45 s if zero: a machine
	// without hardware virtualization on a busy node may be that slow.
	PingEvery, Patience time.Duration
}

// Connect makes a session over conn, which belongs to it from then on. The
// context limits the handshake only.
func Connect(ctx context.Context, conn net.Conn, o Options) (*Session, error) {
	r, err := greetHost(ctx, conn)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if o.PingEvery == 0 {
		o.PingEvery = 5 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = 45 * time.Second
	}
	s := newSession(r, conn, nil)
	go func() { _ = s.readLoop() }()
	go s.watch(o.PingEvery, o.Patience)
	go func() {
		<-s.done
		_ = conn.Close() // ends reads and writes that wait
	}()
	return s, nil
}

// Close ends the session.
func (s *Session) Close() error {
	s.end(errors.New("closed"))
	<-s.written
	return nil
}

// Port is the guest's end of the channel.
type Port interface {
	// Read returns io.EOF when the host went away.
	io.ReadWriter
	// SetWriteDeadline ends writes that wait, as of net.Conn.
	SetWriteDeadline(t time.Time) error
	// Await returns when there may be a host, after Read returned io.EOF. Its
	// error ends Serve.
	Await(ctx context.Context) error
}

// Serve handles the streams of one host after the other, for ever. It calls
// handle for each stream in a goroutine of its own.
func Serve(ctx context.Context, port Port, handle func(*Stream)) error {
	r := newReader(port)
	for {
		err := serveSession(r, port, handle)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// After what is not a frame, the next host's hello may already be
		// among what was read.
		if !errors.Is(err, errFrame) {
			if err := port.Await(ctx); err != nil {
				return err
			}
			r.Reset(port)
		}
	}
}

func serveSession(r *bufio.Reader, port Port, handle func(*Stream)) error {
	if err := port.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	if err := greetGuest(r, port); err != nil {
		return err
	}
	s := newSession(r, port, handle)
	// The first frame tells the host where the copies of the welcome end.
	s.control(framePong, 0, nil)
	err := s.readLoop()
	// Nothing of this session may be written into the next one.
	_ = port.SetWriteDeadline(time.Unix(1, 0))
	<-s.written
	return err
}
