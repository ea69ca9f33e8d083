package origin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/agent/origin/codec"
)

// watchOptions make a watchBody.
type watchOptions struct {
	info runtime.SerializerInfo
	// server is the body of the server's answer; nil if there is none.
	server io.ReadCloser
	// ofServer changes the events of the server.
	ofServer change
	// local are the events of this node; nil if it has none.
	local *localWatch
}

// watchBody is the body of a watch: the server's events, each decoded, changed and
// encoded once, and those of this node.
type watchBody struct {
	watchOptions
	ctx  context.Context // of the request
	pipe *io.PipeReader
	out  *io.PipeWriter
	enc  codec.EventWriter

	closing sync.Once
	done    chan struct{}
}

// serverEvent is one event of the server, or why there are no more.
type serverEvent struct {
	metav1.WatchEvent
	err error
}

func newWatchBody(ctx context.Context, o watchOptions) (io.ReadCloser, error) {
	if o.local == nil {
		o.local = &localWatch{}
	}
	w := &watchBody{watchOptions: o, ctx: ctx, done: make(chan struct{})}
	w.pipe, w.out = io.Pipe()
	var err error
	if w.enc, err = codec.WriteEvents(o.info, w.out); err != nil {
		return nil, err
	}
	var events codec.EventReader
	if w.server != nil {
		if events, err = codec.ReadEvents(o.info, w.server); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = w.Close() }) // fails only if it is closed already
	w.local.subscribe()
	received := make(chan serverEvent)
	if w.server != nil {
		go w.receive(events, received)
	}
	go func() {
		defer stop()
		err := w.pump(received)
		w.local.unsubscribe()
		_ = w.out.CloseWithError(err) // never fails
	}()
	return w, nil
}

// Read implements io.Reader.
func (w *watchBody) Read(into []byte) (int, error) { return w.pipe.Read(into) }

// Close implements io.Closer. It ends a Read that waits for the server.
func (w *watchBody) Close() error {
	var err error
	w.closing.Do(func() {
		close(w.done)
		_ = w.pipe.Close() // never fails
		if w.server != nil {
			err = w.server.Close()
		}
	})
	return err
}

// receive reads the server's events.
func (w *watchBody) receive(events codec.EventReader, out chan<- serverEvent) {
	for {
		var e serverEvent
		e.WatchEvent, e.err = events.Next()
		select {
		case out <- e:
		case <-w.done:
			return
		}
		if e.err != nil {
			return
		}
	}
}

// errExpired ends a watch whose client has to list again.
var errExpired = errors.New("the client has to list again")

// pump writes events until there are no more, and returns the error for the
// reader.
func (w *watchBody) pump(received <-chan serverEvent) error {
	l := w.local
	err := l.begin(w.encode)
	var ended <-chan time.Time // a server ends its watches itself
	if w.server == nil {
		timer := time.NewTimer(l.lasts)
		defer timer.Stop()
		ended = timer.C
	}
	for err == nil {
		select {
		case <-w.done:
			err = io.ErrClosedPipe
		case <-ended:
			err = io.EOF
		case <-l.offline:
			err = errExpired
		case <-l.again:
			err = errExpired
		case <-l.signal:
			err = l.changes(w.encode)
		case e := <-received:
			err = w.serverEvent(e)
		}
	}
	if errors.Is(err, errExpired) {
		return w.expire()
	}
	return err
}

// expire asks the client to list again.
func (w *watchBody) expire() error {
	status := codec.Failure(http.StatusGone, metav1.StatusReasonExpired,
		"the answers to this node have another origin now")
	if err := w.encode(watch.Error, status); err != nil {
		return err
	}
	return io.EOF
}

// serverEvent writes an event of the server, unless it is left out.
func (w *watchBody) serverEvent(e serverEvent) error {
	if errors.Is(e.err, io.EOF) || errors.Is(e.err, io.ErrUnexpectedEOF) {
		return e.err // as the reader of a watch expects it
	}
	if e.err != nil {
		return reading(e.err)
	}
	kind := watch.EventType(e.Type)
	switch kind {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
	default:
		return w.enc.Event(&e.WatchEvent)
	}
	obj, _, err := w.info.Serializer.Decode(e.Object.Raw, nil, nil)
	if err != nil {
		return reading(err)
	}
	changed, omit, err := w.ofServer.event(w.ctx, kind, obj)
	switch {
	case err != nil:
		return reading(err)
	case omit:
		return nil
	case changed:
		return w.encode(kind, obj)
	}
	return w.enc.Event(&e.WatchEvent)
}

// encode writes an event of an object, whose kind is set.
func (w *watchBody) encode(kind watch.EventType, obj runtime.Object) error {
	if err := w.enc.Object(kind, obj); err != nil {
		return reading(err)
	}
	return nil
}

func reading(err error) error { return fmt.Errorf("reading a watch for the kubelet: %w", err) }
