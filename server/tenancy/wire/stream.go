package wire

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"sync"
)

const protoMedia = "application/vnd.kubernetes.protobuf"

// Stream is an answer that is translated while it is written. What is written
// to it is not kept.
type Stream interface {
	io.WriteCloser
	// Flush hands on what was translated. Without it that is done in large
	// pieces.
	Flush() error
}

// Stream translates an answer outwards while it is written to what Stream
// returns. After an error nothing more is written to w. Media is the media
// type of the answer, its parameters do not matter.
func (p *Projector) Stream(media string, r Resource, watch bool, w io.Writer) (Stream, error) {
	base, _, err := mime.ParseMediaType(media)
	if err != nil {
		return nil, fmt.Errorf("the media type %q cannot be read: %w", media, err)
	}
	switch {
	case base == protoMedia:
		return newProtoStream(p, r, watch, w), nil
	case base == "application/json" && watch:
		return &jsonWatch{t: p.json(Out, r), pieces: pieces{w: w}}, nil
	case base == "application/json":
		return &jsonList{p: p, t: p.json(Out, r), pieces: pieces{w: w}}, nil
	case base == "application/yaml" && !watch:
		return &yamlAnswer{p: p, r: r, w: w}, nil
	}
	return nil, fmt.Errorf("answers of the media type %q cannot be translated", media)
}

// Events is Stream for a watch that is carried in messages: each event is a
// write to w of its own, without what tells events apart in a stream of bytes.
// As text they go on if their media type is one of text.
func (p *Projector) Events(media string, r Resource, w io.Writer) (s Stream, text bool, err error) {
	if s, err = p.Stream(media, r, true, w); err != nil {
		return nil, false, err
	}
	switch s := s.(type) {
	case *jsonWatch:
		s.apart, text = true, true
	case *protoWatch:
		s.apart = true
	}
	return s, text, nil
}

const (
	// pieceSize is how much is gathered before it is handed on: each piece has
	// a price in HTTP/2 and TLS.
	pieceSize = 32 << 10
	// pieceRoom is how much a piece gets by what comes last.
	pieceRoom = 8 << 10
)

// spare are buffers for pieces. A watch that waits for events has none.
var spare = sync.Pool{New: func() any { return new([pieceSize + pieceRoom]byte) }}

// pieces gathers what is translated, in out, and hands it on in large pieces.
type pieces struct {
	w   io.Writer
	out []byte
	own *[pieceSize + pieceRoom]byte
	// apart has each event handed on by itself.
	apart bool
}

// room is where to append to; what is returned must be put back in out.
func (p *pieces) room() []byte {
	if p.out == nil {
		p.own = spare.Get().(*[pieceSize + pieceRoom]byte) //nolint:errcheck // nothing else is in it
		p.out = p.own[:0]
	}
	return p.out
}

// passOn hands on a piece that is large enough.
func (p *pieces) passOn() error {
	if len(p.out) < pieceSize {
		return nil
	}
	_, err := p.w.Write(p.out)
	p.out = p.out[:0]
	return err
}

// flush hands on everything and gives the buffer back.
func (p *pieces) flush() error {
	var err error
	if len(p.out) > 0 {
		_, err = p.w.Write(p.out)
	}
	if p.own != nil {
		spare.Put(p.own)
	}
	p.out, p.own = nil, nil
	return err
}

// yamlAnswer holds the whole answer: YAML cannot be translated in parts.
type yamlAnswer struct {
	p   *Projector
	r   Resource
	w   io.Writer
	buf bytes.Buffer
}

// Write implements io.Writer.
func (s *yamlAnswer) Write(b []byte) (int, error) { return s.buf.Write(b) }

// Flush implements Stream.
func (s *yamlAnswer) Flush() error { return nil }

// Close implements io.Closer: it writes the answer.
func (s *yamlAnswer) Close() error {
	out, err := s.p.YAML(s.r, s.buf.Bytes())
	if err == nil {
		_, err = s.w.Write(out)
	}
	return err
}

// splitter finds out where values of JSON end in what comes in pieces.
type splitter struct {
	depth            int
	inString, escape bool
}

// scan goes on through b[from:] until stop says so, and says where: it is
// asked about every byte outside of strings, with the depth after opening and
// before closing brackets. Without a stop it returns len(b), false.
func (s *splitter) scan(b []byte, from int, stop func(c byte, depth int) bool) (int, bool) {
	for i := from; i < len(b); i++ {
		c := b[i]
		if s.inString {
			switch {
			case s.escape:
				s.escape = false
			case c == '\\':
				s.escape = true
			case c == '"':
				s.inString = false
			}
			continue
		}
		switch c {
		case '"':
			s.inString = true
		case '{', '[':
			s.depth++
			if s.depth <= 2 && stop(c, s.depth) {
				return i, true
			}
		case '}', ']':
			if s.depth <= 2 && stop(c, s.depth) {
				s.depth--
				return i, true
			}
			s.depth--
		case ',':
			if s.depth <= 2 && stop(c, s.depth) {
				return i, true
			}
		}
	}
	return len(b), false
}

// jsonWatch translates the events of a watch, each as soon as it is complete.
type jsonWatch struct {
	pieces
	t   *translation
	err error
	// buf is what is there of an event that is not complete. Split looks for
	// its end and went over the first scanned bytes.
	buf     []byte
	split   splitter
	scanned int
}

// Write implements io.Writer.
func (s *jsonWatch) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	src := b
	if len(s.buf) > 0 {
		s.buf = append(s.buf, b...)
		src = s.buf
	}
	from, err := s.events(src)
	if err == nil {
		err = s.passOn()
	}
	if err != nil {
		return 0, s.fail(err)
	}
	s.buf = keep(s.buf, src[from:])
	return len(b), nil
}

// fail hands on the events before the one that the error is about.
func (s *jsonWatch) fail(err error) error {
	s.err = err
	s.flush() //nolint:errcheck // there is an error already
	return err
}

// keep puts what was not used in a buffer, of which it may be a part.
func keep(buf, rest []byte) []byte {
	return append(buf[:0], rest...)
}

// events writes the events that are complete and says where the next begins.
// Most often an event is written at once, so its end is not looked for.
func (s *jsonWatch) events(src []byte) (from int, err error) {
	for {
		if s.scanned == 0 {
			if from += blanks(src[from:]); from == len(src) {
				return from, nil
			}
			n, complete, err := s.event(src[from:])
			if err != nil {
				return 0, err
			}
			if from += n; complete {
				continue
			}
			s.split, s.scanned = splitter{}, from
		}
		end, ok := s.split.scan(src, s.scanned, func(c byte, depth int) bool {
			return depth <= 1 && (c == '}' || c == ']')
		})
		if !ok {
			s.scanned = len(src) - from
			return from, nil
		}
		if _, complete, err := s.event(src[from : end+1]); err != nil {
			return 0, err
		} else if !complete {
			return 0, fmt.Errorf("%w: an event cannot be read", ErrMalformed)
		}
		from, s.scanned = end+1, 0
	}
}

// blanks is how much white space there is at the beginning.
func blanks(b []byte) int {
	for i, c := range b {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return i
		}
	}
	return len(b)
}

// event appends the event at the beginning of b to the output and tells how
// long it was, or that it is not complete.
func (s *jsonWatch) event(b []byte) (n int, complete bool, err error) {
	t := s.t
	t.begin(b, s.room())
	if t.peek() != '{' {
		t.malformed("an event was expected")
		return 0, false, t.err
	}
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		if string(key) == "object" {
			t.document(true)
			continue
		}
		t.skip()
	}
	if t.err != nil {
		if t.cutOff() {
			return 0, false, nil
		}
		return 0, false, t.err
	}
	t.flush(t.pos)
	n, s.out = t.pos, append(t.dst, '\n')
	if s.apart {
		err = s.flush()
	}
	t.scanner = scanner{} // a watch that waits must not hold what an event was written to
	return n, true, err
}

// Flush implements Stream.
func (s *jsonWatch) Flush() error {
	if len(s.buf) == 0 {
		s.buf = nil
	}
	if s.err == nil {
		s.err = s.flush()
	}
	return s.err
}

// Close implements io.Closer.
func (s *jsonWatch) Close() error {
	if s.err == nil && blanks(s.buf) < len(s.buf) {
		s.err = fmt.Errorf("%w: the stream ends within an event", ErrMalformed)
	}
	return s.Flush()
}
