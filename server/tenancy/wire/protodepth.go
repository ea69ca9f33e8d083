package wire

import (
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoShape are the fields of a message that can hold the message itself again,
// by their numbers. Whoever reads such messages recurses into each.
type protoShape struct {
	fields map[protowire.Number]*protoShape
}

// recursive is the shape of the messages of a type, nil if none of them can hold
// its like. Of Kubernetes' only schemas can, in definitions of custom resources.
func recursive(t reflect.Type) *protoShape {
	shapes := map[reflect.Type]*protoShape{}
	shape := recursiveShape(t, shapes)
	for again := true; again; {
		again = false
		for _, s := range shapes {
			for number, below := range s.fields {
				if len(below.fields) == 0 {
					delete(s.fields, number)
					again = true
				}
			}
		}
	}
	if len(shape.fields) == 0 {
		return nil
	}
	return shape
}

// recursiveShape is the shape with the fields of all messages.
func recursiveShape(t reflect.Type, shapes map[reflect.Type]*protoShape) *protoShape {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if s := shapes[t]; s != nil {
		return s
	}
	s := &protoShape{fields: map[protowire.Number]*protoShape{}}
	shapes[t] = s
	switch t.Kind() {
	case reflect.Map:
		s.fields[entryValue] = recursiveShape(t.Elem(), shapes)
	case reflect.Struct:
		for i := range t.NumField() {
			if number, ok := protoNumber(t.Field(i)); ok {
				s.fields[number] = recursiveShape(t.Field(i).Type, shapes)
			}
		}
	}
	return s
}

// maxMessages is how deep such messages may be nested: there can be two for what
// is one level in JSON.
const maxMessages = 2 * maxDepth

// limitDepth refuses messages that are nested too deep. Upstream's readers of
// protobuf have no limit, and a stack that is full ends the process.
func (s *protoShape) limitDepth(b []byte, at, left int) error {
	if left == 0 {
		return malformed(at, "messages are nested too deep")
	}
	for scan := newScanner(b, at); ; {
		f, ok, err := scan.next()
		if err != nil || !ok {
			return err
		}
		below := s.fields[f.number]
		if below == nil {
			continue
		}
		if f.kind != protowire.BytesType {
			return malformed(f.at, "a field has the wrong type")
		}
		if err := below.limitDepth(f.value, f.at, left-1); err != nil {
			return err
		}
	}
}
