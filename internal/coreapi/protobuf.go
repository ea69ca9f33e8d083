package coreapi

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendMessage appends a field that is a message.
func AppendMessage(b []byte, num protowire.Number, marshal func() ([]byte, error)) ([]byte, error) {
	m, err := marshal()
	if err != nil {
		return nil, err
	}
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), m), nil
}

// AppendText appends a field of text, and nothing for an empty one.
func AppendText(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

// AppendNumber appends a number, and nothing for none.
func AppendNumber(b []byte, num protowire.Number, p *int64) []byte {
	if p == nil {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(*p))
}

// AppendBool appends a truth, and nothing for false.
func AppendBool(b []byte, num protowire.Number, v bool) []byte {
	if !v {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), 1)
}

// Message encodes itself forwards into a buffer.
type Message interface {
	AppendTo([]byte) ([]byte, error)
}

// Size is the length of the encoded form.
func Size(m Message) int {
	b, err := m.AppendTo(nil)
	if err != nil {
		return 0 // Marshal reports it
	}
	return len(b)
}

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func MarshalTo(m Message, b []byte) (int, error) {
	out, err := m.AppendTo(b[:0])
	if err != nil {
		return 0, err
	}
	if len(out) > len(b) {
		return 0, fmt.Errorf("a message of %d bytes does not fit into %d", len(out), len(b))
	}
	return len(out), nil
}

// MarshalToEnd writes to the end of b, which has room for Size bytes.
func MarshalToEnd(m Message, b []byte) (int, error) {
	out, err := m.AppendTo(nil)
	if err != nil {
		return 0, err
	}
	if len(out) > len(b) {
		return 0, fmt.Errorf("a message of %d bytes does not fit into %d", len(out), len(b))
	}
	return copy(b[len(b)-len(out):], out), nil
}

// Value is one encoded field.
type Value struct {
	// Num is the number of the field.
	Num   protowire.Number
	typ   protowire.Type
	bytes []byte // of a field of bytes
	n     uint64 // of a field of type varint
}

// EachField calls f for every field that is a varint or bytes and skips others.
func EachField(data []byte, f func(Value) error) error {
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		v := Value{Num: num, typ: typ}
		switch typ {
		case protowire.VarintType:
			v.n, n = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(data)
		default:
			n = protowire.ConsumeFieldValue(num, typ, data)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}

func (v Value) want(typ protowire.Type) error {
	if v.typ != typ {
		return fmt.Errorf("field %d has wire type %d, want %d", v.Num, v.typ, typ)
	}
	return nil
}

// Message merges the field into m.
func (v Value) Message(m interface{ Unmarshal([]byte) error }) error {
	if err := v.want(protowire.BytesType); err != nil {
		return err
	}
	return m.Unmarshal(v.bytes)
}

// Text is the field as text.
func (v Value) Text() (string, error) { return string(v.bytes), v.want(protowire.BytesType) }

// Number is the field as a number.
func (v Value) Number() (int64, error) { return int64(v.n), v.want(protowire.VarintType) }

// Bool is the field as a truth.
func (v Value) Bool() (bool, error) { return v.n != 0, v.want(protowire.VarintType) }
