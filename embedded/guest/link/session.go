package link

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Why a stream or a session ended.
var (
	// ErrSessionEnded says that the connection is gone, and all its streams.
	ErrSessionEnded = errors.New("session ended")
	// ErrStreamClosed says that this side closed the stream.
	ErrStreamClosed = errors.New("stream closed")
	// ErrStreamReset says that the other side did.
	ErrStreamReset = errors.New("stream closed by the other side")
	// ErrBusy says that there are too many streams.
	ErrBusy = errors.New("too many streams")
)

// What a session has at most: streams, and bytes of control frames that wait
// because the peer does not read.
const (
	maxStreams = 2048
	maxQueued  = 1 << 20
)

// Session is a connection while it lasts.
type Session struct {
	r      *bufio.Reader
	w      io.Writer
	accept func(*Stream) // nil on the host's side

	out     chan outgoing
	done    chan struct{} // closed when the session ended
	written chan struct{} // closed when nothing is written any more

	mu       sync.Mutex
	queued   []byte        // control frames to be written
	wake     chan struct{} // holds a token while there are some
	streams  map[uint32]*Stream
	next     uint32
	err      error
	received time.Time
}

// outgoing is data that waits for its turn.
type outgoing struct {
	stream  uint32
	payload []byte
	written chan<- error
}

func newSession(r *bufio.Reader, w io.Writer, accept func(*Stream)) *Session {
	s := &Session{
		r: r, w: w, accept: accept,
		out: make(chan outgoing), done: make(chan struct{}), written: make(chan struct{}),
		wake: make(chan struct{}, 1), streams: map[uint32]*Stream{}, received: time.Now(),
	}
	go s.writeLoop()
	return s
}

// Open opens a stream.
func (s *Session) Open() (*Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if len(s.streams) >= maxStreams {
		return nil, ErrBusy
	}
	s.next++
	st := newStream(s, s.next)
	s.streams[st.id] = st
	s.queue(frameOpen, st.id, nil)
	return st, nil
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// end ends the session and all its streams.
func (s *Session) end(cause error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = fmt.Errorf("%w: %w", ErrSessionEnded, cause)
	streams := s.streams
	s.streams = nil
	close(s.done)
	s.mu.Unlock()
	for _, st := range streams {
		st.fail(s.err)
	}
}

func (s *Session) forget(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, id)
}

func (s *Session) stream(id uint32) *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[id]
}

// control queues a frame that needs no credit. It never waits.
func (s *Session) control(kind frameType, stream uint32, payload []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue(kind, stream, payload)
}

// queue is control with the lock held.
func (s *Session) queue(kind frameType, stream uint32, payload []byte) {
	s.queued = appendFrame(s.queued, kind, stream, payload)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// data writes a frame of data when it is its turn.
func (s *Session) data(st *Stream, p []byte) error {
	written := make(chan error, 1)
	select {
	case s.out <- outgoing{st.id, p, written}:
	case <-s.done:
		return s.Err()
	}
	select {
	case err := <-written:
		return err
	case <-s.written:
		// The write may have been the last one.
		select {
		case err := <-written:
			return err
		default:
			return s.Err()
		}
	}
}

// writeLoop writes all there is to be written.
func (s *Session) writeLoop() {
	defer close(s.written)
	var buf []byte
	for {
		var next outgoing
		select {
		case <-s.done:
			return
		case <-s.wake:
		case next = <-s.out:
		}
		// Control frames first: among them is the opening of the stream.
		s.mu.Lock()
		buf = append(buf[:0], s.queued...)
		s.queued = s.queued[:0]
		s.mu.Unlock()
		if next.written != nil {
			buf = appendFrame(buf, frameData, next.stream, next.payload)
		}
		var err error
		if len(buf) > 0 {
			_, err = s.w.Write(buf)
		}
		if err != nil {
			s.end(err)
			err = s.Err()
		}
		if next.written != nil {
			next.written <- err
		}
		if err != nil {
			return
		}
	}
}

// readLoop handles what the peer sends until the session ends.
func (s *Session) readLoop() error {
	buf := make([]byte, maxPayload)
	for {
		f, err := readFrame(s.r, buf)
		if err == nil {
			err = s.handle(f)
		}
		if err != nil {
			s.end(err)
			return err
		}
	}
}

func (s *Session) handle(f frame) error {
	s.mu.Lock()
	s.received = time.Now()
	queued := len(s.queued)
	s.mu.Unlock()
	if queued > maxQueued {
		return fmt.Errorf("%w: the other side sends and does not read", errFrame)
	}
	switch f.kind {
	case framePing:
		s.control(framePong, 0, nil)
	case framePong:
	case frameOpen:
		return s.opened(f.stream)
	case frameData, frameWindow, frameFin, frameReset:
		// A stream that is not there was closed on this side; the other may
		// not know yet.
		if st := s.stream(f.stream); st != nil {
			return s.deliver(st, f)
		}
	default:
		return fmt.Errorf("%w: type %d", errFrame, f.kind)
	}
	return nil
}

func (s *Session) opened(id uint32) error {
	if s.accept == nil {
		return fmt.Errorf("%w: the guest opens a stream", errFrame)
	}
	s.mu.Lock()
	if s.streams == nil || s.streams[id] != nil {
		s.mu.Unlock()
		return fmt.Errorf("%w: stream %d opened again", errFrame, id)
	}
	if len(s.streams) >= maxStreams {
		s.queue(frameReset, id, nil)
		s.mu.Unlock()
		return nil
	}
	st := newStream(s, id)
	s.streams[id] = st
	s.mu.Unlock()
	go s.accept(st)
	return nil
}

func (s *Session) deliver(st *Stream, f frame) error {
	ok := true
	switch f.kind {
	case frameData:
		ok = st.receive(f.payload)
	case frameWindow:
		ok = len(f.payload) == 4 && st.grant(binary.BigEndian.Uint32(f.payload))
	case frameFin:
		if st.receiveFin() {
			s.forget(st.id)
		}
	case frameReset:
		s.forget(st.id)
		st.fail(ErrStreamReset)
	}
	if !ok {
		return fmt.Errorf("%w: stream %d takes more than its window", errFrame, st.id)
	}
	return nil
}

// watch sends pings, and ends the session if nothing at all comes back.
func (s *Session) watch(every, patience time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		silent := time.Since(s.received)
		if silent < patience {
			s.queue(framePing, 0, nil)
		}
		s.mu.Unlock()
		if silent >= patience {
			s.end(fmt.Errorf("nothing heard for %v", silent.Round(time.Second)))
			return
		}
	}
}
