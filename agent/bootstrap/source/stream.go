package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
)

const (
	// defaultWatch is how long a watch lasts that does not say it.
	defaultWatch = 10 * time.Minute
	// detachedWatch is how long a watch lasts when the server is away; the
	// next one looks for it again.
	detachedWatch = 3 * time.Second
)

// stream is the body of a watch: what the server says, and what happens to the
// bootstrap pods.
type stream struct {
	source  *Source
	res     *resource
	version string // the last one seen
	in      io.ReadCloser
	// offline is closed when there is a server for the first time; nil for
	// watches that do not wait for that.
	offline <-chan struct{}
	// again is closed when the client has to list again; nil if nothing has it.
	again  <-chan struct{}
	pipe   *io.PipeReader
	out    *io.PipeWriter
	events *eventWriter

	closing sync.Once
	done    chan struct{}

	// Changes of bootstrap pods, guarded by the source's streamsMu.
	queue  []store.Change
	signal chan struct{}
}

// serverEvent is one event of the server, or why there are no more.
type serverEvent struct {
	metav1.WatchEvent
	err error
}

// watchOffline answers with a watch that tells of bootstrap pods only, and ends
// when there is a server.
func (s *Source) watchOffline(r *http.Request, res *resource) (*http.Response, error) {
	info, err := accepted(r)
	if err != nil {
		return nil, err
	}
	w := s.newStream(r, res, info, nil, s.online)
	return response(r, http.StatusOK, info.MediaType+";stream=watch", w, -1), nil
}

// watchDetached answers a watch while the server is away: with what happens to
// bootstrap pods, for a while.
func (s *Source) watchDetached(r *http.Request, res *resource) (*http.Response, error) {
	info, err := accepted(r)
	if err != nil {
		return nil, err
	}
	w := s.newStream(r, res, info, nil, nil)
	return response(r, http.StatusOK, info.MediaType+";stream=watch", w, -1), nil
}

// watchOnline passes a watch of the server on.
func (s *Source) watchOnline(r *http.Request, res *resource, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(r)
	if err != nil {
		if _, ok := s.detached(r, res); ok {
			return s.watchDetached(r, res)
		}
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return resp, nil
	}
	info, err := serializer(resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	resp.Body = s.newStream(r, res, info, resp.Body, nil)
	return resp, nil
}

func (s *Source) newStream(r *http.Request, res *resource, info runtime.SerializerInfo, in io.ReadCloser, offline <-chan struct{}) *stream {
	w := &stream{
		source: s, res: res, version: r.URL.Query().Get("resourceVersion"), in: in, offline: offline,
		done: make(chan struct{}), signal: make(chan struct{}, 1),
	}
	if offline != nil {
		w.again = s.lacksNode(res, w.version)
	}
	w.pipe, w.out = io.Pipe()
	w.events = newEventWriter(info, w.out)
	stop := context.AfterFunc(r.Context(), func() { _ = w.Close() }) // reports only what is closed already
	expired := false
	if res == s.resources[podsPath] {
		// Before the store is read, so that no change falls in between.
		s.streamsMu.Lock()
		expired = s.removed // what was shown before is not all there any more
		s.streams[w] = struct{}{}
		s.streamsMu.Unlock()
	}
	received := make(chan serverEvent)
	if in != nil {
		go w.receive(info, received)
	}
	lasts := defaultWatch
	if seconds, err := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")); err == nil && seconds > 0 {
		lasts = time.Duration(seconds) * time.Second
	}
	if in == nil && offline == nil {
		lasts = min(lasts, detachedWatch)
	}
	go func() {
		defer stop()
		err := w.pump(received, expired, lasts)
		s.streamsMu.Lock()
		delete(s.streams, w)
		s.streamsMu.Unlock()
		_ = w.out.CloseWithError(err) // never fails
	}()
	return w
}

// Read implements io.Reader.
func (w *stream) Read(into []byte) (int, error) { return w.pipe.Read(into) }

// Close implements io.Closer.
func (w *stream) Close() error {
	var err error
	w.closing.Do(func() {
		close(w.done)
		_ = w.pipe.Close() // never fails
		if w.in != nil {
			err = w.in.Close()
		}
	})
	return err
}

// receive reads the server's events.
func (w *stream) receive(info runtime.SerializerInfo, out chan<- serverEvent) {
	events := streaming.NewDecoder(info.StreamSerializer.NewFrameReader(w.in), info.StreamSerializer.Serializer)
	for {
		var e serverEvent
		if _, _, err := events.Decode(nil, &e.WatchEvent); err != nil {
			e.err = err
		}
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

// pump writes events until there are no more, and returns what the reader sees
// then.
func (w *stream) pump(received <-chan serverEvent, expired bool, lasts time.Duration) error {
	if expired {
		return w.expire()
	}
	if err := w.localPods(); err != nil {
		return err
	}
	end := time.NewTimer(lasts)
	defer end.Stop()
	for {
		var err error
		select {
		case <-w.done:
			return io.ErrClosedPipe
		case <-end.C:
			if w.in == nil {
				return io.EOF
			} // a server ends it itself
		case <-w.offline:
			err = errExpired
		case <-w.again:
			err = errExpired
		case <-w.signal:
			err = w.localChanges()
		case e := <-received:
			err = w.serverEvent(e)
		}
		switch {
		case errors.Is(err, errExpired):
			return w.expire()
		case err != nil:
			return err
		}
	}
}

// expire tells the client to list again.
func (w *stream) expire() error {
	status := failure(http.StatusGone, metav1.StatusReasonExpired, "what this node is told comes from elsewhere now")
	if err := w.events.object(string(watch.Error), &status); err != nil {
		return err
	}
	return io.EOF
}

// localPods tells of every bootstrap pod again: what an earlier watch was told
// may not have arrived.
func (w *stream) localPods() error {
	if w.res != w.source.resources[podsPath] {
		return nil
	}
	for _, e := range w.source.Store.List() {
		if err := w.tell(store.Change{Entry: e}); err != nil {
			return err
		}
	}
	return nil
}

func (w *stream) localChanges() error {
	w.source.streamsMu.Lock()
	queue := w.queue
	w.queue = nil
	w.source.streamsMu.Unlock()
	for _, c := range queue {
		if err := w.tell(c); err != nil {
			return err
		}
	}
	return nil
}

// tell writes what happened to a bootstrap pod, unless the server has spoken
// about it since.
func (w *stream) tell(c store.Change) error {
	s := w.source
	e, ok := s.Store.ByKey(c.Entry.Key())
	switch {
	case c.Removed && !ok && s.Live(c.Entry.Key()) == nil:
		return w.events.object(string(watch.Deleted), asOfServer(c.Entry.Pod, w.version))
	case c.Removed, !ok, e.State == store.Seen, e.Pod.UID != c.Entry.Pod.UID:
		return nil
	}
	if live := s.Live(e.Key()); e.State == store.Persisted && live != nil && e.Is(live) {
		return nil // in the checkpoint, from before this process
	}
	return w.events.object(string(watch.Modified), asOfServer(e.Pod, w.version))
}

// serverEvent passes an event of the server on, or not.
func (w *stream) serverEvent(e serverEvent) error {
	if e.err != nil {
		return e.err // as the reader of a watch expects it
	}
	kind := watch.EventType(e.Type)
	switch kind {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
	default:
		return w.events.raw(&e.WatchEvent)
	}
	obj, _, err := w.events.info.Serializer.Decode(e.Object.Raw, nil, nil)
	if err != nil {
		return fmt.Errorf("reading a watch of %s: %w", w.res.name, err)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("reading a watch of %s: %w", w.res.name, err)
	}
	w.version = m.GetResourceVersion()
	if kind == watch.Bookmark {
		w.source.reached(w.res, w.version)
		return w.events.raw(&e.WatchEvent)
	}
	key, err := keyOf(obj)
	if err != nil {
		return err
	}
	pass := true
	if pod, ok := obj.(*corev1.Pod); ok && w.res == w.source.resources[podsPath] {
		pass = w.source.observe(kind, pod)
	}
	if kind == watch.Deleted {
		w.source.drop(w.res, key)
	} else {
		w.source.set(w.res, key, obj)
	}
	w.source.reached(w.res, w.version)
	if !pass {
		return nil
	}
	return w.events.raw(&e.WatchEvent)
}

// changed is called by the store.
func (s *Source) changed(c store.Change) {
	s.streamsMu.Lock()
	defer s.streamsMu.Unlock()
	if c.Removed {
		s.removed = true
	}
	for w := range s.streams {
		w.queue = append(w.queue, c)
		select {
		case w.signal <- struct{}{}:
		default: // it has one waiting
		}
	}
}
