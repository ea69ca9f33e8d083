package merge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/codec"
)

// defaultWatch is how long a watch lasts that does not say it.
const defaultWatch = 10 * time.Minute

// localVersions are above every version of a server.
const localVersions = 1 << 62

// firstVersion is that of an empty set of a process that starts now.
func firstVersion() int64 { return localVersions + time.Now().UnixNano() }

// IsLocal reports whether a resource version is one of this package, of this process
// or another one. No server knows it.
func IsLocal(version string) bool {
	v, err := strconv.ParseUint(version, 10, 64)
	return err == nil && v >= localVersions
}

// serve answers a list or a watch.
func (s *set) serve(r *origin.Request) (*http.Response, error) {
	if r.OptionsErr != nil {
		return refuse(r, http.StatusBadRequest, metav1.StatusReasonBadRequest,
			"the query cannot be read: "+r.OptionsErr.Error())
	}
	o := &r.Options
	match, err := s.matcher(o)
	if err != nil {
		return refuse(r, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	if o.SendInitialEvents != nil {
		// A client lists and watches then, in two requests.
		return refuse(r, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			"sendInitialEvents: a node with several tenant partitions lists "+s.resource.Resource)
	}
	if r.Verb == origin.VerbWatch && o.ResourceVersion != "" && o.ResourceVersion != "0" {
		from, err := strconv.ParseInt(o.ResourceVersion, 10, 64)
		if err == nil {
			_, _, err = s.since(from)
		}
		if err != nil {
			return expired(r)
		}
		return s.watch(r, match, from, nil)
	}
	if o.Continue != "" {
		return expired(r) // there are no pages
	}
	objs, version, err := s.await(r.HTTP.Context())
	switch {
	case errors.Is(err, errUnknown):
		return refuse(r, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
			s.resource.Resource+": "+err.Error())
	case err != nil:
		return nil, err
	case o.ResourceVersionMatch == metav1.ResourceVersionMatchExact && o.ResourceVersion != formatVersion(version):
		return expired(r)
	}
	shown := objs[:0]
	for _, obj := range objs {
		if match(obj) {
			shown = append(shown, obj)
		}
	}
	if r.Verb == origin.VerbWatch {
		return s.watch(r, match, version, shown)
	}
	list := s.list()
	if err := meta.SetList(list, shown); err != nil {
		return nil, err
	}
	list.GetObjectKind().SetGroupVersionKind(s.gvk.GroupVersion().WithKind(s.gvk.Kind + "List"))
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion(formatVersion(version))
	return codec.Answer(r.HTTP, r.Accept, http.StatusOK, list)
}

func refuse(r *origin.Request, code int32, reason metav1.StatusReason, message string) (*http.Response, error) {
	return codec.Refuse(r.HTTP, r.Accept, code, reason, message)
}

func expired(r *origin.Request) (*http.Response, error) {
	return refuse(r, http.StatusGone, metav1.StatusReasonExpired, errExpired.Error())
}

// await is all that is shown, once it is known of every partition what it has. A
// partition is not waited for long (see feed).
func (s *set) await(ctx context.Context) ([]runtime.Object, int64, error) {
	for {
		objs, version, wait, err := s.all()
		if wait == nil {
			return objs, version, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// stream writes the events of one watch.
type stream struct {
	set   *set
	match matcher
	to    codec.EventWriter
	lasts time.Duration
	// bookmarks says that the client wants to know how far it has come.
	bookmarks bool
}

// streamBody is the body of a watch. To close it ends the watch.
type streamBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b streamBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// watch answers with the events since a version, after objs.
func (s *set) watch(r *origin.Request, match matcher, from int64, objs []runtime.Object) (*http.Response, error) {
	info, err := codec.Serializer(r.Accept)
	if err != nil {
		return nil, err
	}
	in, out := io.Pipe()
	to, err := codec.WriteEvents(info, out)
	if err != nil {
		return nil, err
	}
	w := &stream{set: s, match: match, to: to, lasts: defaultWatch, bookmarks: r.Options.AllowWatchBookmarks}
	if seconds := r.Options.TimeoutSeconds; seconds != nil && *seconds > 0 {
		w.lasts = time.Duration(*seconds) * time.Second
	}
	ctx, cancel := context.WithCancel(r.HTTP.Context())
	stop := context.AfterFunc(ctx, func() { _ = out.CloseWithError(context.Cause(ctx)) }) // never fails
	go func() {
		defer cancel()
		err := w.run(ctx, from, objs)
		stop()
		_ = out.CloseWithError(err) // never fails
	}()
	resp := codec.Response(r.HTTP, http.StatusOK, info.MediaType+";stream=watch")
	resp.Body = streamBody{in, cancel}
	return resp, nil
}

// run writes events until the watch ends, and returns the error for the reader.
func (w *stream) run(ctx context.Context, version int64, objs []runtime.Object) error {
	for _, obj := range objs {
		if err := w.to.Object(watch.Added, obj); err != nil {
			return err
		}
	}
	end := time.NewTimer(w.lasts)
	defer end.Stop()
	for {
		changes, more, err := w.set.since(version)
		if err != nil {
			gone := codec.Failure(http.StatusGone, metav1.StatusReasonExpired, err.Error())
			if err := w.to.Object(watch.Error, gone); err != nil {
				return err
			}
			return io.EOF
		}
		for _, c := range changes {
			if err := w.change(c); err != nil {
				return err
			}
			version = c.version
		}
		if len(changes) > 0 {
			continue // there may be more already
		}
		select {
		case <-more:
		case <-end.C:
			return w.finish(version)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// finish says how far the client has come, though it may have seen no event: so it
// can go on from there.
func (w *stream) finish(version int64) error {
	if !w.bookmarks {
		return io.EOF
	}
	mark := w.set.item()
	mark.GetObjectKind().SetGroupVersionKind(w.set.gvk)
	m, err := meta.Accessor(mark)
	if err != nil {
		return err
	}
	m.SetResourceVersion(formatVersion(version))
	if err := w.to.Object(watch.Bookmark, mark); err != nil {
		return err
	}
	return io.EOF
}

// change writes a change as those see it who asked for some of the objects.
func (w *stream) change(c change) error {
	was := c.old != nil && w.match(c.old)
	is := c.obj != nil && w.match(c.obj)
	switch {
	case is && was:
		return w.to.Object(watch.Modified, c.obj)
	case is:
		return w.to.Object(watch.Added, c.obj)
	case was && c.obj == nil:
		return w.to.Object(watch.Deleted, c.gone)
	case was:
		last := c.old.DeepCopyObject()
		m, err := meta.Accessor(last)
		if err != nil {
			return err
		}
		m.SetResourceVersion(formatVersion(c.version))
		return w.to.Object(watch.Deleted, last)
	}
	return nil
}
