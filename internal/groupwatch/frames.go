package groupwatch

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/watch"
)

// maxFrame is how large an event may be, in bytes. Objects of the API are smaller.
const maxFrame = 64 << 20

// Types of content.
const (
	jsonMedia     = "application/json"
	protobufMedia = "application/vnd.kubernetes.protobuf"
)

var (
	errFrame = errors.New("an event of a watch cannot be read")
	// magic is in front of an object in Kubernetes' protobuf form.
	magic = []byte("k8s\x00")
)

// frame is one event of a watch, as it came.
type frame struct {
	raw  []byte
	kind watch.EventType
	// key names the object, rev is its revision, 0 for none.
	key string
	rev int64
}

// frames reads the events of a watch.
type frames func() (*frame, error)

// read returns what reads events of a content type; ok is false for one that is not known.
func read(contentType string, body io.Reader) (_ frames, ok bool) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, false
	}
	r := bufio.NewReader(body)
	switch media {
	case jsonMedia:
		return func() (*frame, error) { return readJSON(r) }, true
	case protobufMedia:
		return func() (*frame, error) { return readProtobuf(r) }, true
	}
	return nil, false
}

// readJSON reads an event that ends with its line.
func readJSON(r *bufio.Reader) (*frame, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) && len(line) < maxFrame {
			continue
		}
		if err != nil {
			return nil, err
		}
		break
	}
	var event struct {
		Type   watch.EventType `json:"type"`
		Object struct {
			Metadata struct {
				Name            string `json:"name"`
				Namespace       string `json:"namespace"`
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
		} `json:"object"`
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	o := event.Object.Metadata
	return newFrame(line, event.Type, o.Namespace, o.Name, o.ResourceVersion)
}

func newFrame(raw []byte, kind watch.EventType, namespace, name, rev string) (*frame, error) {
	f := &frame{raw: raw, kind: kind, key: namespace + "/" + name}
	if kind == watch.Error {
		return f, nil
	}
	var err error
	if f.rev, err = strconv.ParseInt(rev, 10, 64); err != nil {
		return nil, fmt.Errorf("%w: it has the revision %q", errFrame, rev)
	}
	return f, nil
}

// readProtobuf reads an event behind its length.
func readProtobuf(r *bufio.Reader) (*frame, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxFrame {
		return nil, fmt.Errorf("%w: it has %d bytes", errFrame, n)
	}
	raw := make([]byte, len(length)+int(n))
	copy(raw, length[:])
	if _, err := io.ReadFull(r, raw[len(length):]); err != nil {
		return nil, err
	}
	kind, err := field(raw[len(length):], 1)
	if err != nil {
		return nil, err
	}
	// The event has a RawExtension, that an Unknown, that the object, that its metadata.
	object, err := path(raw[len(length):], 2, 1)
	if err != nil {
		return nil, err
	}
	object, ok := bytes.CutPrefix(object, magic)
	if !ok {
		return nil, fmt.Errorf("%w: its object is not in protobuf", errFrame)
	}
	if string(kind) == string(watch.Error) {
		return newFrame(raw, watch.Error, "", "", "")
	}
	meta, err := path(object, 2, 1)
	if err != nil {
		return nil, err
	}
	var name, namespace, rev string
	err = each(meta, func(num protowire.Number, value []byte) error {
		switch num {
		case 1:
			name = string(value)
		case 3:
			namespace = string(value)
		case 6:
			rev = string(value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return newFrame(raw, watch.EventType(kind), namespace, name, rev)
}

// path follows the numbers of fields that are messages.
func path(message []byte, numbers ...protowire.Number) ([]byte, error) {
	for _, num := range numbers {
		var err error
		if message, err = field(message, num); err != nil {
			return nil, err
		}
	}
	return message, nil
}

// field is the last field of a number that has bytes, nil for none.
func field(message []byte, num protowire.Number) ([]byte, error) {
	var found []byte
	err := each(message, func(n protowire.Number, value []byte) error {
		if n == num {
			found = value
		}
		return nil
	})
	return found, err
}

// each hands on the fields that have bytes.
func each(message []byte, f func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
		}
		message = message[n:]
		if typ == protowire.BytesType {
			value, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
			}
			if err := f(num, value); err != nil {
				return err
			}
			message = message[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(num, typ, message); n < 0 {
			return fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
		}
		message = message[n:]
	}
	return nil
}
