package joinapi

import (
	"net/netip"
	"time"
)

// PathIngress streams IngressLine values, one a line. GET; the certificate of a node.
const PathIngress = Prefix + "ingress"

// IngressAlive is how often a stream of IngressLines has a batch at least.
const IngressAlive = 20 * time.Second

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
	// Tenant is whose the host is, "system" for the system space.
	Tenant string `json:"tenant,omitempty"`
	// Paths are in the order in which they are tried: the first that matches a request has it.
	Paths []IngressPath `json:"paths,omitempty"`
	// Certificate is the ID of the one that connections with TLS get; without it they get one that
	// nobody signed.
	Certificate string `json:"certificate,omitempty"`
	Deleted     bool   `json:"deleted,omitempty"`
}

// IngressPath matches requests by their path.
type IngressPath struct {
	// Path is what the path of a request is, if Exact is set, or begins with, element by element.
	Path  string `json:"path"`
	Exact bool   `json:"exact,omitempty"`
	// Backend is an ID.
	Backend string `json:"backend"`
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
