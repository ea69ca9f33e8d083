package link

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// line is a virtio-serial port as QEMU has it: a guest's end that stays, and
// hosts that come and go. What a host wrote before it went stays to be read.
type line struct {
	ctx   context.Context
	hosts chan net.Conn

	mu       sync.Mutex
	conn     net.Conn
	deadline time.Time
}

func (l *line) current() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

func (l *line) Read(p []byte) (int, error) {
	if c := l.current(); c != nil {
		return c.Read(p)
	}
	return 0, io.EOF
}

func (l *line) Write(p []byte) (int, error) { return l.current().Write(p) }

func (l *line) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = t
	if l.conn != nil {
		return l.conn.SetWriteDeadline(t)
	}
	return nil
}

func (l *line) Await(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case c := <-l.hosts:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conn = c
		return c.SetWriteDeadline(l.deadline)
	}
}

// dial connects a host. The socket is one that buffers, as QEMU's.
func (l *line) dial(t *testing.T) net.Conn {
	t.Helper()
	listener, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	host, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	guest, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close(); guest.Close() })
	l.hosts <- guest
	return host
}

func serve(t *testing.T, handle func(*Stream)) *line {
	ctx, cancel := context.WithCancel(context.Background())
	l := &line{ctx: ctx, hosts: make(chan net.Conn, 1)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = Serve(ctx, l, handle)
	}()
	t.Cleanup(func() {
		cancel()
		if c := l.current(); c != nil {
			c.Close()
		}
		<-over
	})
	return l
}

func echo(st *Stream) {
	defer st.Close()
	_, _ = io.Copy(st, st)
	_ = st.CloseWrite()
}

func connect(t *testing.T, conn net.Conn) *Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s, err := Connect(ctx, conn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustOpen(t *testing.T, s *Session) *Stream {
	t.Helper()
	st, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// roundTrip sends data through an echoing stream.
func roundTrip(t *testing.T, s *Session, data []byte) {
	t.Helper()
	st, err := s.Open()
	if err != nil {
		t.Error(err)
		return
	}
	defer st.Close()
	go func() {
		_, _ = st.Write(data)
		_ = st.CloseWrite()
	}()
	got, err := io.ReadAll(st)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes came back, %v", len(got), len(data), err)
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}

func (s *Session) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

func TestManyStreams(t *testing.T) {
	l := serve(t, echo)
	s := connect(t, l.dial(t))
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { roundTrip(t, s, random(400<<10)) })
	}
	all.Wait()
	eventually(t, "streams forgotten", func() bool { return s.count() == 0 })
}

func TestUnreadStreamHoldsUpNoOther(t *testing.T) {
	l := serve(t, echo)
	s := connect(t, l.dial(t))
	stuck := mustOpen(t, s)
	written := make(chan error, 1)
	go func() { // nobody reads the echo
		_, err := stuck.Write(make([]byte, 10*window))
		written <- err
	}()
	roundTrip(t, s, random(4*window))
	select {
	case err := <-written:
		t.Fatalf("10 windows were taken though nobody reads (%v)", err)
	default:
	}
	stuck.Close()
	if err := <-written; !errors.Is(err, ErrStreamClosed) {
		t.Errorf("write to a closed stream: %v", err)
	}
}

// Each case is what an earlier host left on the line.
func TestNewHostAfterWhateverBefore(t *testing.T) {
	data := appendFrame(nil, frameData, 1, random(maxPayload))
	hello := helloMagic + string(random(tokenSize))
	for name, before := range map[string][]byte{
		"nothing":            nil,
		"noise":              random(3 * maxPayload),
		"part of a hello":    []byte(hello[:20]),
		"a hello":            []byte(hello),
		"a hello and frames": append([]byte(hello), data...),
		"a whole session":    nil, // see below
		"begin of a frame":   data[:headerSize+1],
		"begin of a header":  data[:3],
		"all of a frame":     data,
		"most of a frame":    data[:len(data)-1],
	} {
		t.Run(name, func(t *testing.T) {
			l := serve(t, echo)
			conn := l.dial(t)
			if strings.Contains(name, "whole session") || strings.Contains(name, "of a frame") ||
				name == "begin of a header" {
				// Within a session of the guest that has not noticed its end.
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				old := &kept{Conn: conn, closed: make(chan struct{})}
				s, err := Connect(ctx, old, Options{})
				if err != nil {
					t.Fatal(err)
				}
				roundTrip(t, s, random(1000))
				mustOpen(t, s)
				s.Close()
				<-old.closed
				// Its last read must not take what is for the next session.
				old.reading.Lock()
				old.over = true
				old.reading.Unlock()
				_ = conn.SetDeadline(time.Time{})
			}
			if _, err := conn.Write(before); err != nil {
				t.Fatal(err)
			}
			s := connect(t, conn)
			roundTrip(t, s, random(2*window))
		})
	}
}

// kept is a connection that stays open, as one between QEMU and the guest.
type kept struct {
	net.Conn
	closed  chan struct{}
	reading sync.Mutex
	over    bool
}

func (k *kept) Read(p []byte) (int, error) {
	k.reading.Lock()
	defer k.reading.Unlock()
	if k.over {
		return 0, net.ErrClosed
	}
	return k.Conn.Read(p)
}

func (k *kept) Close() error {
	defer close(k.closed)
	return k.SetDeadline(time.Unix(1, 0))
}

func TestHostsComeAndGo(t *testing.T) {
	ended := make(chan error, 100)
	l := serve(t, func(st *Stream) {
		defer st.Close()
		// More than the line takes: the guest's writes wait when the host goes.
		_, err := io.Copy(st, rand.Reader)
		ended <- err
	})
	for range 5 {
		s := connect(t, l.dial(t))
		st := mustOpen(t, s)
		if _, err := io.ReadFull(st, make([]byte, window)); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if _, err := st.Read(make([]byte, 1)); err != nil && !errors.Is(err, ErrSessionEnded) {
			t.Errorf("reading after the end: %v", err)
		}
		select {
		case err := <-ended:
			if !errors.Is(err, ErrSessionEnded) && !errors.Is(err, ErrStreamReset) {
				t.Errorf("the guest's stream ended with %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the guest's stream goes on without a host")
		}
	}
}

func TestSilenceEndsSession(t *testing.T) {
	l := serve(t, echo)
	s := connect(t, l.dial(t))
	go s.watch(5*time.Millisecond, time.Minute)
	roundTrip(t, s, random(10)) // pings do no harm

	host, guest := net.Pipe()
	defer guest.Close()
	dead := newSession(nil, host, nil)
	go func() { _, _ = io.Copy(io.Discard, guest) }()
	dead.watch(time.Millisecond, 30*time.Millisecond)
	if err := dead.Err(); !errors.Is(err, ErrSessionEnded) {
		t.Errorf("a silent guest: %v", err)
	}
}

func TestNoGuest(t *testing.T) {
	l := &line{hosts: make(chan net.Conn, 1)} // nobody serves
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Connect(ctx, l.dial(t), Options{}); !errors.Is(err, ErrNoGuest) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// What a guest may send to a host that trusts none of it.
func TestHostileGuest(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"opens a stream":       appendFrame(nil, frameOpen, 9, nil),
		"more than the window": appendFrame(appendFrame(nil, frameWindow, 1, []byte{0, 0, 0, 1}), framePong, 0, nil),
		"unknown type":         appendFrame(nil, 99, 0, nil),
		"large frame":          {mark0, mark1, byte(frameData), 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := &line{hosts: make(chan net.Conn, 1)}
			conn := l.dial(t)
			guest := <-l.hosts
			go func() {
				r := newReader(guest)
				if greetGuest(r, guest) != nil {
					return
				}
				_, _ = guest.Write(appendFrame(nil, framePong, 0, nil))
				if _, err := readFrame(r, make([]byte, maxPayload)); err == nil { // its stream
					_, _ = guest.Write(bytes)
				}
			}()
			s := connect(t, conn)
			mustOpen(t, s)
			select {
			case <-s.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("the session goes on")
			}
		})
	}
}
