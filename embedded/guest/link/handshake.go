package link

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The handshake. The host sends a flush, which completes whatever frame of an
// earlier session the guest may still be reading, and hello with a random
// token, again and again. The guest looks for a hello in whatever it reads and
// answers each with welcome and the same token. The host looks for its token in
// whatever it reads, and sends begin with it. Then both exchange frames; copies
// of the welcome that were on the way come before the guest's first frame.
const (
	tokenSize = 16
	magicSize = 16
	greetSize = magicSize + tokenSize

	helloMagic   = "\x00\xffa4s-hello-v1\xff\x00"
	welcomeMagic = "\x00\xffa4s-welcom-1\xff\x00"
	beginMagic   = "\x00\xffa4s-begin-v1\xff\x00"

	// helloEvery is how often a hello is sent again: a guest that is not up
	// yet may lose what was sent to it.
	helloEvery = 500 * time.Millisecond
)

// ErrNoGuest says that nothing answered before the time was over.
var ErrNoGuest = errors.New("the guest does not answer")

// greetHost makes a new session over conn. It returns the reader to go on with.
func greetHost(ctx context.Context, conn net.Conn) (*bufio.Reader, error) {
	hello := append([]byte(helloMagic), make([]byte, tokenSize)...)
	if _, err := rand.Read(hello[magicSize:]); err != nil {
		return nil, err
	}
	welcome := append([]byte(welcomeMagic), hello[magicSize:]...)

	// The end of the context ends reads and writes that wait.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	answered, silent := make(chan struct{}), make(chan error, 1)
	go func() { silent <- sayHello(conn, hello, answered) }()

	r := newReader(conn)
	err := scanFor(r, welcome)
	close(answered)
	if err != nil {
		_ = conn.SetDeadline(time.Unix(1, 0))
	}
	if sendErr := <-silent; err == nil {
		err = sendErr
	}
	if err == nil {
		_, err = conn.Write(append([]byte(beginMagic), hello[magicSize:]...))
	}
	if err == nil {
		err = skipCopies(r, welcome)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoGuest, context.Cause(ctx))
		}
		return nil, fmt.Errorf("%w: %w", ErrNoGuest, err)
	}
	return r, nil
}

// sayHello writes until it is answered.
func sayHello(conn net.Conn, hello []byte, answered <-chan struct{}) error {
	if _, err := conn.Write(make([]byte, headerSize+maxPayload)); err != nil {
		return err
	}
	again := time.NewTicker(helloEvery)
	defer again.Stop()
	for {
		if _, err := conn.Write(hello); err != nil {
			return err
		}
		select {
		case <-answered:
			return nil
		case <-again.C:
		}
	}
}

// scanFor reads up to and including what.
func scanFor(r *bufio.Reader, what []byte) error {
	for {
		b, err := r.Peek(len(what))
		if err != nil {
			return err
		}
		if bytes.Equal(b, what) {
			_, err = r.Discard(len(what))
			return err
		}
		if err := skipTo(r, what[0]); err != nil {
			return err
		}
	}
}

// skipTo discards at least one byte, and what is buffered before the next c.
func skipTo(r *bufio.Reader, c byte) error {
	b, err := r.Peek(max(r.Buffered(), 1))
	if err != nil {
		return err
	}
	n := bytes.IndexByte(b[1:], c)
	if n < 0 {
		n = len(b) - 1
	}
	_, err = r.Discard(n + 1)
	return err
}

// skipCopies discards copies of what; it returns at the first other byte. The
// guest speaks first in a session (see serveSession), so there is one.
func skipCopies(r *bufio.Reader, what []byte) error {
	for {
		b, err := r.Peek(1)
		if err != nil {
			return err
		}
		if b[0] != what[0] {
			return nil
		}
		b, err = r.Peek(len(what))
		if err != nil {
			return err
		}
		if !bytes.Equal(b, what) {
			return errFrame
		}
		if _, err := r.Discard(len(what)); err != nil {
			return err
		}
	}
}

// greetGuest waits for a host, through whatever else there is to be read.
func greetGuest(r *bufio.Reader, w io.Writer) error {
	var begin []byte
	for {
		b, err := r.Peek(greetSize)
		if err != nil {
			return err
		}
		switch {
		case string(b[:magicSize]) == helloMagic:
			begin = append([]byte(beginMagic), b[magicSize:]...)
			welcome := append([]byte(welcomeMagic), b[magicSize:]...)
			if _, err := r.Discard(greetSize); err != nil {
				return err
			}
			if _, err := w.Write(welcome); err != nil {
				return err
			}
		case begin != nil && bytes.Equal(b, begin):
			_, err := r.Discard(greetSize)
			return err
		default:
			if err := skipTo(r, helloMagic[0]); err != nil {
				return err
			}
		}
	}
}
