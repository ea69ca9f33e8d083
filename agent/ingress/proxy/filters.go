package proxy

import (
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// filters are what of IngressFilters a route and each of its parts may have.
type filters struct {
	// request is for what goes to the backend, response for what goes to the client; nil for no change.
	request, response *headers
}

func newFilters(told *joinapi.IngressFilters) filters {
	if told == nil {
		return filters{}
	}
	return filters{
		request:  newHeaders(told.Request, func(name string) bool { return name == "Host" || saysWhoAsks(name) }),
		response: newHeaders(told.Response, func(string) bool { return false }),
	}
}

// headers is an IngressHeaders that is safe to apply. It has names in the form of http.Header.
type headers struct {
	set, add []joinapi.IngressValue
	remove   []string
}

// newHeaders leaves out what is no header, and what filters must not change: what belongs to the connection or
// frames the body, and what fixed says. The server refused them; what it lets pass must do no harm.
func newHeaders(told *joinapi.IngressHeaders, fixed func(name string) bool) *headers {
	if told == nil {
		return nil
	}
	allowed := func(name string) (canonical string, ok bool) {
		canonical = http.CanonicalHeaderKey(name)
		return canonical, httpguts.ValidHeaderFieldName(name) && !ofConnection(name) && !fixed(canonical)
	}
	values := func(told []joinapi.IngressValue) (safe []joinapi.IngressValue) {
		for _, v := range told {
			if name, ok := allowed(v.Name); ok && httpguts.ValidHeaderFieldValue(v.Value) {
				safe = append(safe, joinapi.IngressValue{Name: name, Value: v.Value})
			}
		}
		return safe
	}
	h := &headers{set: values(told.Set), add: values(told.Add)}
	for _, name := range told.Remove {
		if name, ok := allowed(name); ok {
			h.remove = append(h.remove, name)
		}
	}
	return h
}

// connectionHeaders belong to one connection, or say where a body ends.
var connectionHeaders = [...]string{
	"connection", "content-length", "http2-settings", "keep-alive", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade",
}

// ofConnection takes "_" for "-", as some backends do.
func ofConnection(name string) bool {
	return slices.Contains(connectionHeaders[:], strings.ReplaceAll(strings.ToLower(name), "_", "-"))
}

// change changes headers. The Gateway API has a name in one of the three lists only; where it is in more, what
// is removed is so first, and what is added comes last.
func (h *headers) change(of http.Header) {
	if h == nil {
		return
	}
	for _, name := range h.remove {
		delete(of, name)
	}
	for _, v := range h.set {
		of[v.Name] = []string{v.Value}
	}
	for _, v := range h.add {
		// The values before it may be in an array that others use.
		of[v.Name] = append(slices.Clip(of[v.Name]), v.Value)
	}
}

// decides is whether a header, in the form of http.Header, has only the value that these changes give it, or none.
func (h *headers) decides(name string) bool {
	return h != nil && (slices.Contains(h.remove, name) ||
		slices.ContainsFunc(h.set, func(v joinapi.IngressValue) bool { return v.Name == name }))
}

// filterAnswer applies the filters of responses. Those of the connection are not there any more, unless it
// becomes one of another protocol.
func filterAnswer(resp *http.Response) error {
	x := exchangeOf(resp.Request.Context())
	x.route.response.change(resp.Header)
	x.part.response.change(resp.Header)
	x.dropTrailers(resp)
	return nil
}
