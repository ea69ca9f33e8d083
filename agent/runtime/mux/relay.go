package mux

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	frameHeader = 9
	// maxFrame is what both sides may send, as nobody allows more.
	maxFrame = 16 << 10
	// maxHeld is more than the requests need that are handed on as frames.
	maxHeld = 4 << 10
	// firstWindow is what each side may send before it is allowed more.
	firstWindow = 64<<10 - 1
	maxWindow   = 1<<31 - 1
	// pongsWait is nothing to who waits for a pong.
	pongsWait = 100 * time.Millisecond
)

// relays are the connections of the kubelet.
type relays struct {
	net.Listener
	mux *Mux
	wg  sync.WaitGroup // of what runs beside gRPC's server
}

// Accept implements net.Listener.
func (l *relays) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	r := &relay{Conn: conn, mux: l.mux, wg: &l.wg, in: bufio.NewReaderSize(conn, 32<<10), window: firstWindow, streamWindow: firstWindow}
	r.headers = hpack.NewEncoder(&r.block)
	r.frames = http2.NewFramer(&r.forServer, r.in)
	r.frames.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	r.changed = sync.NewCond(&r.mu)
	return r, nil
}

// relay is a connection of the kubelet as gRPC's server sees it. Calls that
// only read, and that one runtime answers by itself, are not seen by the
// server: their frames go to that runtime, and those of the answer back, before
// it is complete and without becoming a message. Of a call with a large answer
// that takes away most of what a second hop costs.
//
// Streams keep their numbers, so a runtime has a connection for each of the
// kubelet's, and both know of some of its streams. Each stream's window is
// between the kubelet and who answers; the window of the connection, which all
// share, is kept here. Whatever is unusual is left to the server.
type relay struct {
	net.Conn
	mux *Mux
	wg  *sync.WaitGroup

	// Of Read, which has one caller.
	in        *bufio.Reader
	greeted   bool
	frames    *http2.Framer // reads from in, writes to forServer
	forServer bytes.Buffer
	headers   *hpack.Encoder // writes to block
	block     bytes.Buffer
	held      *asked // a call that waits for its request
	taken     uint32 // of requests that the server did not see

	// Of Write, which has one caller.
	partial []byte // of a frame

	writing sync.Mutex // to Conn, whole frames at a time

	mu           sync.Mutex
	changed      *sync.Cond // window or closed
	window       int64      // what the kubelet takes of all streams
	borrowed     int64      // of it, what was sent without the server
	streamWindow uint32     // what the kubelet takes of a new stream
	upstream     *upstream  // nil while there is none
	unfit        bool       // there is to be none
	pongs        bytes.Buffer
	pongsDue     bool // at some time
	closed       bool
}

// asked is the beginning of a call.
type asked struct {
	id     uint32
	fields []hpack.HeaderField
	ended  bool
}

// Read gives frames to gRPC's server.
func (r *relay) Read(p []byte) (int, error) {
	for r.forServer.Len() == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	return r.forServer.Read(p)
}

// next reads one frame of the kubelet.
func (r *relay) next() error {
	if !r.greeted {
		r.greeted = true
		_, err := io.CopyN(&r.forServer, r.in, int64(len(http2.ClientPreface)))
		return err // not wrapped: gRPC compares it
	}
	if r.in.Buffered() == 0 && r.quiet() {
		if err := r.send(nil); err != nil {
			return err
		}
	}
	frame, err := r.frames.ReadFrame()
	var wrong http2.StreamError
	if err != nil && !errors.As(err, &wrong) {
		return err
	}
	if h := r.held; h != nil {
		r.held = nil
		if data, ok := frame.(*http2.DataFrame); ok && data.StreamID == h.id && data.StreamEnded() && r.ask(h, data.Data()) {
			return r.took(data.Length)
		}
		if err := r.begin(h); err != nil {
			return err
		}
	}
	if err != nil {
		return r.reset(wrong.StreamID, wrong.Code)
	}
	return r.route(frame)
}

// route hands a frame to whom it is for.
func (r *relay) route(frame http2.Frame) error {
	head := frame.Header()
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		h := &asked{head.StreamID, f.Fields, f.StreamEnded()}
		if !h.ended && r.short(f.PseudoValue("path")) != nil {
			r.held = h
			return nil
		}
		return r.begin(h)
	case *http2.DataFrame:
		var pad []byte
		if f.Flags.Has(http2.FlagDataPadded) {
			pad = make([]byte, int(f.Length)-len(f.Data())-1)
		}
		return r.frames.WriteDataPadded(f.StreamID, f.StreamEnded(), f.Data(), pad)
	case *http2.SettingsFrame:
		return r.settings(f)
	case *http2.PingFrame:
		if f.IsAck() {
			return r.frames.WritePing(true, f.Data)
		}
		return r.pong(f.Data)
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			if own := r.granted(int64(f.Increment)); own > 0 {
				return r.frames.WriteWindowUpdate(0, own)
			}
			return nil
		}
		if u := r.answering(f.StreamID, false); u != nil {
			_ = u.write(func(w *http2.Framer) error { return w.WriteWindowUpdate(f.StreamID, f.Increment) })
			return nil
		}
		return r.frames.WriteWindowUpdate(f.StreamID, f.Increment)
	case *http2.RSTStreamFrame:
		if u := r.answering(f.StreamID, true); u != nil {
			_ = u.write(func(w *http2.Framer) error { return w.WriteRSTStream(f.StreamID, f.ErrCode) })
			return nil
		}
		return r.frames.WriteRSTStream(f.StreamID, f.ErrCode)
	case *http2.GoAwayFrame:
		return r.frames.WriteGoAway(f.LastStreamID, f.ErrCode, f.DebugData())
	case *http2.UnknownFrame:
		return r.frames.WriteRawFrame(f.Type, f.Flags, f.StreamID, f.Payload())
	}
	return nil // priorities, which gRPC does not have
}

// short returns the runtime that gets the call as frames, nil if none does.
func (r *relay) short(method string) *service {
	switch kindOf(method) {
	case listAll, listUnique, listImages, listFS:
	default:
		if !reads(method) {
			return nil
		}
	}
	all := r.mux.all()
	if len(all) > 1 {
		return nil
	}
	select {
	case <-all[0].hangs():
		return nil
	default:
		return all[0]
	}
}

// ask hands a call on; false if that is for the server to do.
func (r *relay) ask(h *asked, request []byte) bool {
	if len(request) > maxHeld {
		return false
	}
	r.mu.Lock()
	u := r.upstream
	ok := u != nil && u.take(h.id, int64(len(request)))
	if u == nil && !r.closed && !r.unfit {
		u = r.connect()
		r.upstream = u
	}
	r.mu.Unlock()
	if ok {
		u.begin(h, request)
	}
	return ok
}

// took gives the kubelet back what it spent of the server's window.
func (r *relay) took(n uint32) error {
	if r.taken += n; r.taken < maxFrame {
		return nil
	}
	n, r.taken = r.taken, 0
	return r.frame(func(w *http2.Framer) error { return w.WriteWindowUpdate(0, n) })
}

// pong answers a ping. gRPC's clients measure their answers with them; its
// server would take them for an attack, as it sees no calls to go with them.
// While a runtime works at an answer the pong waits for it, though not long.
func (r *relay) pong(data [8]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.pongsDue {
		r.pongsDue = true
		time.AfterFunc(pongsWait, func() {
			r.mu.Lock()
			r.pongsDue = false
			r.mu.Unlock()
			_ = r.send(nil) // who reads hears of it too
		})
	}
	return http2.NewFramer(&r.pongs, nil).WritePing(true, data)
}

// quiet tells whether no answer will take the pongs along.
func (r *relay) quiet() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pongs.Len() > 0 && (r.upstream == nil || len(r.upstream.calls) == 0)
}

// begin hands the beginning of a call, or its trailer, to the server.
func (r *relay) begin(h *asked) error {
	r.block.Reset()
	for _, f := range h.fields {
		if err := r.headers.WriteField(f); err != nil {
			return fmt.Errorf("headers of a call: %w", err)
		}
	}
	return writeHeaders(r.frames, h.id, r.block.Bytes(), h.ended)
}

// writeHeaders writes headers in as many frames as that takes.
func writeHeaders(w *http2.Framer, id uint32, block []byte, end bool) error {
	part := block[:min(len(block), maxFrame)]
	block = block[len(part):]
	err := w.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: part, EndStream: end, EndHeaders: len(block) == 0})
	for len(block) > 0 && err == nil {
		part, block = block[:min(len(block), maxFrame)], block[min(len(block), maxFrame):]
		err = w.WriteContinuation(id, len(block) == 0, part)
	}
	return err
}

func (r *relay) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return r.frames.WriteSettingsAck()
	}
	var all []http2.Setting
	for i := range f.NumSettings() {
		all = append(all, f.Setting(i))
	}
	if size, ok := f.Value(http2.SettingInitialWindowSize); ok {
		r.mu.Lock()
		r.streamWindow = size
		u := r.upstream
		connected := u != nil && u.conn != nil
		r.mu.Unlock()
		if connected {
			_ = u.write(func(w *http2.Framer) error {
				return w.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: size})
			})
		}
	}
	return r.frames.WriteSettings(all...)
}

// reset ends a stream on which the kubelet sent what it must not.
func (r *relay) reset(id uint32, code http2.ErrCode) error {
	if u := r.answering(id, true); u != nil {
		_ = u.write(func(w *http2.Framer) error { return w.WriteRSTStream(id, code) })
	} else if err := r.frames.WriteRSTStream(id, code); err != nil {
		return err
	}
	return r.frame(func(w *http2.Framer) error { return w.WriteRSTStream(id, code) })
}

// answering returns the connection that answers the stream, nil if it is the
// server; done says that it is to do so no longer.
func (r *relay) answering(id uint32, done bool) *upstream {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.upstream
	if u == nil {
		return nil
	}
	if _, open := u.calls[id]; !open {
		return nil
	}
	if done {
		delete(u.calls, id)
	}
	return u
}

// granted takes in that the kubelet takes more, and returns how much of that
// is the server's to send.
func (r *relay) granted(n int64) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.window += n
	back := min(n, r.borrowed)
	r.borrowed -= back
	r.changed.Broadcast()
	return uint32(n - back)
}

// spend takes n of the kubelet's window. If it has less, it is waited for, or
// false returned.
func (r *relay) spend(n int, wait, borrow bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.window < int64(n) && n > 0 {
		if !wait || r.closed {
			return false
		}
		r.changed.Wait()
	}
	r.window -= int64(n)
	if borrow {
		r.borrowed += int64(n)
	}
	return true
}

// Write takes frames of gRPC's server, whose flushes end where frames do.
func (r *relay) Write(p []byte) (int, error) {
	n := len(p)
	if len(r.partial) > 0 {
		r.partial = append(r.partial, p...)
		p = r.partial
	}
	whole := 0
	for len(p)-whole >= frameHeader {
		kind, size := frameOf(p[whole:])
		if len(p)-whole < frameHeader+size {
			break
		}
		if kind == http2.FrameData && !r.spend(size, false, false) {
			if err := r.send(p[:whole]); err != nil {
				return 0, err
			}
			p, whole = p[whole:], 0
			if !r.spend(size, true, false) {
				return 0, net.ErrClosed
			}
		}
		whole += frameHeader + size
	}
	if err := r.send(p[:whole]); err != nil {
		return 0, err
	}
	r.partial = append(r.partial[:0], p[whole:]...)
	return n, nil
}

// frameOf reads the head of a frame.
func frameOf(head []byte) (kind http2.FrameType, size int) {
	return http2.FrameType(head[3]), int(binary.BigEndian.Uint32(head) >> 8)
}

// send sends whole frames to the kubelet, and pongs that wait for it.
func (r *relay) send(frames []byte) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	pongs := bytes.Clone(r.pongs.Bytes())
	r.pongs.Reset()
	r.mu.Unlock()
	var err error
	switch {
	case len(pongs) == 0 && len(frames) > 0:
		_, err = r.Conn.Write(frames)
	case len(pongs) > 0:
		_, err = (&net.Buffers{frames, pongs}).WriteTo(r.Conn)
	}
	return err
}

// frame sends a frame of the relay's own to the kubelet.
func (r *relay) frame(write func(*http2.Framer) error) error {
	var out bytes.Buffer
	if err := write(http2.NewFramer(&out, nil)); err != nil {
		return err
	}
	return r.send(out.Bytes())
}

// Close ends the connection, and what it has with a runtime.
func (r *relay) Close() error {
	r.mu.Lock()
	r.closed = true
	u := r.upstream
	r.changed.Broadcast()
	r.mu.Unlock()
	if u != nil {
		u.close()
	}
	return r.Conn.Close()
}
