package proxy

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// mostTried is how many routes are compared with one request. Those of one path, and of the prefixes above it, can
// be all that a tenant has.
const mostTried = 1024

// asked is a request whose query is parsed when a path asks for it first.
type asked struct {
	*http.Request
	parsed bool
	query  url.Values
	// tried is how many routes did not have it.
	tried int
}

func (a *asked) exhausted() bool { return a.tried >= mostTried }

// parameter returns the first value of a parameter of the query. One that does not parse has none.
func (a *asked) parameter(name string) (value string, found bool) {
	if !a.parsed {
		a.parsed = true
		a.query, _ = url.ParseQuery(a.URL.RawQuery) //nolint:errcheck // what parses is there all the same
	}
	values := a.query[name]
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// conditions are what a request must have beside its path.
type conditions struct {
	// never is set if no request has it all.
	never          bool
	method, scheme string
	// headers have names in the form of http.Header.
	headers, query []joinapi.IngressValue
}

// newConditions returns nil if the path is all that a request must have.
func newConditions(told *joinapi.IngressPath) *conditions {
	if told.Method == "" && told.Scheme == "" && len(told.Headers) == 0 && len(told.Query) == 0 {
		return nil
	}
	c := &conditions{method: told.Method, scheme: told.Scheme}
	c.headers = firstOfEach(told.Headers, http.CanonicalHeaderKey)
	c.query = firstOfEach(told.Query, func(name string) string { return name })
	for _, h := range c.headers {
		// They are replaced on the way to the backend, as a client can say there what it likes.
		c.never = c.never || saysWhoAsks(h.Name)
	}
	return c
}

// firstOfEach leaves out values whose name, in the form that spell makes, had one before.
func firstOfEach(told []joinapi.IngressValue, spell func(string) string) (first []joinapi.IngressValue) {
	seen := map[string]bool{}
	for _, v := range told {
		if name := spell(v.Name); !seen[name] {
			seen[name] = true
			first = append(first, joinapi.IngressValue{Name: name, Value: v.Value})
		}
	}
	return first
}

// match reports whether a request has it all. No conditions match all requests.
func (c *conditions) match(a *asked) bool {
	if c == nil {
		return true
	}
	if c.never || c.method != "" && c.method != a.Method || c.scheme != "" && c.scheme != schemeOf(a.Request) {
		return false
	}
	for _, h := range c.headers {
		values := a.Header[h.Name]
		if h.Name == "Host" { // net/http keeps it elsewhere
			values = []string{a.Host}
		}
		if !joinedIs(values, h.Value) {
			return false
		}
	}
	for _, q := range c.query {
		if value, found := a.parameter(q.Name); !found || value != q.Value {
			return false
		}
	}
	return true
}

// joinedIs reports whether values with commas between them are want. It reads no more of them than want is
// long: many paths may ask for one header.
func joinedIs(values []string, want string) bool {
	for i, value := range values {
		ok := true
		if i > 0 {
			want, ok = strings.CutPrefix(want, ",")
		}
		if ok {
			want, ok = strings.CutPrefix(want, value)
		}
		if !ok {
			return false
		}
	}
	return len(values) > 0 && want == ""
}

func schemeOf(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}
