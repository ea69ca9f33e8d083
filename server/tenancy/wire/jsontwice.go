package wire

import (
	"bytes"
	"fmt"
)

// errTwice is a document in which something that is translated has a key twice. Its
// reader would take one of the values, or merge them, while each is translated on
// its own. See lastOfEach.
var errTwice = fmt.Errorf("%w: a key comes twice", ErrMalformed)

// keys are the keys of an object that mean something here, each with one value at
// most, and before it null, which means nothing.
type keys struct {
	few  [12]seenKey
	n    int
	more []seenKey
}

type seenKey struct {
	name  string
	value bool // that is not null
}

func (k *keys) find(key []byte) *seenKey {
	for i := range k.n {
		if k.few[i].name == string(key) {
			return &k.few[i]
		}
	}
	for i := range k.more {
		if k.more[i].name == string(key) {
			return &k.more[i]
		}
	}
	return nil
}

func (k *keys) has(key string) bool { return k.find([]byte(key)) != nil }

// add notes the key of the value that the scanner stands before.
func (k *keys) add(s *scanner, key []byte) bool {
	value := s.peek() != 'n'
	if was := k.find(key); was != nil {
		if was.value {
			s.fail(fmt.Errorf("%w: JSON at byte %d: %s", errTwice, s.pos, key))
			return false
		}
		was.value = value
		return true
	}
	if k.n < len(k.few) {
		k.few[k.n] = seenKey{string(key), value}
		k.n++
	} else {
		k.more = append(k.more, seenKey{string(key), value})
	}
	return true
}

// lastOfEach is a document that reads the same, and in which all but the last one
// of the values of a key are null: so readers who look for such keys find them, in
// their lines. merged reports a reader who puts objects with the same key together.
// Nothing may be nested deeper than in what tenants send.
func lastOfEach(body []byte, merged bool) ([]byte, error) {
	if marksOf(body, true) > maxMarks {
		return nil, fmt.Errorf("%w: it has keys twice, and more than %d values", ErrTooLarge, maxMarks)
	}
	return appendOnce(make([]byte, 0, Room(len(body))), body, merged, 0)
}

// appendOnce appends the value that is src. The first members of it are of earlier
// objects under the same key: those that come again were nowhere twice.
func appendOnce(dst, src []byte, merged bool, ofEarlier int) ([]byte, error) {
	s := &scanner{src: src}
	switch s.peek() {
	case '{':
	case '[':
		for n := 0; s.element(n); n++ {
			begin := s.pos
			s.skip()
			var err error
			if dst, err = appendOnce(append(dst, src[s.copied:begin]...), src[begin:s.pos], merged, 0); err != nil {
				return nil, err
			}
			s.copied = s.pos
		}
		return append(dst, src[s.copied:]...), s.err
	default:
		return append(dst, src...), nil
	}
	left := map[string]int{}
	m := s.open()
	for key, ok := s.next(&m); ok; key, ok = s.next(&m) {
		left[string(key)]++
		s.skip()
	}
	if s.err != nil {
		return nil, s.err
	}
	type members struct {
		text  []byte
		count int
	}
	earlier := map[string]members{} // of objects
	s = &scanner{src: src}
	s.peek()
	m = s.open()
	for key, ok := s.next(&m); ok; key, ok = s.next(&m) {
		begin, name := s.pos, string(key)
		s.skip()
		value := src[begin:s.pos]
		dst = append(dst, src[s.copied:begin]...)
		s.copied = s.pos
		inner, isObject := bytes.CutPrefix(value, []byte("{"))
		before := earlier[name]
		if left[name]--; left[name] > 0 {
			if inner = bytes.TrimSpace(bytes.TrimSuffix(inner, []byte("}"))); merged && isObject && len(inner) > 0 {
				earlier[name] = members{append(append(before.text, inner...), ','), before.count + countMembers(value)}
			}
			if m.count <= ofEarlier {
				// It comes again, so a comma follows.
				dst = dst[:len(dst)-(begin-m.at)]
				s.peek()
				s.copied = s.pos + 1
				continue
			}
			dst = append(dst, "null"...)
			for range bytes.Count(value, newline) {
				dst = append(dst, '\n')
			}
			continue
		}
		if isObject && before.count > 0 {
			if blanks(inner) == len(inner)-1 {
				before.text = before.text[:len(before.text)-1] // nothing follows
			}
			value = append(append([]byte("{"), before.text...), inner...)
		}
		var err error
		if dst, err = appendOnce(dst, value, merged, before.count); err != nil {
			return nil, err
		}
	}
	return append(dst, src[s.copied:]...), s.err
}

// countMembers counts the members of an object.
func countMembers(object []byte) int {
	s := &scanner{src: object}
	m := s.open()
	for _, ok := s.next(&m); ok; _, ok = s.next(&m) {
		s.skip()
	}
	return m.count
}
