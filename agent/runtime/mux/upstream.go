package mux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// upstreamTimeout is how long a runtime may take to accept a connection, and
// to read some kilobytes of requests. One that does not has no calls as frames.
const upstreamTimeout = time.Second

// upstream is a relay's connection to a runtime.
type upstream struct {
	relay *relay

	// Guarded by the relay's mu.
	ready        bool
	calls        map[uint32]struct{} // not yet answered
	maxCalls     uint32
	window       int64 // what the runtime takes of all streams
	streamWindow int64 // and of a new one
	conn         net.Conn
	raw          syscall.RawConn // of it
	closed       bool

	writing sync.Mutex // of the following, and to conn
	out     bytes.Buffer
	frames  *http2.Framer  // writes to out
	headers *hpack.Encoder // writes to block
	block   bytes.Buffer

	// Of answers.
	in       []byte // what was read is up to filled
	passed   int    // up to here it was sent to the kubelet, or is not for it
	seen     int    // up to here it is to be sent
	filled   int
	one      bytes.Reader  // the frame at seen
	control  *http2.Framer // reads from one
	consumed uint32        // and not yet given back
}

// connect begins to open a connection to the only runtime. The relay's mu is
// held.
func (r *relay) connect() *upstream {
	u := &upstream{relay: r, calls: map[uint32]struct{}{}, maxCalls: math.MaxUint32, window: firstWindow, streamWindow: firstWindow}
	u.frames = http2.NewFramer(&u.out, nil)
	u.headers = hpack.NewEncoder(&u.block)
	u.control = http2.NewFramer(nil, &u.one)
	u.in = make([]byte, 128<<10)
	s := primary(r.mux.all())
	endpoint, hangs, ended := s.Endpoint, s.hangs(), make(chan struct{})
	go func() {
		select {
		case <-hangs:
			u.close()
		case <-ended:
		}
	}()
	r.wg.Go(func() {
		defer close(ended)
		err := u.run(strings.TrimPrefix(endpoint, "unix://"))
		r.mux.o.Log.WithError(err).Debugf("the connection for calls that are handed on as frames to %s ended", endpoint)
		u.end()
	})
	return u
}

// run opens the connection and hands answers on until it ends.
func (u *upstream) run(socket string) error {
	conn, err := net.DialTimeout("unix", socket, upstreamTimeout)
	if err != nil {
		return err
	}
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	r := u.relay
	r.mu.Lock()
	u.conn, u.raw = conn, raw
	closed, size := r.closed || u.closed, r.streamWindow
	// Under the lock, so that no change of the window comes before.
	u.writing.Lock()
	r.mu.Unlock()
	defer conn.Close()
	if closed {
		u.writing.Unlock()
		return net.ErrClosed
	}
	u.out.WriteString(http2.ClientPreface)
	// Without a table of headers, those of answers mean the same to anybody.
	err = u.frames.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize}, http2.Setting{ID: http2.SettingEnablePush},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: size})
	if err == nil {
		err = u.frames.WriteWindowUpdate(0, maxWindow-firstWindow)
	}
	if err == nil {
		err = u.flush()
	}
	u.writing.Unlock()
	if err != nil {
		return err
	}
	return u.answers()
}

// end refuses what was not answered. To whom that is said, it means that the
// call may be made again; gRPC's clients do so once by themselves, and the
// server then says what is wrong with the runtime.
func (u *upstream) end() {
	r := u.relay
	r.mu.Lock()
	open := u.calls
	u.calls = nil
	if r.upstream == u {
		r.upstream = nil
	}
	r.mu.Unlock()
	for id := range open {
		if r.frame(func(w *http2.Framer) error { return w.WriteRSTStream(id, http2.ErrCodeRefusedStream) }) != nil {
			return // the kubelet is gone
		}
	}
}

func (u *upstream) close() {
	u.relay.mu.Lock()
	conn := u.conn
	u.closed = true
	u.relay.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // answers says what it ended by
	}
}

// take tells whether a call can be made, and counts it. The relay's mu is held.
func (u *upstream) take(id uint32, size int64) bool {
	if !u.ready || uint32(len(u.calls)) >= u.maxCalls || u.window < size || u.streamWindow < size {
		return false
	}
	u.window -= size
	u.calls[id] = struct{}{}
	return true
}

// begin makes a call.
func (u *upstream) begin(h *asked, request []byte) {
	_ = u.write(func(w *http2.Framer) error {
		u.block.Reset()
		for _, f := range h.fields {
			if err := u.headers.WriteField(f); err != nil {
				return err
			}
		}
		if err := writeHeaders(w, h.id, u.block.Bytes(), false); err != nil {
			return err
		}
		return w.WriteData(h.id, true, request)
	})
}

// write sends frames to the runtime. Where that fails the connection ends, and
// with it the calls.
func (u *upstream) write(frames func(*http2.Framer) error) error {
	u.writing.Lock()
	err := frames(u.frames)
	if err == nil {
		err = u.flush()
	}
	u.writing.Unlock()
	if err != nil {
		u.close()
	}
	return err
}

// flush sends what was written. writing is held.
func (u *upstream) flush() error {
	defer u.out.Reset()
	// One that hangs has not read much when the socket takes no more, and
	// the kubelet's other calls must not wait for it.
	var n int
	var failed error
	err := u.raw.Write(func(fd uintptr) bool {
		n, failed = syscall.Write(int(fd), u.out.Bytes())
		return true
	})
	if err = errors.Join(err, failed); err == nil && n < u.out.Len() {
		err = io.ErrShortWrite
	}
	return err
}

// answers hands on what the runtime sends: all that has come at once, from
// where it was read to, and before it waits for more.
func (u *upstream) answers() error {
	for {
		frame, err := u.next()
		if err != nil {
			return err
		}
		flags, id := http2.Flags(frame[4]), binary.BigEndian.Uint32(frame[5:])&(1<<31-1)
		switch kind, size := frameOf(frame); kind {
		case http2.FrameData:
			err = u.data(id, size, flags.Has(http2.FlagDataEndStream))
		case http2.FrameHeaders:
			err = u.headersOf(id, flags, frame)
		default:
			if err = u.skip(len(frame)); err == nil {
				err = u.about(frame)
			}
		}
		if err != nil {
			return err
		}
	}
}

// next returns the next frame. If it is not there yet, what is before it is
// sent first.
func (u *upstream) next() ([]byte, error) {
	for {
		if rest := u.in[u.seen:u.filled]; len(rest) >= frameHeader {
			_, size := frameOf(rest)
			if size > maxFrame {
				return nil, http2.ErrFrameTooLarge
			}
			if len(rest) >= frameHeader+size {
				return rest[:frameHeader+size], nil
			}
		}
		if err := u.pass(); err != nil {
			return nil, err
		}
		u.filled = copy(u.in, u.in[u.seen:u.filled])
		u.passed, u.seen = 0, 0
		n, err := u.conn.Read(u.in[u.filled:])
		if u.filled += n; err != nil {
			return nil, err
		}
	}
}

// pass sends what was seen to the kubelet.
func (u *upstream) pass() error {
	frames := u.in[u.passed:u.seen]
	u.passed = u.seen
	if len(frames) == 0 {
		return nil // pongs wait for an answer
	}
	return u.relay.send(frames)
}

// skip keeps the next n bytes from the kubelet.
func (u *upstream) skip(n int) error {
	err := u.pass()
	u.seen += n
	u.passed = u.seen
	return err
}

// data hands on a frame with a part of an answer.
func (u *upstream) data(id uint32, size int, last bool) error {
	if err := u.giveBack(size); err != nil {
		return err
	}
	if !u.open(id, last) {
		return u.skip(frameHeader + size)
	}
	if !u.relay.spend(size, false, true) {
		if err := u.pass(); err != nil {
			return err
		}
		if !u.relay.spend(size, true, true) {
			return net.ErrClosed
		}
	}
	u.seen += frameHeader + size
	return nil
}

// headersOf hands on the headers or the trailer of an answer.
func (u *upstream) headersOf(id uint32, flags http2.Flags, frame []byte) error {
	const usual = http2.FlagHeadersEndStream | http2.FlagHeadersEndHeaders
	block := frame[frameHeader:]
	// The first ones say that there is no table any more. To the kubelet
	// there is one, which is the server's.
	sized := len(block) > 0 && block[0] == emptyTable
	if sized {
		block = block[1:]
	}
	if flags&^usual != 0 || !flags.Has(http2.FlagHeadersEndHeaders) || !stateless(block) {
		u.relay.mu.Lock()
		u.relay.unfit = true
		u.relay.mu.Unlock()
		return fmt.Errorf("%w: headers that only its own reader understands", errUnfit)
	}
	last := flags.Has(http2.FlagHeadersEndStream)
	if !u.open(id, last) {
		return u.skip(len(frame))
	}
	if !sized {
		u.seen += len(frame)
		return nil
	}
	if err := u.skip(len(frame)); err != nil {
		return err
	}
	return u.relay.frame(func(w *http2.Framer) error { return writeHeaders(w, id, block, last) })
}

// open tells whether a call is still to be answered, and takes in that this is
// the last of it.
func (u *upstream) open(id uint32, last bool) bool {
	u.relay.mu.Lock()
	defer u.relay.mu.Unlock()
	_, open := u.calls[id]
	if last {
		delete(u.calls, id)
	}
	return open
}

// giveBack lets the runtime send again what it has sent.
func (u *upstream) giveBack(n int) error {
	if u.consumed += uint32(n); u.consumed < maxWindow/4 {
		return nil
	}
	n, u.consumed = int(u.consumed), 0
	return u.write(func(w *http2.Framer) error { return w.WriteWindowUpdate(0, uint32(n)) })
}

// about takes a frame that is no answer.
func (u *upstream) about(frame []byte) error {
	u.one.Reset(frame)
	read, err := u.control.ReadFrame()
	var wrong http2.StreamError
	if errors.As(err, &wrong) {
		err = u.write(func(w *http2.Framer) error { return w.WriteRSTStream(wrong.StreamID, wrong.Code) })
		return errors.Join(err, u.refuse(wrong.StreamID, http2.ErrCodeRefusedStream))
	}
	if err != nil {
		return err
	}
	switch f := read.(type) {
	case *http2.RSTStreamFrame:
		return u.refuse(f.StreamID, f.ErrCode)
	case *http2.PingFrame:
		if !f.IsAck() { // it goes along with the next call, as it is for the last
			u.writing.Lock()
			defer u.writing.Unlock()
			return u.frames.WritePing(true, f.Data)
		}
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 { // requests need no more of their own
			u.relay.mu.Lock()
			u.window += int64(f.Increment)
			u.relay.mu.Unlock()
		}
	case *http2.SettingsFrame:
		return u.settings(f)
	case *http2.GoAwayFrame:
		return u.leaving(f.LastStreamID)
	}
	return nil
}

// refuse ends a call.
func (u *upstream) refuse(id uint32, code http2.ErrCode) error {
	if !u.open(id, true) {
		return nil
	}
	return u.relay.frame(func(w *http2.Framer) error { return w.WriteRSTStream(id, code) })
}

// leaving refuses the calls that the runtime will not answer, and makes no more.
func (u *upstream) leaving(last uint32) error {
	var later []uint32
	u.relay.mu.Lock()
	u.ready = false
	for id := range u.calls {
		if id > last {
			later = append(later, id)
		}
	}
	u.relay.mu.Unlock()
	for _, id := range later {
		if err := u.refuse(id, http2.ErrCodeRefusedStream); err != nil {
			return err
		}
	}
	return nil
}

func (u *upstream) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	err := u.write(func(w *http2.Framer) error {
		if size, ok := f.Value(http2.SettingHeaderTableSize); ok {
			u.headers.SetMaxDynamicTableSizeLimit(size)
		}
		return w.WriteSettingsAck()
	})
	u.relay.mu.Lock()
	defer u.relay.mu.Unlock()
	u.ready = true
	if n, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
		u.maxCalls = n
	}
	if n, ok := f.Value(http2.SettingInitialWindowSize); ok {
		u.streamWindow = int64(n)
	}
	return err
}

// errUnfit says that a runtime's answers cannot be handed on as frames.
var errUnfit = errors.New("answers cannot be handed on as frames")

// emptyTable is how a block of headers says that its table is empty from here.
const emptyTable = 0x20

// stateless tells whether a block of headers means the same to anybody: it
// takes nothing from the table of a connection and leaves nothing there.
func stateless(block []byte) bool {
	// RFC 7541, 6. and 5.: the first bits say what a field is, and the rest
	// of the byte is the number of a name, or the length of a text.
	for len(block) > 0 {
		first, names := block[0], 1
		block = block[1:]
		switch {
		case first&0x80 != 0: // in the table; the first 61 are the same everywhere
			if first == 0x80 || first&0x7f > 61 {
				return false
			}
			continue
		case first&0xe0 != 0: // to be put there, or its size
			return false
		case first&0xf == 0xf: // a name by a number of 15 or more
			if len(block) == 0 || block[0] > 61-0xf {
				return false
			}
			block, names = block[1:], 0
		case first&0xf != 0:
			names = 0
		}
		for range names + 1 {
			n, used := textLength(block)
			if used == 0 || n > len(block)-used {
				return false
			}
			block = block[used+n:]
		}
	}
	return true
}

// textLength reads the length of a text, and of how many bytes it is; 0 if there
// is none.
func textLength(b []byte) (n, used int) {
	if len(b) == 0 {
		return 0, 0
	}
	if n = int(b[0] & 0x7f); n < 0x7f {
		return n, 1
	}
	for i := 1; i < len(b) && i < 4; i++ {
		n += int(b[i]&0x7f) << (7 * (i - 1))
		if b[i] < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}
