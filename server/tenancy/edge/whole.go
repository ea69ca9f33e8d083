package edge

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/klauspost/compress/gzip"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// whole is the size up to which the answer is projected as a whole.
func (a *answer) whole() int {
	if a.media == ofJSON || a.media == inYAML {
		return longestYAML
	}
	return wholeUpTo
}

// noYAML has an answer be JSON of which there is no YAML, if the client takes that or has
// changed something: it must not hear that it failed.
func (a *answer) noYAML() error {
	switch {
	case a.media == inYAML, a.media == ofJSON && a.asks.yaml.only && a.asks.reads:
		return tooLongForYAML()
	case a.media == ofJSON:
		a.media = inJSON
	}
	return nil
}

// tooMuchUnread is the answer to whoever does not read what was answered before.
func tooMuchUnread() error {
	return apierrors.NewTooManyRequests("long answers to earlier requests of this tenant have not been read yet: "+
		"read them, or ask for less with a limit", retryAfter)
}

func (a *answer) finishWhole() {
	var raw, body []byte
	if a.buffer != nil {
		raw = a.buffer.Bytes()
	}
	out := wholes.Get().(*bytes.Buffer) //nolint:errcheck // nothing else is in it
	defer giveBack(out)
	if a.media == ofJSON {
		body, a.err = a.projector.JSONAsYAML(a.resource, raw)
		if errors.Is(a.err, wire.ErrTooLarge) {
			a.err = a.noYAML()
		}
	} else {
		out.Grow(wire.Room(len(raw)))
	}
	switch {
	case a.err != nil:
	case a.media == ofJSON:
		a.Header().Set("Content-Type", inYAML)
	case a.media == protobuf:
		body, a.err = a.projector.AppendProto(out.AvailableBuffer(), wire.Out, a.resource, raw)
	case a.media == inYAML:
		body, a.err = a.projector.YAML(a.resource, raw)
	default:
		body, a.err = a.projector.AppendJSON(out.AvailableBuffer(), wire.Out, a.resource, raw)
	}
	if a.err != nil {
		return
	}
	if kept := len(raw) + len(body); kept > 2*wholeUpTo {
		if !a.seat.Keep(kept) && a.asks.reads {
			a.err = tooMuchUnread()
			return
		}
		defer a.seat.Let(kept)
	}
	if a.asks.zip && len(body) > gzipFrom {
		var zipped bytes.Buffer
		a.gzip = gzips.Get().(*gzip.Writer)
		a.gzip.Reset(&zipped)
		_, err := a.gzip.Write(body)
		if err == nil {
			err = a.gzip.Close()
		}
		if err != nil {
			a.err = fmt.Errorf("compressing the answer: %w", err)
			return
		}
		body = zipped.Bytes()
		a.Header().Set("Content-Encoding", "gzip")
		a.Header().Add("Vary", "Accept-Encoding")
	}
	if a.Header().Get("Content-Length") != "" || len(body) < gzipFrom {
		a.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	a.send()
	if _, err := a.ResponseWriter.Write(body); err != nil {
		a.err = err
	}
}

// releaseBuffer returns the buffer to its pool.
func (a *answer) releaseBuffer() {
	if a.buffer != nil {
		giveBack(a.buffer)
	}
	a.buffer = nil
}

// giveBack returns a buffer to its pool, unless it is larger than most answers need.
func giveBack(b *bytes.Buffer) {
	if b.Cap() <= 2*wholeUpTo {
		b.Reset()
		wholes.Put(b)
	}
}
