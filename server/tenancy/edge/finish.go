package edge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// finish sends the rest. An error after the header was sent cannot be reported any
// more: the connection is cut, so that the client does not take a part for the whole.
func (a *answer) finish() error {
	if a.socket != nil {
		return a.finishSocket()
	}
	if a.hijacked {
		return nil
	}
	return a.finishHTTP()
}

// finishSocket is finish for a watch over a WebSocket, which is still an answer
// over HTTP when there was nothing to watch.
func (a *answer) finishSocket() error {
	if !a.hijacked {
		return a.finishHTTP()
	}
	if a.err == nil {
		a.err = a.stream.Close()
	}
	a.socket.complete = a.err == nil
	if isForeign(a.err) {
		logrus.WithField("component", "tenancy").WithError(a.err).Error("A watch of a tenant was cut off")
	}
	return nil
}

// isForeign reports whether an answer failed on content that a tenant must not see.
func isForeign(err error) bool {
	return errors.Is(err, wire.ErrForeign) || errors.Is(err, wire.ErrMalformed)
}

func (a *answer) finishHTTP() error {
	if a.code == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.project && a.stream == nil && a.err == nil {
		a.finishWhole()
	}
	if a.stream != nil && a.err == nil {
		a.err = a.stream.Close()
		if a.gzip != nil && a.err == nil {
			a.err = a.gzip.Close()
		}
		if a.piecer != nil && a.err == nil {
			a.err = a.piecer.Flush()
		}
	}
	a.release()
	switch {
	case a.err == nil:
		return nil
	case !a.sent:
		a.Header().Del("Content-Length")
		a.Header().Del("Content-Encoding")
		if status := apierrors.APIStatus(nil); errors.As(a.err, &status) {
			return a.err
		}
		return refuseAnswer(a.err)
	case isForeign(a.err):
		logrus.WithField("component", "tenancy").WithError(a.err).Error("An answer to a tenant was cut off")
		a.cut()
		return nil
	default:
		return nil // the client is gone
	}
}

// release returns the pooled writers. They keep no reference to the connection.
func (a *answer) release() {
	a.releaseBuffer()
	if a.gzip != nil {
		a.gzip.Reset(io.Discard)
		gzips.Put(a.gzip)
		a.gzip = nil
	}
	if a.piecer != nil {
		a.piecer.Reset(io.Discard)
		piecers.Put(a.piecer)
		a.piecer = nil
	}
}

// cut ends the connection, or the stream of it, before the end of the answer.
func (a *answer) cut() {
	past := time.Unix(1, 0)
	if err := http.NewResponseController(a.ResponseWriter).SetWriteDeadline(past); err != nil {
		logrus.WithField("component", "tenancy").WithError(err).Error("The connection could not be cut")
	}
}

// refuseAnswer is the error in place of an answer that the tenant must not see.
func refuseAnswer(err error) error {
	logrus.WithField("component", "tenancy").WithError(err).Error("An answer to a tenant was refused")
	return apierrors.NewInternalError(errors.New("the answer could not be shown in this space"))
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
		if a.asks.indent && a.err == nil {
			body, a.err = indented(body)
		}
	}
	if a.err != nil {
		return
	}
	if kept := len(raw) + len(body); kept > 2*wholeUpTo {
		if !a.seat.Keep(kept) && a.asks.reads() {
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

func (a *answer) send() {
	if !a.sent {
		a.sent = true
		a.ResponseWriter.WriteHeader(a.code)
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
