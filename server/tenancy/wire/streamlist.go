package wire

import (
	"bytes"
	"fmt"
)

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
	pieces
	p     *Projector
	t     *translation
	stage stage
	rows  bool
	count int
	// behind says that an item came and what is behind it is next.
	behind bool
	err    error
	// buf is what was not translated yet. Split looks for the end of the head,
	// or of an item that is not complete, and went over scanned bytes of it.
	buf     []byte
	split   splitter
	scanned int
}

// Write implements io.Writer.
func (s *jsonList) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	src := b
	if len(s.buf) > 0 {
		s.buf = append(s.buf, b...)
		src = s.buf
	}
	from, err := 0, error(nil)
	if s.stage == inHead {
		from, err = s.begin(src)
	}
	if s.stage == inItems && err == nil {
		from, err = s.items(src, from)
	}
	if err == nil {
		err = s.passOn()
	}
	if s.err = err; err != nil {
		return 0, err
	}
	if from > 0 || len(s.buf) == 0 {
		s.buf = keep(s.buf, src[from:])
	}
	return len(b), nil
}

// begin looks for the first item and says where it begins.
func (s *jsonList) begin(src []byte) (from int, err error) {
	for s.stage == inHead {
		end, ok := s.split.scan(src, s.scanned, s.stops)
		if !ok {
			s.scanned = end
			return 0, nil
		}
		s.scanned = end + 1
		if src[end] == '}' {
			s.stage = inWhole
		} else if isKey(src[:end], "items") || isKey(src[:end], "rows") {
			if err := s.head(src[:s.scanned]); err != nil {
				return 0, err
			}
		}
	}
	if s.stage == inItems {
		from, s.scanned = s.scanned, 0
	}
	return from, nil
}

// isKey reports whether b ends with a key of an object. Most lists in the head of
// a document are passed over by it: the head is read for few.
func isKey(b []byte, key string) bool {
	b, ok := bytes.CutSuffix(bytes.TrimRight(b, " \t\r\n"), []byte(":"))
	return ok && bytes.HasSuffix(bytes.TrimRight(b, " \t\r\n"), []byte(`"`+key+`"`))
}

// items translates the items that are complete and says where the next one
// begins, or the tail. Most often an item is written at once, so its end is
// not looked for.
func (s *jsonList) items(src []byte, from int) (int, error) {
	for {
		if s.scanned == 0 {
			if from += blanks(src[from:]); from == len(src) {
				return from, nil
			}
			c := src[from]
			switch {
			case c == ']' && (s.behind || s.count == 0):
				s.stage = inTail
				return from, nil
			case c == ',' && s.behind:
				s.behind = false
				from++
				continue
			case s.behind:
				return 0, fmt.Errorf("%w: a comma or the end of the list was expected", ErrMalformed)
			case c == ',' || c == ']':
				return 0, fmt.Errorf("%w: an item of the list is missing", ErrMalformed)
			}
			n, complete, err := s.item(src[from:])
			if err != nil {
				return 0, err
			}
			if from += n; complete {
				if err := s.passOn(); err != nil {
					return 0, err
				}
				continue
			}
			s.split, s.scanned = splitter{depth: 2}, from
		}
		end, ok := s.split.scan(src, s.scanned, s.stops)
		if !ok {
			s.scanned = len(src) - from
			return from, nil
		}
		n, complete, err := s.item(src[from : end+1])
		if err != nil {
			return 0, err
		}
		if !complete {
			return 0, fmt.Errorf("%w: an item cannot be read", ErrMalformed)
		}
		from, s.scanned = from+n, 0
	}
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
	t.begin(append(append([]byte(nil), b...), "]}"...), nil)
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
	t.begin(t.src, nil)
	t.document(true)
	out, err := t.result()
	if err != nil {
		return err
	}
	s.out = append(s.room(), bytes.TrimSuffix(out, []byte("]}"))...)
	s.stage = inItems
	return nil
}

// item appends the item at the beginning of b to the output and says how long
// it was, or that it is not complete.
func (s *jsonList) item(b []byte) (n int, complete bool, err error) {
	out := s.room()
	if s.count > 0 {
		out = append(out, ',')
	}
	t := s.t
	t.begin(b, out)
	if s.rows {
		t.row()
	} else {
		t.document(false)
	}
	switch {
	case t.err != nil && t.cutOff(), t.err == nil && t.pos == len(b) && b[0] != '{' && b[0] != '[' && b[0] != '"':
		// A literal may go on.
		return 0, false, nil
	case t.err != nil:
		return 0, false, t.err
	}
	t.flush(t.pos)
	s.out = t.dst
	s.count++
	s.behind = true
	return t.pos, true, nil
}

// Flush implements Stream.
func (s *jsonList) Flush() error {
	if s.err == nil {
		s.err = s.flush()
	}
	return s.err
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
			_, s.err = s.w.Write(out)
		}
	}
	return s.Flush()
}

// tail translates what comes behind the items, as a list without items.
func (s *jsonList) tail() error {
	begin, k := `{"items":[`, docKind{kind: "List"}
	if s.rows {
		begin, k = `{"rows":[`, docKind{group: metaGroup, kind: "Table"}
	}
	t := s.t
	t.begin(append([]byte(begin), s.buf...), nil)
	start := t.here()
	said, _ := t.saysType()
	t.back(start)
	if said.kind != "" && t.shape(docKind{k.group, said.kind}, true).form != t.shape(k, true).form {
		// An object with a field called items, whose kind came too late.
		t.malformed("the document is no list")
	}
	t.object(k, true, true, true)
	if t.err == nil && t.peek() != 0 {
		t.malformed("something follows the document")
	}
	out, err := t.result()
	if err == nil {
		s.out = append(s.room(), bytes.TrimPrefix(out, []byte(begin))...)
	}
	return err
}
