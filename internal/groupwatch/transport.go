package groupwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// patience is how long a watch waits for the configurations to be known. Then it is asked
// of one server, which is complete, too.
const patience = 5 * time.Second

// Wrap makes a transport of another one, as rest.Config.Wrap wants it.
func (g *Groups) Wrap(base http.RoundTripper) http.RoundTripper {
	return &transport{base: base, groups: g}
}

// transport is that of one client.
type transport struct {
	base   http.RoundTripper
	groups *Groups
	memory memory
}

// WrappedRoundTripper lets client-go find the transport beneath.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.base }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || req.Header.Get(partitionapi.PartHeader) != "" ||
		req.Header.Get("Upgrade") != "" {
		return t.base.RoundTrip(req)
	}
	tenant, everything := target(req)
	switch {
	case tenant != "":
		return t.owners(req, tenant)
	case !everything:
		return t.base.RoundTrip(req)
	}
	query := req.URL.Query()
	if watches, err := strconv.ParseBool(query.Get("watch")); err != nil || !watches {
		t.memory.forget(name(req, query))
		if !t.groups.reads() || !mergeable(req, query) {
			return t.base.RoundTrip(req) // complete, and at one revision
		}
		return t.list(req, query)
	}
	if initial, err := strconv.ParseBool(query.Get("sendInitialEvents")); err == nil && initial {
		return t.initial(req, query)
	}
	w := newWatch(req, query)
	switch {
	case w == nil:
		return t.base.RoundTrip(req)
	case !t.groups.wait(req.Context(), patience):
		return t.meanwhile(req)
	}
	return t.watch(req, w)
}

// initial is a watch that begins with what there is. Streams have no revision in common when
// they begin, and who owns what can change in between, so that a tenant would be in none of
// them: its objects would be taken for deleted. What is split is refused, and clients
// list it then, which they can at one revision.
func (t *transport) initial(req *http.Request, query url.Values) (*http.Response, error) {
	if !t.groups.wait(req.Context(), patience) {
		return t.meanwhile(req)
	}
	t.memory.forget(name(req, query))
	out := to(req.Context(), req, "")
	out.Header.Set(partitionapi.StreamHeader, partitionapi.Rest)
	res, err := t.base.RoundTrip(out)
	if err != nil || res.Header.Get(partitionapi.StreamHeader) == "" {
		return res, err // the resource is not split
	}
	_ = res.Body.Close()
	return refused(req, http.StatusUnprocessableEntity, "Invalid",
		"sendInitialEvents: the streams of service groups do not begin with what there is: list it"), nil
}

// paths are read as an API server does, which takes these prefixes for those of APIs.
var paths = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// target says what a request reads: all objects of a resource, or something of a tenant. Who sends
// it may have read its path already. The context can also be that of a request that this server
// answers, with another path.
func target(req *http.Request) (tenant string, everything bool) {
	info, known := request.RequestInfoFrom(req.Context())
	if !known || info.Path != req.URL.Path {
		var err error
		if info, err = paths.NewRequestInfo(req); err != nil {
			return "", false
		}
	}
	switch {
	case !info.IsResourceRequest, info.Resource == "namespaces" && len(info.Parts) > 1:
		return "", false
	case info.Namespace != "":
		if tenant, _ := space.SplitNamespace(info.Namespace); !space.IsSystem(tenant) {
			return tenant, false
		}
		return "", false
	}
	// A watch that only its path asks for, as in the past, is none that can be merged.
	asks := info.Verb == "list" || req.URL.Query().Has("watch")
	return "", asks && len(info.Parts) == 1 && info.Resource != partitionapi.Resource
}

// owners reads of a tenant at a server of the group that owns it, which has it in its
// cache. Other servers can answer, too.
func (t *transport) owners(req *http.Request, tenant string) (*http.Response, error) {
	group := t.groups.owner(tenant)
	host := t.groups.candidates(group)[0]
	if host == "" {
		return t.base.RoundTrip(req)
	}
	res, done, err := t.groups.ask(t.base, to(req.Context(), req, host), host, group, false)
	switch {
	case err == nil:
		res.Body = closing{res.Body, done}
		return res, nil
	case req.Context().Err() != nil:
		return nil, err
	}
	return t.base.RoundTrip(req)
}

// to is a request to another server, "" for the same one.
func to(ctx context.Context, req *http.Request, host string) *http.Request {
	out := req.Clone(ctx)
	if host != "" {
		out.URL.Host, out.Host = host, ""
	}
	return out
}

// name is what a client's watch is remembered by.
func name(req *http.Request, query url.Values) string {
	return strings.Join([]string{
		req.UserAgent(), req.URL.Path, query.Get("labelSelector"), query.Get("fieldSelector"),
	}, "\x00")
}

// asked is a watch of everything that can be made of streams.
type asked struct {
	name string
	// query is that of its streams.
	query url.Values
	// from is the revision from which it is asked.
	from int64
	// timeout is how long it is to last, 0 for no limit.
	timeout   time.Duration
	bookmarks bool
}

// newWatch reads what is asked; it is nil for what cannot be made of streams.
func newWatch(req *http.Request, query url.Values) *asked {
	if accept := req.Header.Get("Accept"); strings.Contains(accept, "as=Table") || query.Has("continue") {
		return nil
	}
	w := &asked{name: name(req, query), query: query}
	w.bookmarks, _ = strconv.ParseBool(query.Get("allowWatchBookmarks"))
	var err error
	if w.from, err = strconv.ParseInt(query.Get("resourceVersion"), 10, 64); err != nil || w.from <= 0 {
		return nil // from anywhere: not the same for all streams
	}
	if s := query.Get("timeoutSeconds"); s != "" {
		seconds, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return nil
		}
		w.timeout = time.Duration(seconds) * time.Second //nolint:gosec // it has 31 bits
	}
	query.Del("timeoutSeconds")
	query.Set("allowWatchBookmarks", "true")
	return w
}

// watch merges the streams of a watch. What the server says of the rest is what its
// client is answered.
func (t *transport) watch(req *http.Request, w *asked) (*http.Response, error) {
	session, outs, unknown := t.memory.begin(w.name, w.from, w.bookmarks, t.groups.from)
	ctx, stop := w.limit(req.Context())
	end := func() {
		session.close()
		stop()
	}
	rest := w.from
	for _, o := range outs {
		if o.group == partitionapi.Rest {
			rest = o.from
		}
	}
	first, err := t.base.RoundTrip(w.stream(ctx, req, "", partitionapi.Rest, rest))
	if err != nil {
		end()
		return nil, err
	}
	if first.StatusCode != http.StatusOK || first.Header.Get(partitionapi.StreamHeader) == "" {
		session.close()
		first.Body = closing{first.Body, stop}
		return first, nil // it is an error, or the resource is not split
	}
	if unknown != nil { // which counts for what is split only
		end()
		_ = first.Body.Close()
		return expired(req), nil
	}
	next, ok := read(first.Header.Get("Content-Type"), first.Body)
	if !ok {
		_ = first.Body.Close()
		end()
		return t.base.RoundTrip(req)
	}
	first.Header.Del(partitionapi.StreamHeader)
	out, in := io.Pipe()
	m := &merge{groups: t.groups, session: session, open: t.opener(req, w, next, first.Body),
		send: func(raw []byte) error {
			_, err := in.Write(raw)
			return err
		}}
	res := *first
	res.ContentLength = -1
	res.Body = closing{out, end}
	go func() {
		defer stop()
		err := m.run(ctx, outs)
		if errors.Is(err, errAnew) {
			session.lose()
			err = nil
		}
		_ = in.CloseWithError(err) // nil is EOF
	}()
	return &res, nil
}

// limit ends with the time that the client has given.
func (w *asked) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.timeout > 0 {
		return context.WithTimeout(ctx, w.timeout)
	}
	return context.WithCancel(ctx)
}

// stream is the request for a stream at a host.
func (w *asked) stream(
	ctx context.Context, req *http.Request, host, group string, from int64,
) *http.Request {
	out := to(ctx, req, host)
	query := url.Values{}
	for key, values := range w.query {
		query[key] = values
	}
	query.Set("resourceVersion", strconv.FormatInt(from, 10))
	out.URL.RawQuery = query.Encode()
	out.Header.Set(partitionapi.StreamHeader, group)
	return out
}

// opener opens the streams of a watch, of which the first one of the rest is open.
func (t *transport) opener(req *http.Request, w *asked, first frames, body io.Closer) opener {
	return func(ctx context.Context, group string, from int64) (frames, io.Closer, error) {
		if group == partitionapi.Rest && first != nil {
			next := first
			first = nil
			return next, body, nil
		}
		var errs []error
		busy := false
		for _, host := range t.groups.candidates(group) {
			if host == "" && busy {
				continue // it would read in the datastore what a cache has in a moment
			}
			next, body, err := t.open(w.stream(ctx, req, host, group, from), host, group)
			if err == nil {
				return next, body, nil
			}
			if errors.Is(err, errAnew) || errors.Is(err, errFrame) {
				return nil, nil, err
			}
			busy = busy || errors.Is(err, errBusy)
			errs = append(errs, err)
		}
		return nil, nil, errors.Join(errs...)
	}
}

// open opens a stream at a host.
func (t *transport) open(req *http.Request, host, group string) (frames, io.Closer, error) {
	res, done, err := t.groups.ask(t.base, req, host, group, false)
	if err != nil {
		return nil, nil, err
	}
	if err := check(res); err != nil {
		done()
		return nil, nil, err
	}
	body := closing{res.Body, done}
	next, ok := read(res.Header.Get("Content-Type"), body)
	if !ok {
		_ = body.Close()
		return nil, nil, errFrame
	}
	if host == "" && group != partitionapi.Rest {
		watching, stop := context.WithCancel(req.Context())
		body.cancel = func() {
			stop()
			done()
		}
		go t.groups.homeward(t.base, req.WithContext(watching), group, done)
	}
	return func() (*frame, error) {
		f, err := next()
		if err != nil {
			t.groups.broke(req.Context(), host, err)
		}
		return f, err
	}, body, nil
}

var (
	errStream = errors.New("a server does not open the stream of a service group")
	errBusy   = errors.New("a server says when to ask again")
)

// check reads an answer that is no stream to its end.
func check(res *http.Response) error {
	if res.StatusCode == http.StatusOK && res.Header.Get(partitionapi.StreamHeader) != "" {
		return nil
	}
	_ = res.Body.Close()
	if res.StatusCode == http.StatusGone || res.StatusCode == http.StatusOK {
		return errAnew
	}
	if res.Header.Get("Retry-After") != "" {
		return fmt.Errorf("%w: %s: %w", errStream, res.Status, errBusy)
	}
	return fmt.Errorf("%w: %s", errStream, res.Status)
}

// expired says that a client has to begin anew.
func expired(req *http.Request) *http.Response {
	return refused(req, http.StatusGone, "Expired",
		"too old resource version: the servers of the service groups cannot go on from it")
}

// refused is an answer that no server has given.
func refused(req *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":%q,"code":%d,`+
		`"message":%q}`+"\n", reason, code, message)
	return &http.Response{
		Status: fmt.Sprint(code, " ", http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header:        http.Header{"Content-Type": {jsonMedia}},
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}
}

// closing ends what is behind a body.
type closing struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (c closing) Close() error {
	c.cancel()
	return c.ReadCloser.Close()
}
