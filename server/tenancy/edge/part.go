package edge

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// part is the step that takes the headers by which a user of the system asks for the part of a
// service group, or for its stream. Comes in: a request for this partition. Goes out: one without
// the headers, which says in its context what they asked for. Of tenants they mean nothing: what
// they see is complete.
func (e *Edge) part(
	w http.ResponseWriter, req *http.Request, r *request,
) (http.ResponseWriter, *http.Request, error) {
	group, stream := req.Header.Get(partitionapi.PartHeader), req.Header.Get(partitionapi.StreamHeader)
	if group == "" && stream == "" {
		return w, req, nil
	}
	req.Header.Del(partitionapi.PartHeader)
	req.Header.Del(partitionapi.StreamHeader)
	switch {
	case !space.IsSystem(r.userTenant):
		return w, req, nil
	case group != "" && stream != "":
		return w, nil, apierrors.NewBadRequest(fmt.Sprintf("%s and %s: want one of them",
			partitionapi.PartHeader, partitionapi.StreamHeader))
	case group != "" && group != e.opts.Group:
		return w, nil, apierrors.NewBadRequest(fmt.Sprintf(
			"%s: this server holds the part of service group %q, not that of %q: ask a server of that group",
			partitionapi.PartHeader, e.opts.Group, group))
	case group != "":
		return w, req.WithContext(partitionapi.WithPart(req.Context())), nil
	case stream != partitionapi.Rest && len(validation.IsDNS1123Label(stream)) > 0:
		return w, nil, apierrors.NewBadRequest(fmt.Sprintf("%s: %q is no ID of a service group, nor %q",
			partitionapi.StreamHeader, stream, partitionapi.Rest))
	}
	asked := partitionapi.Stream{Group: stream}
	switch {
	case r.long:
		asked.Split = func() { w.Header().Set(partitionapi.StreamHeader, stream) }
	case r.resource != nil && r.resource.verb == "list":
		l := &listed{ResponseWriter: w, stream: stream}
		asked.Listed, w = l.set, responsewriter.WrapForHTTP1Or2(l)
	default:
		return w, req, nil
	}
	return w, req.WithContext(partitionapi.WithStream(req.Context(), asked)), nil
}

// listed is the answer to a list of a stream, whose headers say so. Whoever lists may go
// on when the answer is given, for its time is over: only who writes it sets headers.
type listed struct {
	http.ResponseWriter
	stream string

	mu      sync.Mutex
	streams []string
	wrote   bool
}

func (l *listed) set(streams []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = streams
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (l *listed) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (l *listed) WriteHeader(code int) {
	l.say()
	l.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (l *listed) Write(b []byte) (int, error) {
	l.say()
	return l.ResponseWriter.Write(b)
}

func (l *listed) say() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams != nil && !l.wrote {
		l.Header().Set(partitionapi.StreamHeader, l.stream)
		l.Header().Set(partitionapi.StreamsHeader, strings.Join(l.streams, ","))
	}
	l.wrote = true
}
