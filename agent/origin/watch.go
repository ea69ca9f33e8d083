package origin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
)

// watchBody is the body of a watch. It takes the next event from the server
// when the reader has consumed the one before.
type watchBody struct {
	upstream io.Closer
	events   streaming.Decoder
	out      streaming.Encoder
	pending  bytes.Buffer
	codec    runtime.Serializer
	p        projector
	ctx      context.Context // of the request
	err      error
}

func newWatchBody(ctx context.Context, body io.ReadCloser, info runtime.SerializerInfo, p projector) (io.ReadCloser, error) {
	if info.StreamSerializer == nil {
		return nil, fmt.Errorf("%q is not a format of watches", info.MediaType)
	}
	stream := info.StreamSerializer
	w := &watchBody{upstream: body, codec: info.Serializer, p: p, ctx: ctx}
	w.events = streaming.NewDecoder(stream.NewFrameReader(body), stream.Serializer)
	w.out = streaming.NewEncoder(stream.NewFrameWriter(&w.pending), stream.Serializer)
	return w, nil
}

// Read implements io.Reader.
func (w *watchBody) Read(into []byte) (int, error) {
	for w.pending.Len() == 0 {
		if w.err != nil {
			return 0, w.err
		}
		w.err = w.next()
	}
	return w.pending.Read(into)
}

// Close implements io.Closer. It ends a Read that waits for the server.
func (w *watchBody) Close() error { return w.upstream.Close() }

// next puts the next event into pending, or nothing if it is left out.
func (w *watchBody) next() error {
	var event metav1.WatchEvent
	if _, _, err := w.events.Decode(nil, &event); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return err // as the reader of a watch expects it
		}
		return fmt.Errorf("reading a watch for the kubelet: %w", err)
	}
	kind := watch.EventType(event.Type)
	if kind == watch.Error {
		return w.out.Encode(&event)
	}
	obj, _, err := w.codec.Decode(event.Object.Raw, nil, nil)
	if err != nil {
		return fmt.Errorf("reading a watch for the kubelet: %w", err)
	}
	changed, omit, err := w.p.event(w.ctx, kind, obj)
	if err != nil {
		return fmt.Errorf("reading a watch for the kubelet: %w", err)
	}
	if omit {
		return nil
	}
	if changed {
		var raw bytes.Buffer
		if err := w.codec.Encode(obj, &raw); err != nil {
			return fmt.Errorf("reading a watch for the kubelet: %w", err)
		}
		event.Object.Raw = raw.Bytes()
	}
	return w.out.Encode(&event)
}
