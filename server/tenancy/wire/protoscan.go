package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoValue is one field of a message.
type protoValue struct {
	number protowire.Number
	kind   protowire.Type
	// value is the content of a field of bytes, all the field with its tag.
	value, all []byte
	// at is where the value lies in what was received.
	at int
}

// protoScanner goes over the fields of a message.
type protoScanner struct {
	b            []byte
	at, position int
}

func newScanner(b []byte, at int) *protoScanner { return &protoScanner{b: b, at: at} }

// next is the next field; ok is false at the end.
func (s *protoScanner) next() (f protoValue, ok bool, err error) {
	if s.position == len(s.b) {
		return f, false, nil
	}
	rest := s.b[s.position:]
	number, kind, n := protowire.ConsumeTag(rest)
	if n < 0 {
		return f, false, malformed(s.at+s.position, "a tag cannot be read")
	}
	f = protoValue{number: number, kind: kind, at: s.at + s.position}
	var m int
	switch kind {
	case protowire.VarintType:
		_, m = protowire.ConsumeVarint(rest[n:])
	case protowire.Fixed32Type:
		_, m = protowire.ConsumeFixed32(rest[n:])
	case protowire.Fixed64Type:
		_, m = protowire.ConsumeFixed64(rest[n:])
	case protowire.BytesType:
		f.value, m = protowire.ConsumeBytes(rest[n:])
		f.at += n + m - len(f.value)
	default:
		// Nothing in Kubernetes has groups.
		m = -1
	}
	if m < 0 {
		return f, false, malformed(s.at+s.position, "a field cannot be read")
	}
	f.all = rest[:n+m]
	s.position += n + m
	return f, true, nil
}

// skipTo goes over fields whose numbers are not in a set. It stops where that
// is not plain, and next finds out why. Numbers of 63 and more are in every
// set.
func (s *protoScanner) skipTo(numbers uint64) {
	b := s.b
	for i := s.position; i < len(b); s.position = i {
		tag := int(b[i])
		i++
		if tag >= 0x80 {
			if i == len(b) || b[i] >= 0x80 {
				return
			}
			tag = tag&0x7f | int(b[i])<<7
			i++
		}
		if number := tag >> 3; number == 0 || number >= 63 || numbers&(1<<number) != 0 {
			return
		}
		switch protowire.Type(tag & 7) {
		case protowire.BytesType:
			if i == len(b) {
				return
			}
			length := int(b[i])
			i++
			if length >= 0x80 {
				if i == len(b) || b[i] >= 0x80 {
					return
				}
				length = length&0x7f | int(b[i])<<7
				i++
			}
			i += length
		case protowire.VarintType:
			if i == len(b) || b[i] >= 0x80 {
				return
			}
			i++
		case protowire.Fixed32Type:
			i += 4
		case protowire.Fixed64Type:
			i += 8
		default:
			return
		}
		if i > len(b) {
			return
		}
	}
}

func malformed(at int, what string) error {
	return fmt.Errorf("%w: protobuf at byte %d: %s", ErrMalformed, at, what)
}
