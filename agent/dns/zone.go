package dns

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const (
	// ttl of every record and of every denial, in seconds.
	ttl = 5
	// schemaVersion is the version of the specification that is implemented.
	schemaVersion = "1.1.0"
)

// zone is the cluster domain.
type zone struct {
	name   string // lower case, with the final dot
	server netip.Addr
	serial uint32
}

// node is what exists at one name. A node without any record exists too: it
// has names below it, or records of no type that DNS serves.
type node struct {
	addrs   []netip.Addr
	targets []target // SRV
	pointer []string // PTR
	alias   string   // CNAME
	text    string   // TXT
	apex    bool     // SOA and NS
}

// target is one SRV record and the addresses of its target.
type target struct {
	host  string
	port  uint16
	addrs []netip.Addr
}

// lookup finds the node at name, which is in lower case and within the zone.
func (z *zone) lookup(v Records, name string) (node, bool) {
	labels := labelsBelow(z.name, name)
	n := len(labels)
	if n == 0 {
		return node{apex: true}, true
	}
	path := labels[:n-1]
	switch labels[n-1] {
	case "svc":
		return z.service(v, path)
	case "pod":
		return z.pod(v, path)
	case "dns-version":
		return node{text: schemaVersion}, n == 1
	case "dns": // the zone's name server is ns.dns
		if n == 1 {
			return node{}, true
		}
		return node{addrs: []netip.Addr{z.server}}, n == 2 && path[0] == "ns"
	}
	return node{}, false
}

// service finds the node at path below svc. The namespace is the last label;
// that of a tenant, which only the system sees, has two.
func (z *zone) service(v Records, path []string) (node, bool) {
	if len(path) == 0 {
		return node{}, true
	}
	found, ok := z.serviceIn(v, path[len(path)-1], path[:len(path)-1])
	if n := len(path); !ok && n > 1 {
		return z.serviceIn(v, path[n-2]+"."+path[n-1], path[:n-2])
	}
	return found, ok
}

// serviceIn finds the node at path below namespace.
func (z *zone) serviceIn(v Records, namespace string, path []string) (node, bool) {
	n := len(path)
	switch {
	case n == 0:
		return node{}, v.Namespace(namespace)
	case n > 3:
		return node{}, false
	}
	svc, ok := v.Service(namespace, path[n-1])
	if !ok {
		return node{}, false
	}
	if svc.ExternalName != "" {
		if _, err := netip.ParseAddr(svc.ExternalName); err == nil {
			return node{}, n == 1 // an address is not a name: no record
		}
		return node{alias: dns.CanonicalName(svc.ExternalName)}, n == 1
	}
	backends := z.backends(v, svc)
	if svc.Headless && len(backends) == 0 {
		return node{}, false // section 2.4.1
	}
	if n == 1 {
		return collect(backends, func(Port) bool { return true }), true
	}
	if proto, ok := strings.CutPrefix(path[n-2], "_"); ok {
		// Unnamed ports have no record of their own.
		match := func(p Port) bool { return p.Name != "" && p.Protocol == proto }
		if n == 3 {
			port, underscore := strings.CutPrefix(path[0], "_")
			match = func(p Port) bool { return underscore && port != "" && p.Name == port && p.Protocol == proto }
		}
		found := node{targets: collect(backends, match).targets}
		exists := len(found.targets) > 0
		if n == 2 {
			found.targets = nil
		}
		return found, exists
	}
	if n == 2 && svc.Headless {
		host := path[0]
		backends = slices.DeleteFunc(backends, func(b backend) bool { return b.label != host })
		return collect(backends, func(Port) bool { return true }), len(backends) > 0
	}
	return node{}, false
}

// backend is a target of a service: the service itself if it has a cluster
// IP, else one of its endpoints.
type backend struct {
	label, host string
	addrs       []netip.Addr
	ports       []Port
}

func (z *zone) backends(v Records, svc Service) []backend {
	if !svc.Headless {
		return []backend{{host: z.serviceName(svc.Namespace, svc.Name), addrs: svc.ClusterIPs, ports: svc.Ports}}
	}
	var out []backend
	at := map[string]int{}
	for _, e := range v.Endpoints(svc.Namespace, svc.Name) {
		label := e.label()
		i, ok := at[label]
		if !ok {
			i = len(out)
			at[label] = i
			out = append(out, backend{label: label, host: z.endpointName(svc.Namespace, svc.Name, e)})
		}
		out[i].addrs = append(out[i].addrs, e.Addr)
		for _, p := range e.Ports {
			if !slices.Contains(out[i].ports, p) {
				out[i].ports = append(out[i].ports, p)
			}
		}
	}
	return out
}

// collect makes one node of backends, with a target for each port that
// matches.
func collect(backends []backend, match func(Port) bool) node {
	var out node
	for _, b := range backends {
		out.addrs = append(out.addrs, b.addrs...)
		for _, p := range b.ports {
			if match(p) {
				out.targets = append(out.targets, target{host: b.host, port: p.Number, addrs: b.addrs})
			}
		}
	}
	return out
}

// pod finds the node at path below pod. Any address has a record in every
// namespace that exists: pods are not watched, which would cost each node the
// pods of the whole cluster.
func (z *zone) pod(v Records, path []string) (node, bool) {
	switch len(path) {
	case 0:
		return node{}, true
	case 1:
		return node{}, v.Namespace(path[0])
	case 2, 3:
		if a, ok := undashed(path[0]); ok && v.Namespace(strings.Join(path[1:], ".")) {
			return node{addrs: []netip.Addr{a}}, true
		}
		return node{}, len(path) == 2 && v.Namespace(path[0]+"."+path[1])
	}
	return node{}, false
}

// reverse finds the node of an address.
func (z *zone) reverse(v Records, addr netip.Addr) (node, bool) {
	var names []string
	if addr == z.server {
		names = append(names, z.serverName())
	}
	for _, s := range v.ServicesAt(addr) {
		names = append(names, z.serviceName(s.Namespace, s.Name))
	}
	for _, e := range v.EndpointsAt(addr) {
		names = append(names, z.endpointName(e.Namespace, e.Service, e.Endpoint))
	}
	// A Service may hold the server's own address; its name says more.
	if len(names) > 1 && names[0] == z.serverName() {
		names = names[1:]
	}
	slices.Sort(names)
	return node{pointer: slices.Compact(names)}, len(names) > 0
}

func (z *zone) serverName() string { return "ns.dns." + z.name }

func (z *zone) serviceName(namespace, name string) string {
	return name + "." + namespace + ".svc." + z.name
}

func (z *zone) endpointName(namespace, name string, e Endpoint) string {
	return e.label() + "." + z.serviceName(namespace, name)
}

// soa is the start of authority of apex, which is the zone or a reverse zone.
func (z *zone) soa(apex string) *dns.SOA {
	return &dns.SOA{
		Hdr: header(apex, dns.TypeSOA), Ns: z.serverName(), Mbox: "hostmaster." + z.name,
		Serial: z.serial, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl,
	}
}

func header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}
