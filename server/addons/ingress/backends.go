package ingress

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/space"
)

// ingressBackend is the ID of the backend that an Ingress names.
func (r *resolver) ingressBackend(from source, to *networkingv1.IngressBackend) string {
	if to.Service == nil {
		r.say(from, reasonBackend, "backends are Services here: one names another resource")
		return r.empty(from.namespace + "/:")
	}
	id, why := r.backend(from, from.namespace, to.Service.Name, to.Service.Port, protocolOf)
	if why != "" {
		r.say(from, reasonBackend, "%s", why)
	}
	return id
}

// backend is the ID of the port of a Service, and why it has no endpoints if it is not there.
func (r *resolver) backend(from source, namespace, name string, port networkingv1.ServiceBackendPort,
	speaks func(*corev1.ServicePort) string,
) (id, why string) {
	r.uses[object{kindService, namespace, name}] = true
	id = namespace + "/" + name + ":" + spelledPort(port)
	service := r.service(namespace, name)
	switch {
	case service == nil:
		return r.empty(id), "there is no Service " + name
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return r.empty(id), fmt.Sprintf("Service %s is a name of something outside; requests go to pods only", name)
	}
	is := portOf(service, port)
	if is == nil {
		return r.empty(id), fmt.Sprintf("Service %s has no port %s", name, spelledPort(port))
	}
	protocol := speaks(is)
	if protocol != protocolOf(is) {
		id += "/" + protocol // of a route, which reads less into a port than an Ingress
	}
	if r.found[id] {
		return id, ""
	}
	if len(r.backends) >= mostBackends {
		r.say(from, reasonBounds, "the Ingresses and routes of this space name more than %d ports of Services "+
			"together; the rest has no endpoints", mostBackends)
		return r.empty(from.namespace + "/:"), ""
	}
	r.found[id] = true
	r.backends[id] = &joinapi.IngressBackend{ID: id, Tenant: r.tenant, Protocol: protocol,
		Endpoints: r.ready(r.endpoints(namespace, name), is.Name)}
	if r.worked > mostWorked || r.all >= mostInAll {
		r.say(from, reasonBounds, "the Services of this space that Ingresses and routes name have too many endpoints "+
			"together (%d are the most): some are left out", mostInAll)
	}
	return id, ""
}

func (r *resolver) empty(id string) string {
	if r.backends[id] == nil {
		r.backends[id] = &joinapi.IngressBackend{ID: id, Tenant: r.tenant}
	}
	return id
}

func spelledPort(p networkingv1.ServiceBackendPort) string {
	return cmp.Or(p.Name, strconv.Itoa(int(p.Number)))
}

// portOf is the port of a Service that is meant, nil if it has none.
func portOf(service *corev1.Service, p networkingv1.ServiceBackendPort) *corev1.ServicePort {
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if port.Protocol != "" && port.Protocol != corev1.ProtocolTCP {
			continue
		}
		if p.Name != "" && port.Name == p.Name || p.Name == "" && port.Port == p.Number {
			return port
		}
	}
	return nil
}

// protocolOf is what the endpoints of a port speak: what appProtocol says, else HTTPS for 443 and for names
// that begin with https, as Traefik has it.
func protocolOf(port *corev1.ServicePort) string {
	if port.AppProtocol != nil {
		switch strings.ToLower(*port.AppProtocol) {
		case "kubernetes.io/h2c", "h2c", "grpc":
			return joinapi.ProtocolH2C
		case "https":
			return joinapi.ProtocolHTTPS
		}
		return joinapi.ProtocolHTTP
	}
	if port.Port == 443 || strings.HasPrefix(port.Name, "https") {
		return joinapi.ProtocolHTTPS
	}
	return joinapi.ProtocolHTTP
}

// declaredProtocol is what the endpoints of a port speak by the Gateway API, which reads nothing into numbers and
// names.
func declaredProtocol(port *corev1.ServicePort) string {
	if port.AppProtocol == nil {
		return joinapi.ProtocolHTTP
	}
	return protocolOf(port)
}

// http2Protocol is what the endpoints of a port speak that is sent HTTP/2: it is without TLS, unless appProtocol says
// that it is with it.
func http2Protocol(port *corev1.ServicePort) string {
	if declaredProtocol(port) == joinapi.ProtocolHTTPS {
		return joinapi.ProtocolHTTPS
	}
	return joinapi.ProtocolH2C
}

// readSlice is what is read of a slice once, whatever ports of it are asked for.
type readSlice struct {
	ports         map[string]uint16
	ready, ending []netip.Addr
}

// slice reads a slice, unless too much was read already.
func (r *resolver) slice(slice *discoveryv1.EndpointSlice) *readSlice {
	if out, ok := r.read[slice]; ok {
		return out
	}
	out := &readSlice{ports: map[string]uint16{}}
	r.read[slice] = out
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return out
	}
	r.worked += len(slice.Endpoints) + len(slice.Ports)
	if r.worked > mostWorked {
		return out
	}
	for _, p := range slice.Ports {
		if p.Port == nil || *p.Port <= 0 || *p.Port > 65535 || p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
			continue
		}
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if out.ports[name] == 0 {
			out.ports[name] = uint16(*p.Port)
		}
	}
	for i := range slice.Endpoints {
		r.endpoint(&slice.Endpoints[i], out)
	}
	return out
}

func (r *resolver) endpoint(e *discoveryv1.Endpoint, out *readSlice) {
	if len(e.Addresses) == 0 {
		return
	}
	addr, err := netip.ParseAddr(e.Addresses[0])
	isReady := e.Conditions.Ready == nil || *e.Conditions.Ready
	serving := e.Conditions.Serving != nil && *e.Conditions.Serving
	if err != nil || !isReady && !serving {
		return
	}
	addr = addr.Unmap()
	// Whoever makes a process of the node connect would stand behind the walls between tenants.
	if !space.IsSystem(r.tenant) && !r.owns(addr) {
		r.strangers = true
		return
	}
	r.addresses[addr] = true
	if isReady {
		out.ready = append(out.ready, addr)
	} else {
		out.ending = append(out.ending, addr)
	}
}

// ready are the endpoints of a port that take requests: those that are ready, or, if none is, those that end
// and still serve.
func (r *resolver) ready(slicesOf []*discoveryv1.EndpointSlice, port string) []netip.AddrPort {
	var now, ending []netip.AddrPort
	add := func(to []netip.AddrPort, addresses []netip.Addr, number uint16) []netip.AddrPort {
		for _, addr := range addresses {
			to = append(to, netip.AddrPortFrom(addr, number))
		}
		return to
	}
	for _, slice := range slicesOf {
		read := r.slice(slice)
		number := read.ports[port]
		r.worked++
		if number == 0 || r.worked > mostWorked {
			continue
		}
		r.worked += len(read.ready) + len(read.ending)
		now, ending = add(now, read.ready, number), add(ending, read.ending, number)
	}
	if len(now) == 0 {
		now = ending
	}
	slices.SortFunc(now, netip.AddrPort.Compare)
	now = slices.Compact(now)
	now = now[:min(len(now), mostEndpoints, mostInAll-r.all)]
	r.all += len(now)
	return now
}
