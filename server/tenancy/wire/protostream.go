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
	protoWholeUpTo = 64 << 10
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
func newProtoStream(p *Projector, r Resource, watch bool, w io.Writer) Stream {
	if watch {
		return &protoWatch{envelopes: protoEnvelopes{p: p, d: Out, r: r}, pieces: pieces{w: w}}
	}
	// What gets longer cannot be streamed.
	return &protoList{p: p, r: r, pieces: pieces{w: w}, whole: p.Groups != ""}
}

// protoWatch translates frames: four bytes with the length, then a WatchEvent.
type protoWatch struct {
	pieces
	envelopes protoEnvelopes
	buf       []byte
	// header is where the length of a frame waits, which is written on its own.
	header [4]byte
	// read is how many bytes went before buf.
	read int
	err  error
}

// Write implements io.Writer.
func (s *protoWatch) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	src, from := b, 0
	switch n := binary.BigEndian.Uint32(s.header[:]); {
	case len(s.buf) == 4 && n <= protoMaxFrame && len(b) >= int(n):
		if err := s.frame(b[:n]); err != nil {
			return 0, s.fail(err)
		}
		s.read += 4 + int(n)
		s.buf, from = nil, int(n)
	case len(s.buf) > 0:
		s.buf = append(s.buf, b...)
		src = s.buf
	}
	for len(src)-from >= 4 {
		n := int(binary.BigEndian.Uint32(src[from:]))
		if n > protoMaxFrame {
			return 0, s.fail(malformed(s.read, "a frame is too long"))
		}
		if len(src)-from < 4+n {
			break
		}
		if err := s.frame(src[from+4 : from+4+n]); err != nil {
			return 0, s.fail(err)
		}
		s.read += 4 + n
		from += 4 + n
	}
	switch rest := src[from:]; {
	case len(rest) <= 4:
		s.buf = append(s.header[:0], rest...)
	case from > 0 || len(s.buf) == 0:
		s.buf = keep(s.buf, rest)
	}
	return len(b), nil
}

// fail hands on the events before the one that the error is about.
func (s *protoWatch) fail(err error) error {
	s.err = err
	s.flush() //nolint:errcheck // there is an error already
	return err
}

func (s *protoWatch) frame(b []byte) error {
	out := s.room()
	begin := len(out)
	out, err := s.envelopes.appendEvent(append(out, 0, 0, 0, 0), b, s.read+4)
	if err != nil {
		return err
	}
	if s.apart {
		s.out = out[begin+4:]
		return s.flush()
	}
	binary.BigEndian.PutUint32(out[begin:], uint32(len(out)-begin-4))
	s.out = out
	return s.passOn()
}

// Flush implements Stream.
func (s *protoWatch) Flush() error {
	if s.err == nil {
		s.err = s.flush()
	}
	return s.err
}

// Close implements io.Closer.
func (s *protoWatch) Close() error {
	if s.err == nil && len(s.buf) > 0 {
		s.err = malformed(s.read+len(s.buf), "the stream ends within a frame")
	}
	return s.Flush()
}

// appendEvent appends a WatchEvent with its object translated: that is a field
// of a field. Neither may come twice.
func (c *protoEnvelopes) appendEvent(dst, b []byte, at int) ([]byte, error) {
	return appendOnly(dst, b, at, eventObject, func(dst []byte, f protoValue) ([]byte, error) {
		return appendOnly(dst, f.value, f.at, extensionRaw, func(dst []byte, f protoValue) ([]byte, error) {
			if len(f.value) == 0 {
				return dst, nil
			}
			return c.append(dst, f.value, f.at)
		})
	})
}

// appendOnly appends a message with one field, that must not come twice,
// translated.
func appendOnly(
	dst, b []byte, at int, number protowire.Number, value func([]byte, protoValue) ([]byte, error),
) ([]byte, error) {
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
		var n nesting
		dst, n = nest(dst, f)
		if dst, err = value(dst, f); err != nil {
			return nil, err
		}
		dst = n.end(dst)
	}
}

// protoList translates an answer that is no watch. A short one, and one that
// is no list, is translated as a whole. Of a long list one item at a time is
// held. The length of the list stands before it, and a translated item is
// longer than it was by no more than its selfLink. So the length is that of the
// list as it comes, and what selfLinks can take: what is missing in the end is made
// up by a field that nobody knows and every reader skips.
type protoList struct {
	pieces
	p *Projector
	r Resource
	// buf is what was not translated yet, read is how much went before it.
	buf  []byte
	read int
	err  error

	whole bool
	t     *protoTranslator
	items *protoPlan
	// left is how much of the list was not read yet, saved by how much less was
	// written than could be. An item for whose selfLink there is no room, because the
	// list is longer than it was said to be, gets none.
	left, saved int
	filled      bool
}

// Write implements io.Writer.
func (s *protoList) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	src, from := b, 0
	if len(s.buf) > 0 {
		s.buf = append(s.buf, b...)
		src = s.buf
	}
	if !s.whole && s.t == nil && len(src) > protoWholeUpTo {
		from, s.err = s.begin(src)
	}
	if s.t != nil && s.err == nil {
		from, s.err = s.progress(src, from)
	}
	if s.err != nil {
		return 0, s.err
	}
	if from > 0 || len(s.buf) == 0 {
		s.buf = keep(s.buf, src[from:])
	}
	return len(b), nil
}

// begin writes what comes before the list and says how long it was. The envelope's type has to come
// first, as every server writes it; if not, the answer is held as a whole.
func (s *protoList) begin(src []byte) (from int, err error) {
	if !bytes.HasPrefix(src, []byte(protoMagic)) {
		return 0, malformed(0, "it does not begin with the prefix of Kubernetes' protobuf")
	}
	var e envelope
	at := len(protoMagic)
	for typed := false; ; typed = true {
		number, kind, n := protowire.ConsumeTag(src[at:])
		if n < 0 || kind != protowire.BytesType {
			return 0, malformed(at, "the envelope cannot be read")
		}
		length, m := protowire.ConsumeVarint(src[at+n:])
		if m < 0 || length > protoMaxMessage {
			return 0, malformed(at+n, "a length cannot be read")
		}
		if number == unknownRaw {
			if !typed {
				break
			}
			return s.beginList(src[:at+n], e, int(length), at+n+m)
		}
		end := at + n + m + int(length)
		if typed || number != unknownTypeMeta || end > len(src) {
			break
		}
		if err := e.parseTypeMeta(src[at+n+m:end], at+n+m); err != nil {
			return 0, err
		}
		at = end
	}
	s.whole = true
	return 0, nil
}

// beginList begins a list of some length, whose items come from a place on; head is
// what comes before the length.
func (s *protoList) beginList(head []byte, e envelope, length, items int) (from int, err error) {
	kind, err := s.p.protoKindOf(e.apiVersion, e.kind, s.r)
	if err != nil {
		return 0, err
	}
	listed, known := Listed{}, false
	if kind.list && s.p.Listed != nil {
		listed, known = s.p.Listed()
	}
	if !known {
		s.whole = true
		return 0, nil
	}
	if s.saved = s.r.growth(listed, s.p.View.Tenant); length+s.saved > protoMaxMessage {
		return 0, malformed(0, "the list is too long")
	}
	s.t = s.p.translator(Out, s.r, e.apiVersion, e.kind)
	s.t.bounded = true
	s.items, s.left = kind.object, length
	s.out = protowire.AppendVarint(append(s.room(), head...), uint64(length+s.saved))
	s.read = items
	return items, nil
}

// progress translates the items that are complete and says what comes next.
func (s *protoList) progress(src []byte, from int) (int, error) {
	for s.left > 0 {
		n, err := fieldLength(src[from:], s.left, s.read)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return from, nil
		}
		if err := s.field(src[from : from+n]); err != nil {
			return 0, err
		}
		s.left -= n
		s.read += n
		from += n
	}
	if !s.filled {
		s.filled = true
		return from, s.fill()
	}
	return from, nil
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
	out := s.room()
	p := s.items.field(f.number)
	if p == nil {
		s.out = append(out, b...)
		return s.passOn()
	}
	if f.kind != protowire.BytesType {
		return malformed(f.at, "an item has the wrong type")
	}
	// With a selfLink, and without if there is no room for that. The length takes as
	// much room as it took, or as it may need.
	width := len(b) - len(f.value) - protowire.SizeTag(f.number)
	most := protowire.SizeVarint(uint64(len(f.value) + s.r.linkGrowth(s.p.View.Tenant) + len(s.r.Of) + longestName))
	for _, link := range []bool{true, false} {
		if !link {
			most = width
		}
		done, err := s.item(out, b, f, p, max(width, most), link)
		if done || err != nil {
			return err
		}
	}
	return malformed(f.at, "an item got longer")
}

// longestName is more than a name and a namespace have.
const longestName = 1 << 10

// item writes an item, or the metadata of the list, with so much room for its length.
// It reports whether there was room for it all.
func (s *protoList) item(out, b []byte, f protoValue, p *protoField, width int, link bool) (bool, error) {
	if width > binary.MaxVarintLen64 {
		return false, malformed(f.at, "a length cannot be written")
	}
	tag := len(out) + protowire.SizeTag(f.number)
	out = protowire.AppendTag(out, f.number, protowire.BytesType)
	begin := tag + width
	out = append(out, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"[:width]...)
	var err error
	switch {
	case p.item != nil:
		out, err = s.t.appendObject(out, f.value, f.at, p.item, link)
	case link:
		out, err = appendListMeta(out, f.value, f.at, s.r.listLink(Out, s.p.View.Tenant))
	default:
		out = append(out, f.value...)
	}
	if err != nil {
		return false, err
	}
	n := len(out) - begin
	saved := s.saved + len(b) - (len(out) - tag) - protowire.SizeTag(f.number)
	if saved < 0 {
		return false, nil
	}
	if saved > 0 && saved < fillerLeast {
		// No field is that short: the length takes more bytes than it needs.
		out = append(out, "\x00\x00\x00"[:saved]...)
		copy(out[begin+saved:], out[begin:begin+n])
		width += saved
		saved = 0
	}
	if width < protowire.SizeVarint(uint64(n)) || width > binary.MaxVarintLen64 {
		return false, malformed(f.at, "a length cannot be written")
	}
	appendWide(out[:tag], uint64(n), width)
	s.saved, s.out = saved, out
	return true, s.passOn()
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
	s.out = append(s.room(), appendWide(head, uint64(length), width)...)
	for length > 0 {
		n := min(length, pieceSize)
		s.out = append(s.room(), make([]byte, n)...)
		if err := s.passOn(); err != nil {
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

// Flush implements Stream.
func (s *protoList) Flush() error {
	if s.err == nil {
		s.err = s.flush()
	}
	return s.err
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
	return s.Flush()
}

// tail writes what comes after the list, which must not be another one.
func (s *protoList) tail() error {
	for scan := newScanner(s.buf, s.read); ; {
		f, ok, err := scan.next()
		if err != nil {
			return err
		}
		if !ok {
			s.out = append(s.room(), s.buf...)
			return nil
		}
		if f.number == unknownTypeMeta || f.number == unknownRaw {
			return malformed(f.at, "a field of the envelope comes twice")
		}
	}
}
