package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// scanner goes over a JSON document once and copies it to dst. What is not
// rewritten is copied in one piece when the next change is made: src[copied:]
// is what dst does not have yet. Errors stick: after one, every loop ends.
//
// Only what is walked is checked for its syntax; the content of what is
// skipped is balanced, and the rest is for the reader to refuse.
type scanner struct {
	src    []byte
	pos    int
	copied int
	dst    []byte
	err    error
	// keepLines has what stays remain in its line, which messages name. owed are
	// the ends of lines in what was left out.
	keepLines bool
	owed      int
}

// place is a state of the scanner to come back to.
type place struct{ pos, copied, dst, owed int }

func (s *scanner) here() place { return place{s.pos, s.copied, len(s.dst), s.owed} }

func (s *scanner) back(p place) {
	s.pos, s.copied, s.dst, s.owed = p.pos, p.copied, s.dst[:p.dst], p.owed
}

// leaveOut notes what is not written.
func (s *scanner) leaveOut(text []byte) {
	if s.keepLines {
		s.owed += bytes.Count(text, newline)
	}
}

var newline = []byte{'\n'}

func (s *scanner) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *scanner) malformed(what string) {
	s.fail(fmt.Errorf("%w: JSON at byte %d: %s", ErrMalformed, s.pos, what))
}

// cutOff says that the error is that src ended too early: with what follows
// it may be well formed.
func (s *scanner) cutOff() bool {
	return errors.Is(s.err, ErrMalformed) && s.pos+blanks(s.src[s.pos:]) == len(s.src)
}

// flush copies everything before end.
func (s *scanner) flush(end int) {
	if s.copied < end {
		for ; s.owed > 0; s.owed-- {
			s.dst = append(s.dst, '\n')
		}
		s.dst = append(s.dst, s.src[s.copied:end]...)
		s.copied = end
	}
}

// peek skips white space and is the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// skipString goes behind the string that begins here.
func (s *scanner) skipString() { s.stringBytes() }

// stringBytes goes behind the string that begins here and is what it holds.
func (s *scanner) stringBytes() (raw []byte, escaped bool) {
	from := s.pos + 1
	end, escaped := stringEnd(s.src, from)
	if end == len(s.src) {
		s.pos = end
		s.malformed("a string does not end")
		return nil, false
	}
	s.pos = end + 1
	return s.src[from:end], escaped
}

// skip goes behind the value that begins here, whatever it is.
func (s *scanner) skip() {
	if s.err != nil {
		return
	}
	switch s.peek() {
	case '"':
		s.skipString()
	case '{', '[':
		s.skipNested()
	default:
		s.skipLiteral()
	}
}

func (s *scanner) skipLiteral() {
	begin := s.pos
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' && c != '+' && c != '.' && c != 'E' {
			break
		}
		s.pos++
	}
	if s.pos == begin {
		s.malformed("a value was expected")
	}
}

// skipNested goes behind the object or list that begins here.
func (s *scanner) skipNested() {
	end := nestedEnd(s.src, s.pos)
	if end < 0 {
		s.pos = len(s.src)
		s.malformed("an object or a list does not end")
		return
	}
	s.pos = end
}

// text reads the string that begins here.
func (s *scanner) text() string { return string(s.rawText()) }

// rawText is like text; what it returns is only valid until src changes.
func (s *scanner) rawText() []byte {
	begin := s.pos
	raw, escaped := s.stringBytes()
	if !escaped {
		return raw
	}
	var out string
	if err := json.Unmarshal(s.src[begin:s.pos], &out); err != nil {
		s.pos = begin
		s.malformed("a string has a wrong escape")
		return nil
	}
	return []byte(out)
}

// replace puts a string in the place of src[begin:pos].
func (s *scanner) replace(begin int, text string) {
	s.flush(begin)
	s.dst = appendJSONString(s.dst, text)
	s.copied = s.pos
}

// members goes over the members of an object.
type members struct {
	at      int   // where the key begins
	before  place // before the member
	end     int   // where the object ends, before its brace
	count   int
	dropped bool
}

// open enters the object that begins here.
func (s *scanner) open() members {
	s.pos++
	return members{}
}

// next is the key of the next member; the scanner then stands before its
// value, which the caller must go over. ok is false behind the object.
func (s *scanner) next(m *members) (key []byte, ok bool) {
	if s.err != nil {
		return nil, false
	}
	c := s.peek()
	switch {
	case c == '}':
		m.end = s.pos
		s.pos++
		if m.dropped {
			s.leaveOut(s.src[s.copied:m.end])
			s.copied = m.end
			s.trim()
			if n := len(s.dst) - 1; n >= 0 && s.dst[n] == ',' {
				s.dst = s.dst[:n]
			}
		}
		return nil, false
	case m.count > 0 && c != ',':
		s.malformed("a comma or the end of the object was expected")
		return nil, false
	case m.count > 0:
		s.pos++
		if m.dropped {
			s.leaveOut(s.src[s.copied:s.pos])
			s.copied, m.dropped = s.pos, false
		}
		c = s.peek()
	}
	if c != '"' {
		s.malformed("a key was expected")
		return nil, false
	}
	m.at, m.before = s.pos, s.here()
	m.count++
	key = s.rawText()
	if s.err == nil && s.peek() != ':' {
		s.malformed("a colon was expected")
	}
	if s.err != nil {
		return nil, false
	}
	s.pos++
	s.peek()
	return key, true
}

// trim takes white space from the end of what is written.
func (s *scanner) trim() {
	n := len(s.dst)
	for n > 0 && (s.dst[n-1] == ' ' || s.dst[n-1] == '\n' || s.dst[n-1] == '\t' || s.dst[n-1] == '\r') {
		n--
	}
	s.leaveOut(s.dst[n:])
	s.dst = s.dst[:n]
}

// drop takes the member out that the scanner stands behind.
func (m *members) drop(s *scanner) {
	if s.err != nil {
		return
	}
	s.dst, s.copied, s.owed = s.dst[:m.before.dst], m.before.copied, m.before.owed
	s.flush(m.at)
	s.leaveOut(s.src[m.at:s.pos])
	s.copied = s.pos
	m.dropped = true
}

// insert prepares for one more member at the end of an object that the scanner
// is behind of: the caller appends it to dst.
func (m *members) insert(s *scanner) {
	s.flush(m.end)
	s.trim()
	if n := len(s.dst); n > 0 && s.dst[n-1] != '{' {
		s.dst = append(s.dst, ',')
	}
}

// elements goes over the elements of the list that begins here: for each, the
// scanner stands before it.
func (s *scanner) element(count int) bool {
	if s.err != nil {
		return false
	}
	c := s.peek()
	switch {
	case count == 0:
		s.pos++ // the bracket
		if s.peek() == ']' {
			s.pos++
			return false
		}
		return true
	case c == ']':
		s.pos++
		return false
	case c != ',':
		s.malformed("a comma or the end of the list was expected")
		return false
	}
	s.pos++
	s.peek()
	return true
}

// appendJSONString appends a string as Kubernetes writes it.
func appendJSONString(dst []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c >= utf8.RuneSelf {
			quoted, err := json.Marshal(text)
			if err != nil { // a string can always be written
				return append(dst, '"', '"')
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}
