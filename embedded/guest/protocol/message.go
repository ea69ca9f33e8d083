package protocol

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// maxMessage is the size of the largest message. The largest are containers
// with their environment.
const maxMessage = 4 << 20

// WriteMessage writes a message.
func WriteMessage(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(data) > maxMessage {
		return fmt.Errorf("a message of %d bytes; at most %d are possible", len(data), maxMessage)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...))
	return err
}

// ReadMessage reads a message into v.
func ReadMessage(r io.Reader, v any) error {
	var h [4]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(h[:])
	if n > maxMessage {
		return fmt.Errorf("a message of %d bytes; at most %d are possible", n, maxMessage)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// Record is a piece of a container's output.
type Record struct {
	// Stream is 1 or 2. In the last record, which has no data, it is 0.
	Stream int
	// Offset of Data in all output of the container.
	Offset int64
	At     time.Time
	Data   []byte
}

const (
	recordHeader = 1 + 8 + 8 + 4
	// MaxRecord is the size of the largest data of a record.
	MaxRecord = 32 << 10
)

// WriteRecord writes a record.
func WriteRecord(w io.Writer, r Record) error {
	b := make([]byte, 0, recordHeader+len(r.Data))
	b = append(b, byte(r.Stream))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Offset))
	b = binary.BigEndian.AppendUint64(b, uint64(r.At.UnixNano()))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Data)))
	_, err := w.Write(append(b, r.Data...))
	return err
}

// ReadRecord reads a record.
func ReadRecord(r io.Reader) (Record, error) {
	var h [recordHeader]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return Record{}, err
	}
	n := binary.BigEndian.Uint32(h[17:])
	if n > MaxRecord || h[0] > 2 {
		return Record{}, fmt.Errorf("a record of %d bytes of stream %d", n, h[0])
	}
	rec := Record{
		Stream: int(h[0]),
		Offset: int64(binary.BigEndian.Uint64(h[1:])),
		At:     time.Unix(0, int64(binary.BigEndian.Uint64(h[9:]))),
		Data:   make([]byte, n),
	}
	_, err := io.ReadFull(r, rec.Data)
	return rec, err
}

// WriteAck acknowledges all output before the offset.
func WriteAck(w io.Writer, offset int64) error {
	_, err := w.Write(binary.BigEndian.AppendUint64(nil, uint64(offset)))
	return err
}

// ReadAck reads what was acknowledged.
func ReadAck(r io.Reader) (int64, error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(b[:])), nil
}
