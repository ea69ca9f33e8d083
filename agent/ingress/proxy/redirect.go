package proxy

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// redirect is an IngressRedirect.
type redirect struct {
	// scheme and host may be empty, port 0, and path nil.
	scheme, host string
	port         int
	path         *pathChange
	status       int
}

// newRedirect leaves out what is malformed: the server refused it.
func newRedirect(told *joinapi.IngressRedirect, depth int) *redirect {
	if told == nil {
		return nil
	}
	r := &redirect{host: validHost(told.Host), path: newPathChange(told.Path, depth), status: http.StatusFound}
	if wellKnown(told.Scheme) != 0 {
		r.scheme = told.Scheme
	}
	if told.Port > 0 && told.Port <= 1<<16-1 {
		r.port = int(told.Port)
	}
	switch told.Status {
	case http.StatusMovedPermanently, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		r.status = told.Status
	}
	return r
}

// wellKnown is the port of a scheme, 0 if it is none of those that there are.
func wellKnown(scheme string) int {
	switch scheme {
	case "http":
		return 80
	case "https":
		return 443
	}
	return 0
}

func (to *redirect) answer(w http.ResponseWriter, r *http.Request) {
	host := to.host
	if host == "" {
		host = hostName(r.Host)
	}
	if host == "" || !httpguts.ValidHostHeader(host) {
		http.Error(w, "the request names no host to which it could be redirected", http.StatusBadRequest)
		return
	}
	w.Header().Set("Location", to.location(host, r))
	w.WriteHeader(to.status)
}

// location is always a whole URL: a path alone, such as "//host", may be one of another host.
func (to *redirect) location(host string, r *http.Request) string {
	scheme := to.scheme
	if scheme == "" {
		scheme = schemeOf(r)
	}
	if strings.Contains(host, ":") { // of IPv6
		host = "[" + host + "]"
	}
	if port := to.portFor(r); port != 0 && port != wellKnown(scheme) {
		host += ":" + strconv.Itoa(port)
	}
	u := url.URL{Scheme: scheme, Host: host, RawQuery: escapedQuery(r.URL.RawQuery), ForceQuery: r.URL.ForceQuery}
	setPath(&u, to.path.of(r.URL))
	return u.String()
}

// portFor returns 0 for the one of the scheme.
func (to *redirect) portFor(r *http.Request) int {
	if to.port != 0 || to.scheme != "" {
		return to.port
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return local.Port
	}
	return 0
}
