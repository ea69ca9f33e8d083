package dns

import (
	"net/netip"
	"strings"
)

// Store knows the records of the cluster.
type Store interface {
	// Synced reports whether the store has seen the whole cluster. Before
	// that, an absent record means nothing.
	Synced() bool
	// View returns what the client at source may see, in the names that this
	// client uses; false if nobody knows who that is.
	View(source netip.Addr) (Records, bool)
}

// Records is what one client may see of the cluster. Names passed in are in
// lower case.
type Records interface {
	// Namespace reports whether the namespace exists.
	Namespace(name string) bool
	// Service returns the service, false if there is none.
	Service(namespace, name string) (Service, bool)
	// Endpoints returns the ready endpoints of a service, sorted and without
	// duplicates.
	Endpoints(namespace, name string) []Endpoint
	// ServicesAt returns the services that have addr as a cluster IP.
	ServicesAt(addr netip.Addr) []Service
	// EndpointsAt returns the ready endpoints of headless services at addr.
	EndpointsAt(addr netip.Addr) []ServiceEndpoint
}

// Service is what DNS needs of a Service.
type Service struct {
	Namespace, Name string
	// ClusterIPs is empty for headless services and for external names.
	ClusterIPs []netip.Addr
	// Headless says that the service's addresses are those of its endpoints.
	Headless bool
	// ExternalName is set for services of that type only.
	ExternalName string
	Ports        []Port
	// Shared says that the system space lends the service to tenants.
	Shared bool
}

// Port is a port of a service or of an endpoint. Protocol is in lower case.
type Port struct {
	Name, Protocol string
	Number         uint16
}

// Endpoint is one address behind a service.
type Endpoint struct {
	Addr netip.Addr
	// Hostname is the one that the pod asked for, often empty.
	Hostname string
	Ports    []Port
}

// ServiceEndpoint is an endpoint and the service it belongs to.
type ServiceEndpoint struct {
	Namespace, Service string
	Endpoint           Endpoint
}

// label is the endpoint's name below its service: its hostname, else its
// address with dashes.
func (e Endpoint) label() string {
	if e.Hostname != "" {
		return strings.ToLower(e.Hostname)
	}
	return dashed(e.Addr)
}

func dashed(a netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
}

// undashed is the reverse of dashed for the pod records. IPv4 comes first: no
// dashed IPv6 address has four decimal parts.
func undashed(label string) (netip.Addr, bool) {
	for _, sep := range []string{".", ":"} {
		if a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", sep)); err == nil && a.Zone() == "" {
			return a, true
		}
	}
	return netip.Addr{}, false
}
