package wire

import (
	"bytes"
	"fmt"
	"io"
	"mime"
)

const protoMedia = "application/vnd.kubernetes.protobuf"

// Stream translates an answer outwards while it is written to what Stream
// returns. After an error nothing more is written to w. Media is the media
// type of the answer, its parameters do not matter.
func (p *Projector) Stream(media string, r Resource, watch bool, w io.Writer) (io.WriteCloser, error) {
	base, _, err := mime.ParseMediaType(media)
	if err != nil {
		return nil, fmt.Errorf("the media type %q cannot be read: %w", media, err)
	}
	switch {
	case base == protoMedia:
		return newProtoStream(p, r, watch, w), nil
	case base == "application/json" && watch:
		return &jsonWatch{t: p.json(Out, r), w: w}, nil
	case base == "application/json":
		return &jsonList{p: p, t: p.json(Out, r), w: w}, nil
	case base == "application/yaml" && !watch:
		return &yamlAnswer{p: p, r: r, w: w}, nil
	}
	return nil, fmt.Errorf("answers of the media type %q cannot be translated", media)
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

// Close implements io.Closer: it writes the answer.
func (s *yamlAnswer) Close() error {
	out, err := s.p.YAML(Out, s.r, s.buf.Bytes())
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

// scan goes on through b[from:] until stop says so, and tells where: it is
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
	t       *translation
	w       io.Writer
	split   splitter
	buf     []byte
	scanned int
	err     error
}

// Write implements io.Writer.
func (s *jsonWatch) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.buf = append(s.buf, b...)
	from := 0
	for {
		end, ok := s.split.scan(s.buf, s.scanned, func(c byte, depth int) bool { return depth <= 1 && (c == '}' || c == ']') })
		if !ok {
			s.scanned = end
			break
		}
		s.scanned = end + 1
		if s.err = s.event(s.buf[from:s.scanned]); s.err != nil {
			return 0, s.err
		}
		from = s.scanned
	}
	s.scanned -= from
	s.buf = append(s.buf[:0], s.buf[from:]...)
	return len(b), nil
}

// event writes one event.
func (s *jsonWatch) event(b []byte) error {
	t := s.t
	t.begin(b)
	if t.peek() != '{' {
		t.malformed("an event was expected")
		return t.err
	}
	t.copied = t.pos
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		if string(key) == "object" {
			t.document(docKind{})
			continue
		}
		t.skip()
	}
	out, err := t.result()
	if err != nil {
		return err
	}
	t.dst = append(out, '\n')
	if _, err := s.w.Write(t.dst); err != nil {
		return err
	}
	if f, ok := s.w.(interface{ Flush() }); ok {
		f.Flush()
	}
	return nil
}

// Close implements io.Closer.
func (s *jsonWatch) Close() error {
	if s.err == nil && len(bytes.TrimSpace(s.buf)) > 0 {
		s.err = fmt.Errorf("%w: the stream ends within an event", ErrMalformed)
	}
	return s.err
}
