package wire

import (
	"bytes"
	"fmt"
	"io"
)

// writeFrom is how much is gathered before it is written.
const writeFrom = 16 << 10

// stage is which part of a list comes next.
type stage int

const (
	inHead  stage = iota // up to the bracket of the items
	inItems              // one item at a time
	inTail               // behind them
	inWhole              // no list: it is held until the end
)

// jsonList translates an answer that is no watch. Of a list, and of the rows
// of a Table, one item at a time is held; everything else is held as a whole.
type jsonList struct {
	p     *Projector
	t     *translation
	w     io.Writer
	split splitter
	stage stage
	// buf is what was not translated yet; of it, scanned bytes were gone over.
	buf     []byte
	scanned int
	rows    bool
	count   int
	out     []byte
	err     error
}

// Write implements io.Writer.
func (s *jsonList) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.buf = append(s.buf, b...)
	if s.err = s.progress(); s.err == nil && len(s.out) >= writeFrom {
		s.err = s.send()
	}
	if s.err != nil {
		return 0, s.err
	}
	return len(b), nil
}

func (s *jsonList) progress() error {
	from := 0
	for s.stage == inHead || s.stage == inItems {
		end, ok := s.split.scan(s.buf, s.scanned, s.stops)
		if !ok {
			s.scanned = end
			break
		}
		c := s.buf[end]
		s.scanned = end + 1
		var err error
		switch {
		case s.stage == inHead && c == '}':
			s.stage = inWhole
		case s.stage == inHead:
			if err = s.head(s.buf[:s.scanned]); err == nil && s.stage == inItems {
				from = s.scanned
			}
		default:
			if err = s.item(s.buf[from:end], c == ']'); err == nil && c == ']' {
				// The bracket goes with the tail.
				s.stage, s.scanned = inTail, end
			}
			from = s.scanned
		}
		if err != nil {
			return err
		}
	}
	if from > 0 {
		s.scanned -= from
		s.buf = append(s.buf[:0], s.buf[from:]...)
	}
	return nil
}

// stops is where a stage may end: the list in the document, a comma or the
// bracket behind an item.
func (s *jsonList) stops(c byte, depth int) bool {
	if s.stage == inHead {
		return c == '[' && depth == 2 || c == '}' && depth == 1
	}
	return (c == ',' || c == ']') && depth == 2
}

// head looks whether b, which ends with an opening bracket, is the beginning of
// a list or a Table, and translates it then. Other lists are passed over.
func (s *jsonList) head(b []byte) error {
	t := s.t
	t.begin(append(append([]byte(nil), b...), "]}"...))
	if t.peek() != '{' {
		s.stage = inWhole
		return nil
	}
	var k docKind
	var last string
	said := false
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		last = string(key)
		switch {
		case last == "kind" && t.peek() == '"':
			k.kind = t.text()
		case last == "apiVersion" && t.peek() == '"':
			k.group, said = groupOf(t.rawText()), true
		default:
			t.skip()
		}
	}
	if t.err != nil {
		return t.err
	}
	switch is := t.shape(k, said); {
	case last == "items" && (is.form == formList || k.kind == ""):
	case last == "rows" && is.form == formTable:
		s.rows = true
	case last == "items" || last == "rows":
		s.stage = inWhole
		return nil
	default:
		return nil // some other list, as the columns of a Table
	}
	t.begin(t.src)
	t.document(docKind{})
	out, err := t.result()
	if err != nil {
		return err
	}
	s.out = append(s.out, bytes.TrimSuffix(out, []byte("]}"))...)
	s.stage = inItems
	return nil
}

// item translates what is between two separators.
func (s *jsonList) item(b []byte, last bool) error {
	if b = bytes.TrimSpace(b); len(b) == 0 {
		if last && s.count == 0 {
			return nil
		}
		return fmt.Errorf("%w: an item of the list is missing", ErrMalformed)
	}
	t := s.t
	t.begin(b)
	if s.rows {
		t.row()
	} else {
		t.document(docKind{})
	}
	if t.err == nil && t.peek() != 0 {
		t.malformed("something follows an item")
	}
	out, err := t.result()
	if err != nil {
		return err
	}
	if s.count > 0 {
		s.out = append(s.out, ',')
	}
	s.count++
	s.out = append(s.out, out...)
	if len(s.out) >= writeFrom {
		return s.send()
	}
	return nil
}

func (s *jsonList) send() error {
	_, err := s.w.Write(s.out)
	s.out = s.out[:0]
	return err
}

// Close implements io.Closer: it writes what is left.
func (s *jsonList) Close() error {
	if s.err != nil {
		return s.err
	}
	switch s.stage {
	case inItems:
		s.err = fmt.Errorf("%w: the list ends too early", ErrMalformed)
	case inTail:
		s.err = s.tail()
	default:
		var out []byte
		if out, s.err = s.p.JSON(Out, s.t.r, s.buf); s.err == nil {
			s.out = append(s.out, out...)
		}
	}
	if s.err == nil {
		s.err = s.send()
	}
	return s.err
}

// saysKind is the kind in the document that begins here.
func (t *translation) saysKind() (kind string) {
	begin := t.here()
	m := t.open()
	for key, ok := t.next(&m); ok; key, ok = t.next(&m) {
		if string(key) == "kind" && t.peek() == '"' {
			kind = t.text()
			continue
		}
		t.skip()
	}
	t.back(begin)
	return kind
}

// tail translates what comes behind the items, as a list without items.
func (s *jsonList) tail() error {
	begin, k := `{"items":[`, docKind{kind: "List"}
	if s.rows {
		begin, k = `{"rows":[`, docKind{group: metaGroup, kind: "Table"}
	}
	t := s.t
	t.begin(append([]byte(begin), s.buf...))
	if said := t.saysKind(); said != "" && t.shape(docKind{k.group, said}, true).form != t.shape(k, true).form {
		// An object with a field called items, whose kind came too late.
		t.malformed("the document is no list")
	}
	t.object(k, true)
	if t.err == nil && t.peek() != 0 {
		t.malformed("something follows the document")
	}
	out, err := t.result()
	if err == nil {
		s.out = append(s.out, bytes.TrimPrefix(out, []byte(begin))...)
	}
	return err
}
