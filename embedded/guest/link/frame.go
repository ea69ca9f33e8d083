package link

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame is a header of headerSize bytes and a payload: the mark, the type, a
// reserved byte, the stream, the length of the payload, and a checksum of all
// that. The checksum is there to recognize the end of a session inside a frame,
// not for errors of the channel.
const (
	headerSize = 16
	maxPayload = 16 << 10

	mark0, mark1 = 0xa4, 0x5f
)

type frameType byte

const (
	frameOpen   frameType = iota + 1 // a new stream
	frameData                        // bytes of a stream
	frameWindow                      // payload: how many more bytes the peer may send
	frameFin                         // no more data of this stream
	frameReset                       // the stream is over
	framePing
	framePong
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errFrame says that what was read is not a frame of this session.
var errFrame = errors.New("not a frame")

type frame struct {
	kind    frameType
	stream  uint32
	payload []byte // valid until the next one is read
}

// appendFrame appends the frame's bytes.
func appendFrame(b []byte, kind frameType, stream uint32, payload []byte) []byte {
	at := len(b)
	b = append(b, mark0, mark1, byte(kind), 0)
	b = binary.BigEndian.AppendUint32(b, stream)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	sum := crc32.Update(crc32.Checksum(b[at:], castagnoli), castagnoli, payload)
	b = binary.BigEndian.AppendUint32(b, sum)
	return append(b, payload...)
}

// readFrame reads a frame into buf, which has room for a payload.
func readFrame(r *bufio.Reader, buf []byte) (frame, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return frame{}, err
	}
	if h[0] != mark0 || h[1] != mark1 {
		return frame{}, errFrame
	}
	n := binary.BigEndian.Uint32(h[8:])
	if n > maxPayload {
		return frame{}, fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	f := frame{kind: frameType(h[2]), stream: binary.BigEndian.Uint32(h[4:]), payload: buf[:n]}
	if _, err := io.ReadFull(r, f.payload); err != nil {
		return frame{}, err
	}
	sum := crc32.Update(crc32.Checksum(h[:12], castagnoli), castagnoli, f.payload)
	if sum != binary.BigEndian.Uint32(h[12:]) {
		return frame{}, fmt.Errorf("%w: wrong checksum", errFrame)
	}
	return f, nil
}

// newReader has room for what is looked for as a whole.
func newReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, headerSize+maxPayload) }
