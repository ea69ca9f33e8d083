package edge

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// Load counts what tenants ask for.
type Load interface {
	// Sent counts bytes of events for a watch that is addressed to a tenant.
	Sent(tenant string, bytes int)
}

// countsEvents tells the load what next sends to a watch. It counts before events are
// translated, so that a watch over a WebSocket is one like any other; they are about as
// long then.
func countsEvents(next http.Handler, load Load, tenant string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(&events{ResponseWriter: w, load: load, tenant: tenant}), req)
	})
}

// events is the answer to a watch.
type events struct {
	http.ResponseWriter
	load    Load
	tenant  string
	refused bool // there is no such tenant, perhaps
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (e *events) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (e *events) WriteHeader(code int) {
	e.refused = e.refused || code >= http.StatusMultipleChoices
	e.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (e *events) Write(b []byte) (int, error) {
	n, err := e.ResponseWriter.Write(b)
	if !e.refused {
		e.load.Sent(e.tenant, n)
	}
	return n, err
}
