package groupwatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// page is how many objects informers ask for at a time, which want all of them. Who asks
// for fewer does not.
const page = 500

// mergeable reports whether a list of everything can be made of lists of the streams.
func mergeable(req *http.Request, query url.Values) bool {
	if strings.Contains(req.Header.Get("Accept"), "as=Table") || query.Has("continue") || query.Has("shardSelector") {
		return false
	}
	limit, rev := query.Get("limit"), query.Get("resourceVersion")
	if limit == "" || rev == "0" {
		return true // caches take no notice of a limit with 0
	}
	n, err := strconv.ParseInt(limit, 10, 64)
	return err == nil && (n == 0 || n >= page && rev == "")
}

// list merges the lists of all streams. That of the rest comes first: its revision is what
// is asked for, and what streams there are at that revision is written on it. Then the
// others are asked for at exactly that revision, so that together they are what the
// datastore has at it, whatever moves meanwhile, and a watch goes on from it as from any
// list. What has no pages is given without.
func (t *transport) list(req *http.Request, query url.Values) (*http.Response, error) {
	query.Del("limit")
	res, first, err := t.rest(req)
	if oldest := t.groups.oldest(); first != nil && first.at < oldest && !exact(query) {
		// A cache that has seen nothing for long is older than what is known of the groups. A
		// watch could not go on from there, and the next list would be as old.
		query.Set("resourceVersion", strconv.FormatInt(oldest, 10))
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
		req = to(req.Context(), req, "")
		req.URL.RawQuery = query.Encode()
		res, first, err = t.rest(req)
	}
	switch {
	case errors.Is(err, errList):
		return t.whole(req, err)
	case err != nil || first == nil:
		return res, err
	}
	streams := res.Header.Get(partitionapi.StreamsHeader)
	query.Set("resourceVersion", first.rev)
	query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	var others []string
	for _, group := range strings.Split(streams, ",") {
		if group != partitionapi.Rest {
			others = append(others, group)
		}
	}
	parts := make([]*list, len(others))
	all, ctx := errgroup.WithContext(req.Context())
	for i, group := range others {
		all.Go(func() (err error) {
			parts[i], err = t.part(ctx, req, query, group, streams)
			return err
		})
	}
	err = all.Wait()
	var busy *busyError
	switch {
	case req.Context().Err() != nil:
		return nil, req.Context().Err()
	case errors.As(err, &busy):
		return busy.answer, nil
	case err != nil:
		return t.whole(req, err)
	}
	body, err := joined(first, parts)
	if err != nil {
		return t.whole(req, err)
	}
	return first.answer(res, body), nil
}

// rest lists the stream of the rest. The list is nil if the resource is not split, or if the
// server answers with an error: the response is for the client then.
func (t *transport) rest(req *http.Request) (*http.Response, *list, error) {
	out := to(req.Context(), req, "")
	out.Header.Set(partitionapi.StreamHeader, partitionapi.Rest)
	res, err := t.base.RoundTrip(out)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get(partitionapi.StreamsHeader) == "" {
		return res, nil, err
	}
	first, err := readList(res)
	return res, first, err
}

// exact reports whether a list is asked for at one revision and no other.
func exact(query url.Values) bool {
	return query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact)
}

// whole asks one server for everything, which reads it in the datastore.
func (t *transport) whole(req *http.Request, why error) (*http.Response, error) {
	t.groups.log.WithError(why).Debugf("listing %s from one server", req.URL.Path)
	return t.base.RoundTrip(req)
}

// busyError is the answer of a server that cannot list now and says when to ask again. That
// is for the client: if all went to the datastore instead, there would be more to do.
type busyError struct{ answer *http.Response }

// Error implements error.
func (b *busyError) Error() string { return "a server of a service group is busy: " + b.answer.Status }

// part is the list of a stream at a revision, of the first server that gives it.
func (t *transport) part(
	ctx context.Context, req *http.Request, query url.Values, group, streams string,
) (*list, error) {
	var errs []error
	busy := &busyError{}
	for _, host := range t.groups.candidates(group) {
		if host == "" && busy.answer != nil {
			continue
		}
		out := to(ctx, req, host)
		out.URL.RawQuery = query.Encode()
		out.Header.Set(partitionapi.StreamHeader, group)
		found, err := t.listAt(out, host, group, streams)
		if err == nil && found.rev != query.Get("resourceVersion") {
			err = fmt.Errorf("%w: its revision is %s", errList, found.rev)
		}
		if err == nil {
			return found, nil
		}
		_ = errors.As(err, &busy)
		errs = append(errs, err)
	}
	if busy.answer != nil {
		return nil, busy
	}
	return nil, errors.Join(errs...)
}

// listAt asks a server.
func (t *transport) listAt(req *http.Request, host, group, streams string) (*list, error) {
	res, done, err := t.groups.ask(t.base, req, host, group, true)
	if err != nil {
		return nil, err
	}
	defer done()
	switch {
	case res.StatusCode != http.StatusOK && res.Header.Get("Retry-After") != "":
		return nil, &busyError{buffered(res)}
	case res.StatusCode != http.StatusOK:
		_ = res.Body.Close()
		return nil, fmt.Errorf("%w: %s", errList, res.Status)
	case res.Header.Get(partitionapi.StreamHeader) != group || res.Header.Get(partitionapi.StreamsHeader) != streams:
		_ = res.Body.Close()
		return nil, fmt.Errorf("%w: it is not of this stream, or there are others", errList)
	}
	return readList(res)
}

// buffered is an answer that was read to its end: what its body comes from may end.
func buffered(res *http.Response) *http.Response {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxError)) //nolint:errcheck // the status says it
	_ = res.Body.Close()
	out := *res
	out.Header = res.Header.Clone()
	out.Header.Del("Content-Length")
	out.ContentLength, out.Body = int64(len(body)), io.NopCloser(bytes.NewReader(body))
	return &out
}

// maxError is how long what a server says of an error is at most.
const maxError = 1 << 20

// answer is the answer to the whole list, made of that to its first part.
func (l *list) answer(first *http.Response, body [][]byte) *http.Response {
	out := *first
	out.Header = first.Header.Clone()
	for _, name := range []string{partitionapi.StreamHeader, partitionapi.StreamsHeader, "Content-Length"} {
		out.Header.Del(name)
	}
	out.ContentLength = 0
	readers := make([]io.Reader, 0, len(body))
	for _, b := range body {
		out.ContentLength += int64(len(b))
		readers = append(readers, bytes.NewReader(b))
	}
	out.Body = io.NopCloser(io.MultiReader(readers...))
	return &out
}
