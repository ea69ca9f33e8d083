package mux

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// frame is a message that nobody has decoded. Sending it gives it away.
type frame struct{ data mem.BufferSlice }

func newFrame(parts ...[]byte) *frame {
	f := &frame{}
	for _, p := range parts {
		if len(p) > 0 {
			f.data = append(f.data, mem.SliceBuffer(p))
		}
	}
	return f
}

// take returns the content, which is the caller's, and empties the frame.
func (f *frame) take() []byte {
	data := f.data.Materialize()
	f.data.Free()
	f.data = nil
	return data
}

// rawCodec hands frames on and leaves other messages to gRPC's own codec,
// whose name it has.
type rawCodec struct{}

// Name implements encoding.CodecV2.
func (rawCodec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*frame); ok {
		return f.data, nil
	}
	return encoding.GetCodecV2(proto.Name).Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		data.Ref() // the caller frees it
		f.data = data
		return nil
	}
	return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
}

func unmarshal(data []byte, message any) error {
	if err := encoding.GetCodecV2(proto.Name).Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, message); err != nil {
		return fmt.Errorf("reading a %T: %w", message, err)
	}
	return nil
}

func marshal(message any) ([]byte, error) {
	data, err := encoding.GetCodecV2(proto.Name).Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("writing a %T: %w", message, err)
	}
	defer data.Free()
	return data.Materialize(), nil
}

// field returns the first field of that number that holds bytes, a string or a
// message; nil if there is none. What is wrong with a message is for the
// runtime to say, so the fields end where they cannot be read.
func field(message []byte, number protowire.Number) []byte {
	var found []byte
	eachField(message, func(n protowire.Number, value []byte) bool {
		if n == number {
			found = value
		}
		return n != number
	})
	return found
}

// eachField calls f for every field with bytes until it returns false.
func eachField(message []byte, f func(number protowire.Number, value []byte) bool) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 || !f(number, value) {
			return
		}
		message = message[n:]
	}
}

// number returns a field that holds a number, 0 if there is none.
func number(message []byte, wanted protowire.Number) uint64 {
	for len(message) > 0 {
		at, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0
		}
		message = message[n:]
		if at == wanted && kind == protowire.VarintType {
			value, _ := protowire.ConsumeVarint(message)
			return value
		}
		if n = protowire.ConsumeFieldValue(at, kind, message); n < 0 {
			return 0
		}
		message = message[n:]
	}
	return 0
}

// eachItem calls f for every item of a list: all answers with lists have them
// as their field 1, as lists have their filter in field 1 of the request.
func eachItem(list []byte, f func(item []byte)) {
	eachField(list, func(number protowire.Number, value []byte) bool {
		if number == 1 {
			f(value)
		}
		return true
	})
}

// id is field 1 of a request about one sandbox or container, and of an item.
func id(message []byte) []byte { return field(message, 1) }

// appendItem puts an item at the end of a list.
func appendItem(list, item []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(list, 1, protowire.BytesType), item)
}
