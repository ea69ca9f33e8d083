package coreapi

import (
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
)

// Protobuf encodes the objects of a type, and those in them, by the protobuf tags of their
// fields, in the order in which the fields stand in the type.
type Protobuf[T any] struct {
	message message
	err     error
}

// ProtobufOf reads the tags of a type once. What is wrong with them is said by every use.
func ProtobufOf[T any]() Protobuf[T] {
	m, err := messageOf(reflect.TypeFor[T]())
	return Protobuf[T]{m, err}
}

// Marshal returns the encoded form.
func (p Protobuf[T]) Marshal(in *T) ([]byte, error) {
	if p.err != nil {
		return nil, p.err
	}
	return p.message.appendTo(nil, reflect.ValueOf(in).Elem())
}

// Size is the length of the encoded form.
func (p Protobuf[T]) Size(in *T) int {
	b, err := p.Marshal(in)
	if err != nil {
		return 0 // Marshal reports it
	}
	return len(b)
}

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (p Protobuf[T]) MarshalTo(in *T, b []byte) (int, error) {
	out, err := p.fitting(in, b)
	return copy(b, out), err
}

// MarshalToEnd writes to the end of b, which has room for Size bytes.
func (p Protobuf[T]) MarshalToEnd(in *T, b []byte) (int, error) {
	out, err := p.fitting(in, b)
	if err != nil {
		return 0, err
	}
	return copy(b[len(b)-len(out):], out), nil
}

func (p Protobuf[T]) fitting(in *T, b []byte) ([]byte, error) {
	out, err := p.Marshal(in)
	if err == nil && len(out) > len(b) {
		return nil, fmt.Errorf("a message of %d bytes does not fit into %d", len(out), len(b))
	}
	return out, err
}

// Unmarshal merges an encoded object into in.
func (p Protobuf[T]) Unmarshal(in *T, data []byte) error {
	if p.err != nil {
		return p.err
	}
	return p.message.read(data, reflect.ValueOf(in).Elem())
}

// message is how a struct is encoded.
type message []taggedField

// taggedField is a field of a struct with its number.
type taggedField struct {
	index int
	num   protowire.Number
	form
}

func (m message) appendTo(b []byte, v reflect.Value) ([]byte, error) {
	var err error
	for _, f := range m {
		if v := v.Field(f.index); !f.scalar || !v.IsZero() {
			if b, err = f.append(b, f.num, v); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// read merges an encoded message into v.
func (m message) read(data []byte, v reflect.Value) error {
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(num, typ, data); n < 0 {
			return protowire.ParseError(n)
		}
		for _, f := range m {
			if f.num != num {
				continue
			}
			if typ != f.wire {
				return fmt.Errorf("field %d has wire type %d, want %d", num, typ, f.wire)
			}
			if err := f.read(data[:n], v.Field(f.index)); err != nil {
				return fmt.Errorf("field %d: %w", num, err)
			}
		}
		data = data[n:]
	}
	return nil
}
