package edge

import (
	"bytes"
	"maps"
	"net/http"

	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// refusedTo is the answer to a user who may not do what the request does with a
// document, nil if they may. That they may get it is found out by getting it.
func refusedTo(req *http.Request, next http.Handler, d documentRequest) *capture {
	if req.Method == http.MethodGet {
		return nil
	}
	answer := askTo(req.Method, req, next, d.path, "", onlyJSON(""), "")
	if answer.code != http.StatusForbidden && answer.code != http.StatusUnauthorized {
		return nil
	}
	return answer
}

// ask gets a document from upstream, as the user of the request.
func ask(req *http.Request, next http.Handler, path, query, accept, etag string) *capture {
	return askTo(http.MethodGet, req, next, path, query, accept, etag)
}

// askTo is ask for any method.
func askTo(method string, req *http.Request, next http.Handler, path, query, accept, etag string) *capture {
	out := authn.Again(req)
	out = out.Clone(out.Context())
	out.Method, out.Body, out.ContentLength = method, http.NoBody, 0
	out.URL.Path, out.URL.RawPath, out.URL.RawQuery = path, "", query
	out.RequestURI = out.URL.RequestURI()
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since",
		"If-Range", "Range"} {
		out.Header.Del(name)
	}
	out.Header.Set("Accept", accept)
	if etag != "" {
		out.Header.Set("If-None-Match", etag)
	}
	c := &capture{header: http.Header{}}
	next.ServeHTTP(c, out)
	c.WriteHeader(http.StatusOK)
	return c
}

// capture records an answer.
type capture struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (c *capture) Header() http.Header { return c.header }

// WriteHeader implements http.ResponseWriter.
func (c *capture) WriteHeader(code int) {
	if c.code == 0 {
		c.code = code
	}
}

// Write implements http.ResponseWriter.
func (c *capture) Write(b []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	return c.body.Write(b)
}

// sendTo passes the answer on, with addresses below a prefix.
func (c *capture) sendTo(w http.ResponseWriter, prefix string) {
	if at := c.header.Get("Location"); at != "" {
		c.header.Set("Location", prefix+at)
	}
	maps.Copy(w.Header(), c.header)
	w.WriteHeader(c.code)
	w.Write(c.body.Bytes()) //nolint:errcheck // the client is gone
}
