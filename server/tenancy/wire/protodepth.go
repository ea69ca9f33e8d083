package wire

import (
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoShape are the fields of a message that are messages, by their numbers.
type protoShape struct {
	fields map[protowire.Number]*protoShape
}

// shapeOf is the shape of the messages of a type.
func shapeOf(t reflect.Type, shapes map[reflect.Type]*protoShape) *protoShape {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if s := shapes[t]; s != nil {
		return s
	}
	s := &protoShape{fields: map[protowire.Number]*protoShape{}}
	shapes[t] = s // before it is complete: a message can hold its like
	switch t.Kind() {
	case reflect.Map:
		if isMessage(t.Elem()) {
			s.fields[entryValue] = shapeOf(t.Elem(), shapes)
		}
	case reflect.Struct:
		for i := range t.NumField() {
			number, ok := protoNumber(t.Field(i))
			if ok && isMessage(t.Field(i).Type) {
				s.fields[number] = shapeOf(t.Field(i).Type, shapes)
			}
		}
	}
	return s
}

func isMessage(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Map
}

// maxMessages is how deep messages may be nested: there can be two for what is one
// level in JSON.
const maxMessages = 2 * maxDepth

// limit refuses what would be too much work, see Limit. Upstream's readers of
// protobuf recurse without a limit, into schemas of custom resources, and a stack
// that is full ends the process.
func (s *protoShape) limit(b []byte, at, left int) error {
	if left == 0 {
		return malformed(at, "messages are nested too deep")
	}
	count := 0
	for scan := newScanner(b, at); ; {
		f, ok, err := scan.next()
		if err != nil || !ok {
			return err
		}
		if count++; count > maxMembers {
			return fmt.Errorf("%w: a message has more than %d fields", ErrTooLarge, maxMembers)
		}
		below := s.fields[f.number]
		if below == nil {
			continue
		}
		if f.kind != protowire.BytesType {
			return malformed(f.at, "a field has the wrong type")
		}
		if err := below.limit(f.value, f.at, left-1); err != nil {
			return err
		}
	}
}
