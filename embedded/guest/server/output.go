package server

import (
	"os"
	"sync"
	"time"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// maxOutput is how much output is kept that no host has acknowledged.
const maxOutput = 1 << 20

// output keeps what a container writes until it is acknowledged.
type output struct {
	mu      sync.Mutex
	changed *sync.Cond
	records []protocol.Record // not acknowledged
	size    int               // of their data
	total   int64             // offset of what is written next
	writers int
	dropped bool // nobody will ever read it
}

func newOutput(writers int) *output {
	o := &output{writers: writers}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// write keeps data; it waits while there is too much.
func (o *output) write(stream int, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.size >= maxOutput && !o.dropped {
		o.changed.Wait()
	}
	if o.dropped {
		return
	}
	r := protocol.Record{Stream: stream, Offset: o.total, At: time.Now(), Data: data}
	o.records = append(o.records, r)
	o.size += len(data)
	o.total += int64(len(data))
	o.changed.Broadcast()
}

// finish says that one of the writers is done.
func (o *output) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writers--
	o.changed.Broadcast()
}

// drop gives up the output, so that no writer waits.
func (o *output) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped, o.records, o.size = true, nil, 0
	o.changed.Broadcast()
}

// acknowledge forgets what is before the offset.
func (o *output) acknowledge(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for ; n < len(o.records); n++ {
		r := &o.records[n]
		end := r.Offset + int64(len(r.Data))
		if end > offset {
			if cut := int(offset - r.Offset); cut > 0 {
				r.Data = r.Data[cut:]
				r.Offset = offset
				o.size -= cut
			}
			break
		}
		o.size -= len(r.Data)
	}
	o.records = append([]protocol.Record(nil), o.records[n:]...)
	o.changed.Broadcast()
}

// next waits for the first record at or after the offset. At the end of the
// output, or when stop is closed and wake was called, it has the stream 0.
func (o *output) next(offset int64, stop <-chan struct{}) protocol.Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for _, r := range o.records {
			if r.Offset+int64(len(r.Data)) <= offset {
				continue
			}
			if cut := offset - r.Offset; cut > 0 {
				r.Data, r.Offset = r.Data[cut:], offset
			}
			return r
		}
		select {
		case <-stop:
			return protocol.Record{}
		default:
		}
		if o.writers == 0 || o.dropped {
			return protocol.Record{Offset: o.total, At: time.Now()}
		}
		o.changed.Wait()
	}
}

// waitAcknowledged returns when all output was acknowledged and there will be no
// more, or when it is too late.
func (o *output) waitAcknowledged(late time.Time) {
	timer := time.AfterFunc(time.Until(late), o.wake)
	defer timer.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for (o.writers > 0 || len(o.records) > 0) && !o.dropped && time.Now().Before(late) {
		o.changed.Wait()
	}
}

// wake lets next look at its stop again.
func (o *output) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
}

// lingering is how long the output of a process that ended is waited for when
// another process holds it open.
const lingering = 500 * time.Millisecond

// pump reads from a process until the end of the stream, or until nothing comes
// any more after exited was closed.
func pump(from *os.File, exited <-chan struct{}, to func([]byte) error) {
	over := make(chan struct{})
	defer close(over)
	var mu sync.Mutex
	ended := false
	go func() {
		select {
		case <-exited:
			mu.Lock()
			ended = true
			_ = from.SetReadDeadline(time.Now().Add(lingering))
			mu.Unlock()
		case <-over:
		}
	}()
	for {
		buf := make([]byte, protocol.MaxRecord)
		n, err := from.Read(buf)
		if n > 0 {
			// A small write must not hold a large buffer.
			if to(append([]byte(nil), buf[:n]...)) != nil {
				return
			}
		}
		if err != nil { // io.EOF, the end of a terminal (EIO), or too late
			return
		}
		mu.Lock()
		if ended {
			_ = from.SetReadDeadline(time.Now().Add(lingering))
		}
		mu.Unlock()
	}
}

// closeAll closes what is not nil.
func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
