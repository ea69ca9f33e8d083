package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
)

// bodyThenTrailers is a body that calls trailers when it was read to its end: they are known then.
type bodyThenTrailers struct {
	io.ReadCloser
	trailers func()
}

// Read implements io.Reader.
func (b *bodyThenTrailers) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if errors.Is(err, io.EOF) {
		b.trailers()
	}
	return n, err
}

// handTrailersOn has a request have trailers that may be headers of it, and no others: some backends take them for
// headers. The map of the client's is filled when the body was read.
func (x *exchange) handTrailersOn(r *httputil.ProxyRequest) {
	from := r.In.Trailer
	r.Out.Trailer = nil
	if len(from) == 0 || r.Out.Body == nil {
		return
	}
	to := http.Header{}
	hand := func() {
		for name, values := range from {
			if !x.dropsTrailer(name) {
				to[name] = values
			}
		}
	}
	hand()
	r.Out.Trailer = to // what is in it is announced now
	r.Out.Body = &bodyThenTrailers{r.Out.Body, hand}
}

// dropsTrailer is whether a trailer of a request, as a header, would not be the client's.
func (x *exchange) dropsTrailer(name string) bool {
	return name == "Host" || ofConnection(name) || saysWhoAsks(name) ||
		x.route.request.decides(name) || x.part.request.decides(name)
}

// dropTrailers removes those of an answer that filters have set or removed as headers.
func (x *exchange) dropTrailers(of *http.Response) {
	if x.route.response == nil && x.part.response == nil || of.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	drop := func() { x.dropDecided(of.Trailer) }
	drop()
	of.Body = &bodyThenTrailers{of.Body, drop}
}

// dropDecided removes headers of an answer whose values filters decide.
func (x *exchange) dropDecided(of http.Header) {
	for name := range of {
		if x.route.response.decides(name) || x.part.response.decides(name) {
			delete(of, name)
		}
	}
}

// dropEarly removes headers of what comes before an answer, such as hints, that the answer would not have.
func (x *exchange) dropEarly(of http.Header) {
	x.dropDecided(of)
	for name := range of {
		if ofConnection(name) {
			delete(of, name)
		}
	}
}
