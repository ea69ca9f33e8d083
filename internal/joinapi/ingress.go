package joinapi

import (
	"net/netip"
	"time"
)

// PathIngress streams IngressLine values, one a line. GET; the certificate of a node.
const PathIngress = Prefix + "ingress"

// IngressAlive is how often a stream of IngressLines has a batch at least.
const IngressAlive = 20 * time.Second

// NodeTakesIngress is the type of the condition of a Node that is False while it takes no requests for Ingresses
// although it should; there is none otherwise.
const NodeTakesIngress = "TakesIngress"

// IngressLine is one line of what a server tells a node that takes requests for Ingresses: hosts,
// and what these name. One of its fields is set. A line with Complete ends a batch: what came since
// the one before is one change, and the first batch is everything. A batch that has nothing else
// keeps the connection alive.
//
// Within what was told by the end of a batch, a host is of one tenant, and every backend and every
// certificate that it names exists and is of the same tenant.
type IngressLine struct {
	// Host, Backend and Certificate replace what was told under the same name.
	Host        *IngressHost        `json:"host,omitempty"`
	Backend     *IngressBackend     `json:"backend,omitempty"`
	Certificate *IngressCertificate `json:"certificate,omitempty"`
	Complete    bool                `json:"complete,omitempty"`
}

// Key is the kind and the name of what a line tells; empty for one that tells nothing, or what a newer version
// does.
func (l IngressLine) Key() string {
	switch {
	case l.Host != nil:
		return "host " + l.Host.Name
	case l.Backend != nil:
		return "backend " + l.Backend.ID
	case l.Certificate != nil:
		return "certificate " + l.Certificate.ID
	}
	return ""
}

// IsDeletion reports whether it tells that something is gone.
func (l IngressLine) IsDeletion() bool {
	return l.Host != nil && l.Host.Deleted || l.Backend != nil && l.Backend.Deleted ||
		l.Certificate != nil && l.Certificate.Deleted
}

// Deletion tells that what the line told is gone.
func (l IngressLine) Deletion() (out IngressLine) {
	switch {
	case l.Host != nil:
		out.Host = &IngressHost{Name: l.Host.Name, Deleted: true}
	case l.Backend != nil:
		out.Backend = &IngressBackend{ID: l.Backend.ID, Deleted: true}
	case l.Certificate != nil:
		out.Certificate = &IngressCertificate{ID: l.Certificate.ID, Deleted: true}
	}
	return out
}

// IngressHost is where requests for a host go.
type IngressHost struct {
	// Name is a DNS name in lower case; "*.example.com" is every name with one more label, for
	// which there is no host of its own; "" is every name for which there is no other host.
	Name string `json:"name"`
	// Deep is whether a wildcard is for names with any number of labels more, as in the Gateway API.
	Deep bool `json:"deep,omitempty"`
	// Tenant is whose the host is, "system" for the system space.
	Tenant string `json:"tenant,omitempty"`
	// Paths are in the order in which they are tried: the first that matches a request has it. Without any, the host
	// is for certificates only: its requests are those of the next wider host of the same tenant, or have 404 if
	// there is none. Wider hosts of others do not have them.
	Paths []IngressPath `json:"paths,omitempty"`
	// Certificate is the ID of the one that connections with TLS get; without it they get one that
	// nobody signed.
	Certificate string `json:"certificate,omitempty"`
	// Passthrough has connections with TLS that ask for the host, which are not opened at the node then: neither Paths
	// nor Certificate is for them. An old proxy, which does not know it, opens them, and has 404 for their requests.
	Passthrough *IngressPassthrough `json:"passthrough,omitempty"`
	Deleted     bool                `json:"deleted,omitempty"`
}

// IngressPassthrough is where connections go as they are.
type IngressPassthrough struct {
	// Split has parts of the connections go to each of its backends, whatever their protocol. A part without a
	// backend is closed; so are all if there is no part, or no weight in any. There are no Filters.
	Split []IngressPart `json:"split,omitempty"`
}

// IngressPath matches requests: by their path, and by what else is set. A request has the exact path if one
// matches, or else the longest prefix that does; of those with one path, the first.
type IngressPath struct {
	// Path is what the path of a request is, if Exact is set, or begins with, element by element. It is
	// decoded, as that of the request is, and compared without dots and empty elements.
	Path  string `json:"path"`
	Exact bool   `json:"exact,omitempty"`
	// Method is that of the request.
	Method string `json:"method,omitempty"`
	// Headers and Query are what the request has, each of them, with just these values. If there are more of
	// one name, the first counts. A header that occurs more often in a request has its values with "," between
	// them, a parameter its first value. Headers by which proxies say who asks (X-Forwarded-*, Forwarded,
	// X-Real-Ip) match no request: clients can make them up.
	Headers []IngressValue `json:"headers,omitempty"`
	Query   []IngressValue `json:"query,omitempty"`
	// Scheme is "http" for requests without TLS only, "https" for those with TLS only, "" for both.
	Scheme string `json:"scheme,omitempty"`
	// Backend is an ID. If it is empty, Split has where requests go. A path of a route of the Gateway API has Split
	// only, or a Backend without endpoints: an old proxy, which knows neither Split nor conditions nor filters,
	// reaches nothing by it.
	Backend string `json:"backend,omitempty"`
	// Split has parts of the requests go to each of its backends. Without a part, or with no weight in any,
	// requests are answered with 500.
	Split []IngressPart `json:"split,omitempty"`
	// Filters change requests and answers.
	Filters *IngressFilters `json:"filters,omitempty"`
	// Timeout is how long a request may take until its answer has begun, with all that it has to send itself.
	// BackendTimeout is how long one endpoint may take for that. After them the answer is 504. 0 is for what
	// the node allows, which is the most in any case. What has begun is not cut off.
	Timeout        time.Duration `json:"timeout,omitempty"`
	BackendTimeout time.Duration `json:"backendTimeout,omitempty"`
}

// IngressValue is the name of a header, of a parameter of the query, or of something alike, and its value.
type IngressValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// IngressPart is a part of the requests.
type IngressPart struct {
	// Backend is an ID; "" has requests answered with 500, as for one that does not exist or must not be reached.
	Backend string `json:"backend,omitempty"`
	// Weight is the part relative to the sum of all; 0 is none.
	Weight int32 `json:"weight"`
	// Filters change what goes to this backend, after those of the path: Request and Response only.
	Filters *IngressFilters `json:"filters,omitempty"`
}

// IngressFilters change a request, and its answer.
type IngressFilters struct {
	Request *IngressHeaders `json:"request,omitempty"`
	// Response changes answers of backends and redirects, but not what the node says when there is no answer.
	Response *IngressHeaders `json:"response,omitempty"`
	// Redirect is an answer without a backend.
	Redirect *IngressRedirect `json:"redirect,omitempty"`
	Rewrite  *IngressRewrite  `json:"rewrite,omitempty"`
}

// IngressHeaders is what becomes of headers. A name should be in one of the lists only; if it is in more, Remove
// is first, then Set, then Add. What is no valid header is left out, and what belongs to the connection, frames
// the body or says who asks stays as it is.
type IngressHeaders struct {
	// Set replaces headers, Add adds values.
	Set    []IngressValue `json:"set,omitempty"`
	Add    []IngressValue `json:"add,omitempty"`
	Remove []string       `json:"remove,omitempty"`
}

// IngressRedirect answers requests with another URL. What is empty is as in the request, and so is the query.
type IngressRedirect struct {
	// Scheme is "http" or "https".
	Scheme string `json:"scheme,omitempty"`
	// Host has no port.
	Host string `json:"host,omitempty"`
	// Port, if it is 0, is that of the scheme if there is one here, else that at which the request came.
	Port int32              `json:"port,omitempty"`
	Path *IngressPathChange `json:"path,omitempty"`
	// Status is 301, 302, 303, 307 or 308; 302 if it is anything else.
	Status int `json:"status"`
}

// IngressRewrite changes what the backend sees as the host and the path of a request.
type IngressRewrite struct {
	// Host has no port.
	Host string             `json:"host,omitempty"`
	Path *IngressPathChange `json:"path,omitempty"`
}

// IngressPathChange puts something in the place of a path. One of its fields is set. Both are escaped where they
// have to be; what is escaped in them stays so.
type IngressPathChange struct {
	// Full is the path from now on.
	Full *string `json:"full,omitempty"`
	// Prefix is in the place of IngressPath.Path, of one that is not Exact. Slashes at its ends mean nothing.
	Prefix *string `json:"prefix,omitempty"`
}

// Protocols of an IngressBackend.
const (
	// ProtocolHTTP is HTTP/1.1 without TLS.
	ProtocolHTTP = "http"
	// ProtocolH2C is HTTP/2 without TLS, which gRPC needs.
	ProtocolH2C = "h2c"
	// ProtocolHTTPS is HTTP/1.1 or HTTP/2 with TLS, whose certificate is not checked: a pod has no
	// name that one could be for.
	ProtocolHTTPS = "https"
)

// IngressBackend is a port of a Service.
type IngressBackend struct {
	// ID is namespace/name:port, with the composite namespace.
	ID     string `json:"id"`
	Tenant string `json:"tenant,omitempty"`
	// Protocol is that of its endpoints, ProtocolHTTP if it is empty.
	Protocol string `json:"protocol,omitempty"`
	// Endpoints are those that take requests now.
	Endpoints []netip.AddrPort `json:"endpoints,omitempty"`
	Deleted   bool             `json:"deleted,omitempty"`
}

// IngressCertificate is a certificate with its private key, both in PEM.
type IngressCertificate struct {
	// ID is namespace/name of the Secret, with the composite namespace.
	ID      string `json:"id"`
	Tenant  string `json:"tenant,omitempty"`
	Chain   []byte `json:"chain,omitempty"`
	Key     []byte `json:"key,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}
