package link

import (
	"encoding/binary"
	"io"
	"sync"
)

// window is how many bytes of a stream may be under way unread.
const window = 128 << 10

// Stream is one of the byte streams of a session, in both directions.
type Stream struct {
	s  *Session
	id uint32

	mu       sync.Mutex
	changed  *sync.Cond
	in       []byte // received and not read
	owed     int    // read and not yet granted to the peer again
	credit   int    // what the peer lets us send
	eof      bool   // the peer sends no more
	finished bool   // we send no more
	err      error  // the stream is over
}

func newStream(s *Session, id uint32) *Stream {
	st := &Stream{s: s, id: id, credit: window}
	st.changed = sync.NewCond(&st.mu)
	return st
}

// Read implements io.Reader. At the end of what the peer sends it is io.EOF.
func (st *Stream) Read(p []byte) (int, error) {
	st.mu.Lock()
	for len(st.in) == 0 && !st.eof && st.err == nil {
		st.changed.Wait()
	}
	if len(st.in) == 0 {
		defer st.mu.Unlock()
		if st.eof {
			return 0, io.EOF
		}
		return 0, st.err
	}
	n := copy(p, st.in)
	st.in = st.in[n:]
	if len(st.in) == 0 {
		st.in = nil
	}
	st.owed += n
	grant := 0
	if st.owed >= window/2 && !st.eof && st.err == nil {
		grant, st.owed = st.owed, 0
	}
	st.mu.Unlock()
	if grant > 0 {
		st.s.control(frameWindow, st.id, binary.BigEndian.AppendUint32(nil, uint32(grant)))
	}
	return n, nil
}

// Write implements io.Writer. It waits while the peer does not read.
func (st *Stream) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := st.take(len(p) - done)
		if err != nil {
			return done, err
		}
		if err := st.s.data(st, p[done:done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// take waits for credit and uses up to n of it.
func (st *Stream) take(n int) (int, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.credit == 0 && st.err == nil && !st.finished {
		st.changed.Wait()
	}
	switch {
	case st.err != nil:
		return 0, st.err
	case st.finished:
		return 0, ErrStreamClosed
	}
	n = min(n, st.credit, maxPayload)
	st.credit -= n
	return n, nil
}

// CloseWrite tells the peer that nothing more is sent. No Write may be under way.
func (st *Stream) CloseWrite() error {
	st.mu.Lock()
	if st.err != nil || st.finished {
		defer st.mu.Unlock()
		return st.err
	}
	st.finished = true
	over := st.eof
	st.changed.Broadcast()
	st.mu.Unlock()
	st.s.control(frameFin, st.id, nil)
	if over {
		st.s.forget(st.id)
	}
	return nil
}

// Close ends the stream in both directions. What was written before a
// CloseWrite still arrives.
func (st *Stream) Close() error {
	st.mu.Lock()
	if st.err != nil {
		st.mu.Unlock()
		return nil
	}
	over := st.eof && st.finished
	st.err = ErrStreamClosed
	st.in = nil
	st.changed.Broadcast()
	st.mu.Unlock()
	st.s.forget(st.id)
	if !over {
		st.s.control(frameReset, st.id, nil)
	}
	return nil
}

// fail ends the stream for the given reason. What was received can be read.
func (st *Stream) fail(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err == nil {
		st.err = err
		st.changed.Broadcast()
	}
}

// receive takes data of the peer; false says that it sent more than it may.
func (st *Stream) receive(p []byte) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err != nil {
		return true
	}
	if st.eof || len(st.in)+st.owed+len(p) > window {
		return false
	}
	st.in = append(st.in, p...)
	st.changed.Broadcast()
	return true
}

// receiveFin notes that the peer sends no more. It returns whether the stream
// is over in both directions.
func (st *Stream) receiveFin() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.eof = true
	st.changed.Broadcast()
	return st.finished
}

// grant adds credit; false says that it is more than there can be.
func (st *Stream) grant(n uint32) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if n > window || st.credit+int(n) > window {
		return false
	}
	st.credit += int(n)
	st.changed.Broadcast()
	return true
}
