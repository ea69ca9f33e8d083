package edge

import (
	"net/http"
	"strings"

	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/edge/proxied"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/listsize"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// handOn is the last step: it hands the request on to the chain behind the edge. Comes in: a
// request of upstream's, and how the space sees objects. Goes out: the answer to it, projected
// while it is written (answer.go) and at its end (finish.go). If the edge generates the name of
// the object, it generates another one as long as the name is taken.
func handOn(
	w http.ResponseWriter, req *http.Request, next http.Handler, p *wire.Projector, r *resourceRequest, sent *body,
) error {
	c, zip := object, acceptsGzip(req)
	var s *socket
	switch {
	case r.streams:
		c = streamsBytes
	case r.verb == "watch":
		c = watchEvents
		req, s = overHTTP(w, req)
		defer s.close()
	}
	var yaml wish
	var indent bool
	if c == object {
		req, yaml = inJSONInstead(req)
		if proxied.From(req.Context()) == nil { // what a proxied server is asked is its own business
			req, indent = compactInstead(req)
		}
	}
	if r.verb == "list" && strings.Contains(req.Header.Get("Accept"), protobuf) {
		ctx, size := listsize.With(req.Context())
		own := *p
		own.Listed = func() (l wire.Listed, ok bool) {
			l.Items, l.Names, ok = size.Get()
			return l, ok
		}
		req, p = req.WithContext(ctx), &own
	}
	for attempt := 1; ; attempt++ {
		a := newAnswer(w, p, r.wire, c)
		a.asks = asked{zip: zip, yaml: yaml, indent: indent, over: req.Context(), method: req.Method}
		a.body, a.socket = sent, s
		a.proxied = proxied.From(req.Context())
		a.seat = fairqueue.Of(req.Context())
		if attempt < generateAttempts {
			a.retry = sent
		}
		next.ServeHTTP(a.wrap(), req)
		if a.retrying {
			body, err := sent.again()
			if err != nil {
				return err
			}
			w.Header().Del("Content-Length")
			req = authn.Again(req)
			setBody(req, body)
			continue
		}
		return a.finish()
	}
}

// acceptsGzip reads the Accept-Encoding that the client sent.
func acceptsGzip(req *http.Request) bool {
	encodings, _ := req.Context().Value(encodingKey{}).(string)
	for _, part := range strings.Split(encodings, ",") {
		if name, _, _ := strings.Cut(strings.TrimSpace(part), ";"); name == "gzip" {
			return true
		}
	}
	return false
}

type encodingKey struct{}
