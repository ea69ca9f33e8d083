package spaces_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"
)

// probeVariable hands a probe's process its work.
const probeVariable = "A4S_OVERLOAD_PROBE"

// probeWindow is what a server may send without being asked for more.
const probeWindow = 1 << 30

// TestOverloadProbe is the body of a process that sends a request every so often,
// whatever becomes of the ones before, on one connection. What it measures is
// what a client elsewhere has to wait: from when a request is handed to the kernel
// until the kernel has received the end of the answer. Sending does not wait for a
// processor, and receiving takes none from the server: a client that preempts the
// server that wakes it by the first half of an answer waits for the second half
// until the server has a processor again. Should the reader be late by more than a
// request, the kernel may tell of a later packet, so it errs to the long side.
func TestOverloadProbe(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv(probeVariable))
	if err != nil {
		t.Skip("this is for processes that TestOverload starts")
	}
	var w overloadWork
	if err := json.NewDecoder(os.Stdin).Decode(&w); err != nil {
		t.Fatal(err)
	}
	p, err := w.probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.conn.Close() //nolint:errcheck // nothing is lost
	received := make(chan error, 1)
	go func() { received <- p.receive(int(d / w.Every)) }()
	if err := p.send(w, int(d/w.Every)); err != nil {
		t.Fatal(err)
	}
	if err := <-received; err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(p.report)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(out))
}

// probe is a client of HTTP/2 that knows when a packet arrived.
type probe struct {
	conn      *tls.Conn
	authority string // of the server
	stamps    *stamped
	mu        sync.Mutex // of writing
	framer    *http2.Framer
	headers   *hpack.Encoder
	block     bytes.Buffer
	sent      map[uint32]time.Time // by the stream
	report    overloadReport       // of who receives
}

func (w *overloadWork) probe(ctx context.Context) (*probe, error) {
	to, err := url.Parse(w.Host)
	if err != nil {
		return nil, err
	}
	secure, err := w.secure()
	if err != nil {
		return nil, err
	}
	secure.NextProtos, secure.ServerName = []string{http2.NextProtoTLS}, to.Hostname()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", to.Host)
	if err != nil {
		return nil, err
	}
	stamps, err := newStamped(raw.(*net.TCPConn))
	if err != nil {
		return nil, err
	}
	p := &probe{conn: tls.Client(stamps, secure), authority: to.Host, stamps: stamps, sent: map[uint32]time.Time{},
		report: overloadReport{Codes: map[int]int{}}}
	if err := p.conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	p.framer, p.headers = http2.NewFramer(p.conn, p.conn), hpack.NewEncoder(&p.block)
	p.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := p.conn.Write([]byte(http2.ClientPreface)); err != nil {
		return nil, err
	}
	if err := p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: probeWindow}); err != nil {
		return nil, err
	}
	return p, p.framer.WriteWindowUpdate(0, probeWindow)
}

// send sends so many requests, in time.
func (p *probe) send(w overloadWork, n int) error {
	runtime.LockOSThread() // and the thread ends with it
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1}, 0); err != nil {
		return err
	}
	next := time.Now()
	for i := range uint32(n) {
		for left := time.Until(next); left > 0; left = time.Until(next) {
			pause := unix.NsecToTimespec(int64(left))
			if err := unix.Nanosleep(&pause, nil); err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
		}
		next = next.Add(w.Every)
		if err := p.request(w, 2*i+1); err != nil {
			return err
		}
	}
	return nil
}

func (p *probe) request(w overloadWork, stream uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.block.Reset()
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: w.Method}, {Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: p.authority}, {Name: ":path", Value: w.Path},
	} {
		if err := p.headers.WriteField(f); err != nil {
			return err
		}
	}
	p.sent[stream] = time.Now()
	return p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.block.Bytes(),
		EndStream: true, EndHeaders: true})
}

// receive reads so many answers.
func (p *probe) receive(n int) error {
	for n > 0 {
		f, err := p.framer.ReadFrame()
		if err != nil {
			return err
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			var code int
			if _, err := fmt.Sscan(f.PseudoValue("status"), &code); err != nil {
				return err
			}
			p.report.Codes[code]++
		case *http2.DataFrame:
			if !f.StreamEnded() {
				continue
			}
			n--
			p.mu.Lock()
			p.report.Latencies = append(p.report.Latencies, p.stamps.last.Sub(p.sent[f.StreamID]))
			delete(p.sent, f.StreamID)
			p.mu.Unlock()
		case *http2.SettingsFrame:
			if f.IsAck() {
				continue
			}
			p.mu.Lock()
			err := p.framer.WriteSettingsAck()
			p.mu.Unlock()
			if err != nil {
				return err
			}
		case *http2.GoAwayFrame, *http2.RSTStreamFrame:
			return fmt.Errorf("the server sent %v", f)
		}
	}
	return nil
}

// stamped is a connection that says when the kernel received what was read last.
// It reads no further than to the end of a record of TLS, so that this is not when
// something else arrived.
type stamped struct {
	*net.TCPConn
	raw  syscall.RawConn
	last time.Time

	header [5]byte // of the record that is read
	at     int     // how much of it is known
	left   int     // what of the record is to come after that
}

func newStamped(c *net.TCPConn) (*stamped, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = errors.Join(unix.SetNonblock(int(fd), false),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1))
	}); err != nil {
		return nil, err
	}
	return &stamped{TCPConn: c, raw: raw}, failed
}

// Read implements net.Conn.
func (s *stamped) Read(p []byte) (n int, err error) {
	most := s.left
	if s.at < len(s.header) {
		most = len(s.header) - s.at
	}
	p = p[:min(len(p), most)]
	var with [64]byte
	var oob int
	if waited := s.raw.Read(func(fd uintptr) bool {
		n, oob, _, _, err = unix.Recvmsg(int(fd), p, with[:], 0)
		return !errors.Is(err, unix.EINTR)
	}); waited != nil {
		return 0, waited
	}
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	if s.at < len(s.header) {
		if s.at += copy(s.header[s.at:], p[:n]); s.at == len(s.header) {
			s.left = int(binary.BigEndian.Uint16(s.header[3:]))
		}
	} else if s.left -= n; s.left == 0 {
		s.at = 0
	}
	return n, s.stamp(with[:oob])
}

func (s *stamped) stamp(with []byte) error {
	messages, err := unix.ParseSocketControlMessage(with)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			s.last = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)),
				int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	return nil
}
