package wire

import (
	"bytes"
	"encoding/binary"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// protoWholeUpTo is the size up to which an answer is translated as a
	// whole, with exact lengths.
	protoWholeUpTo = 256 << 10
	// protoMaxFrame is more than any object in a watch has.
	protoMaxFrame = 64 << 20
	// protoMaxMessage is what a length can be at most.
	protoMaxMessage = 1<<31 - 1
	// fillerNumber is the number of a field that no message has.
	fillerNumber = 15000
)

// Numbers of the fields of metav1.WatchEvent and of runtime.RawExtension.
const (
	eventObject  = 2
	extensionRaw = 1
)

// newProtoStream translates an answer while it is written.
func newProtoStream(p *Projector, r Resource, watch bool, w io.Writer) io.WriteCloser {
	if watch {
		return &protoWatch{p: p, r: r, w: w}
	}
	return &protoList{p: p, r: r, w: w}
}

// protoWatch translates frames: four bytes with the length, then a WatchEvent.
type protoWatch struct {
	p   *Projector
	r   Resource
	w   io.Writer
	buf []byte
	// read is how many bytes went before buf.
	read int
	out  []byte
	err  error
}

// Write implements io.Writer. Complete frames go on at once.
func (s *protoWatch) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.buf = append(s.buf, b...)
	for s.err == nil && len(s.buf) >= 4 {
		n := int(binary.BigEndian.Uint32(s.buf))
		if n > protoMaxFrame {
			s.err = malformed(s.read, "a frame is too long")
			break
		}
		if len(s.buf) < 4+n {
			break
		}
		s.err = s.frame(s.buf[4 : 4+n])
		s.read += 4 + n
		s.buf = append(s.buf[:0], s.buf[4+n:]...)
	}
	if s.err != nil {
		return 0, s.err
	}
	return len(b), nil
}

func (s *protoWatch) frame(b []byte) error {
	out, err := s.p.appendEvent(append(s.out[:0], 0, 0, 0, 0), s.r, b, s.read+4)
	if err != nil {
		return err
	}
	s.out = out
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	if _, err := s.w.Write(out); err != nil {
		return err
	}
	if f, ok := s.w.(interface{ Flush() }); ok {
		f.Flush()
	}
	return nil
}

// Close implements io.Closer.
func (s *protoWatch) Close() error {
	if s.err == nil && len(s.buf) > 0 {
		s.err = malformed(s.read+len(s.buf), "the stream ends within a frame")
	}
	return s.err
}

// appendEvent appends a WatchEvent with its object translated.
func (p *Projector) appendEvent(dst []byte, r Resource, b []byte, at int) ([]byte, error) {
	t := &protoTranslator{d: Out}
	return t.appendOnly(dst, b, at, eventObject, func(dst []byte, f protoValue) ([]byte, error) {
		return t.appendOnly(dst, f.value, f.at, extensionRaw, func(dst []byte, f protoValue) ([]byte, error) {
			if len(f.value) == 0 {
				return dst, nil
			}
			return p.appendEnvelope(dst, Out, r, f.value, f.at)
		})
	})
}

// appendOnly appends a message with one field, that must not come twice,
// translated.
func (t *protoTranslator) appendOnly(dst, b []byte, at int, number protowire.Number, value func([]byte, protoValue) ([]byte, error)) ([]byte, error) {
	seen := false
	for s := newScanner(b, at); ; {
		f, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		switch {
		case !ok:
			return dst, nil
		case f.number != number:
			dst = append(dst, f.all...)
			continue
		case seen || f.kind != protowire.BytesType:
			return nil, malformed(f.at, "a message comes twice or has the wrong type")
		}
		seen = true
		if dst, err = t.appendNested(dst, f, func(dst []byte) ([]byte, error) { return value(dst, f) }); err != nil {
			return nil, err
		}
	}
}

// protoList translates an answer that is no watch. A short one, and one that
// is no list, is translated as a whole. Of a long list one item at a time is
// held. The length of the list stands before it, and a translated item is
// never longer than it was, so the length is kept as it is: what is missing in
// the end is made up by a field that nobody knows and every reader skips.
type protoList struct {
	p *Projector
	r Resource
	w io.Writer
	// buf is what was not translated yet, read is how much went before it.
	buf  []byte
	read int
	out  []byte
	err  error

	whole bool
	t     *protoTranslator
	items *protoPlan
	// left is how much of the list was not read yet, saved by how much less
	// of it was written than read.
	left, saved int
	filled      bool
}

// Write implements io.Writer.
func (s *protoList) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.buf = append(s.buf, b...)
	if !s.whole && s.t == nil && len(s.buf) > protoWholeUpTo {
		s.err = s.begin()
	}
	if s.t != nil && s.err == nil {
		s.err = s.progress()
	}
	if s.err != nil {
		return 0, s.err
	}
	return len(b), nil
}

// begin writes what comes before the list. The envelope's type has to come
// first, as every server writes it; if not, the answer is held as a whole.
func (s *protoList) begin() error {
	if !bytes.HasPrefix(s.buf, []byte(protoMagic)) {
		return malformed(0, "it does not begin with the prefix of Kubernetes' protobuf")
	}
	var e envelope
	at := len(protoMagic)
	for typed := false; ; typed = true {
		number, kind, n := protowire.ConsumeTag(s.buf[at:])
		if n < 0 || kind != protowire.BytesType {
			return malformed(at, "the envelope cannot be read")
		}
		length, m := protowire.ConsumeVarint(s.buf[at+n:])
		if m < 0 || length > protoMaxMessage {
			return malformed(at+n, "a length cannot be read")
		}
		if number == unknownRaw {
			if !typed {
				break
			}
			return s.beginList(e, at+n+m, int(length))
		}
		end := at + n + m + int(length)
		if typed || number != unknownTypeMeta || end > len(s.buf) {
			break
		}
		if err := e.parseTypeMeta(s.buf[at+n+m:end], at+n+m); err != nil {
			return err
		}
		at = end
	}
	s.whole = true
	return nil
}

func (s *protoList) beginList(e envelope, head, length int) error {
	kind, err := s.p.protoKindOf(e.apiVersion, e.kind, s.r)
	if err != nil {
		return err
	}
	if !kind.list {
		s.whole = true
		return nil
	}
	s.t = s.p.translator(Out, s.r, e.apiVersion, e.kind)
	s.t.bounded = true
	s.items, s.left = kind.object, length
	if _, err := s.w.Write(s.buf[:head]); err != nil {
		return err
	}
	s.drop(head)
	return nil
}

// drop forgets the first n bytes of what waits.
func (s *protoList) drop(n int) {
	s.read += n
	s.buf = s.buf[n:]
}

// progress translates the items that are complete.
func (s *protoList) progress() error {
	waiting := s.buf
	for s.left > 0 {
		n, err := fieldLength(s.buf, s.left, s.read)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if err := s.field(s.buf[:n]); err != nil {
			return err
		}
		s.left -= n
		s.drop(n)
	}
	// What is left moves to the beginning, so that the buffer does not grow.
	if len(s.buf) < len(waiting) {
		s.buf = append(waiting[:0], s.buf...)
	}
	if s.left > 0 {
		return nil
	}
	if !s.filled {
		s.filled = true
		return s.fill()
	}
	return nil
}

// fieldLength is the length of the field at the beginning of b, 0 if b does
// not have all of it. No more than left bytes belong to the message.
func fieldLength(b []byte, left, at int) (int, error) {
	if len(b) > left {
		b = b[:left]
	}
	tag, n := protowire.ConsumeVarint(b)
	if n < 0 {
		return incomplete(b, left, at)
	}
	switch protowire.Type(tag & 7) {
	case protowire.BytesType:
		length, m := protowire.ConsumeVarint(b[n:])
		if m < 0 {
			return incomplete(b[n:], left-n, at)
		}
		if length > uint64(left-n-m) {
			return 0, malformed(at, "a field is longer than its message")
		}
		n += m + int(length)
	case protowire.VarintType:
		_, m := protowire.ConsumeVarint(b[n:])
		if m < 0 {
			return incomplete(b[n:], left-n, at)
		}
		n += m
	case protowire.Fixed32Type:
		n += 4
	case protowire.Fixed64Type:
		n += 8
	default:
		return 0, malformed(at, "a field cannot be read")
	}
	switch {
	case n > left:
		return 0, malformed(at, "a field is longer than its message")
	case n > len(b):
		return 0, nil
	}
	return n, nil
}

// incomplete tells a varint that goes on later from one that is wrong.
func incomplete(b []byte, left, at int) (int, error) {
	if len(b) >= binary.MaxVarintLen64 || len(b) >= left {
		return 0, malformed(at, "a number cannot be read")
	}
	return 0, nil
}

// field writes one field of the list.
func (s *protoList) field(b []byte) error {
	f, _, err := newScanner(b, s.read).next()
	if err != nil {
		return err
	}
	p := s.items.field(f.number)
	if p == nil {
		_, err := s.w.Write(b)
		return err
	}
	if f.kind != protowire.BytesType {
		return malformed(f.at, "an item has the wrong type")
	}
	if s.out, err = s.t.appendObject(s.out[:0], f.value, f.at, p.item, false); err != nil {
		return err
	}
	head := protowire.AppendTag(make([]byte, 0, 24), f.number, protowire.BytesType)
	width := protowire.SizeVarint(uint64(len(s.out)))
	saved := s.saved + len(b) - len(head) - width - len(s.out)
	switch {
	case saved < 0:
		return malformed(f.at, "an item got longer")
	case saved < fillerLeast:
		// No field is that short: the length takes more bytes than it needs.
		width += saved
		saved = 0
	}
	s.saved = saved
	if _, err := s.w.Write(appendWide(head, uint64(len(s.out)), width)); err != nil {
		return err
	}
	_, err = s.w.Write(s.out)
	return err
}

// fillerLeast is the length of the shortest filler: the tag and a length of 0.
const fillerLeast = 4

// fill writes what is missing of the length of the list.
func (s *protoList) fill() error {
	if s.saved == 0 {
		return nil
	}
	head := protowire.AppendTag(make([]byte, 0, 24), fillerNumber, protowire.BytesType)
	width, length := 1, s.saved-len(head)-1
	for protowire.SizeVarint(uint64(length)) > width {
		width, length = width+1, length-1
	}
	if _, err := s.w.Write(appendWide(head, uint64(length), width)); err != nil {
		return err
	}
	zeros := make([]byte, min(length, 16<<10))
	for length > 0 {
		n, err := s.w.Write(zeros[:min(length, len(zeros))])
		if err != nil {
			return err
		}
		length -= n
	}
	return nil
}

// appendWide appends a varint of just so many bytes.
func appendWide(dst []byte, v uint64, width int) []byte {
	for ; width > 1; width-- {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// Close implements io.Closer: it writes what was held, and the end of the
// envelope.
func (s *protoList) Close() error {
	switch {
	case s.err != nil:
	case s.t == nil:
		var out []byte
		if out, s.err = s.p.Proto(Out, s.r, s.buf); s.err == nil {
			_, s.err = s.w.Write(out)
		}
	case s.left > 0:
		s.err = malformed(s.read+len(s.buf), "the list ends too early")
	default:
		s.err = s.tail()
	}
	return s.err
}

// tail writes what comes after the list, which must not be another one.
func (s *protoList) tail() error {
	for scan := newScanner(s.buf, s.read); ; {
		f, ok, err := scan.next()
		if err != nil {
			return err
		}
		if !ok {
			_, err := s.w.Write(s.buf)
			return err
		}
		if f.number == unknownTypeMeta || f.number == unknownRaw {
			return malformed(f.at, "a field of the envelope comes twice")
		}
	}
}
