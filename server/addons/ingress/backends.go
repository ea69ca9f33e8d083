package ingress

import (
	"cmp"
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

// backend is the ID of the port of a Service that an Ingress names. One that is not there has no endpoints.
func (r *resolver) backend(ingress *networkingv1.Ingress, to *networkingv1.IngressBackend) string {
	if to.Service == nil {
		r.say(ingress, reasonBackend, "backends are Services here: one names another resource")
		return r.empty(ingress.Namespace + "/:")
	}
	name, wanted := to.Service.Name, spelledPort(to.Service.Port)
	id := ingress.Namespace + "/" + name + ":" + wanted
	r.uses[object{kindService, ingress.Namespace, name}] = true
	service := r.service(ingress.Namespace, name)
	switch {
	case service == nil:
		r.say(ingress, reasonBackend, "there is no Service %s", name)
		return r.empty(id)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		r.say(ingress, reasonBackend, "Service %s is a name of something outside; requests go to pods only", name)
		return r.empty(id)
	}
	port := portOf(service, to.Service.Port)
	if port == nil {
		r.say(ingress, reasonBackend, "Service %s has no port %s", name, wanted)
		return r.empty(id)
	}
	if r.backends[id] == nil {
		if len(r.backends) >= mostBackends {
			r.say(ingress, reasonBounds, "the Ingresses of this space name more than %d ports of Services together; "+
				"the rest has no endpoints", mostBackends)
			return r.empty(ingress.Namespace + "/:")
		}
		r.backends[id] = &joinapi.IngressBackend{ID: id, Tenant: r.tenant, Protocol: protocolOf(port),
			Endpoints: r.ready(r.endpoints(ingress.Namespace, name), port.Name)}
	}
	return id
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

// ready are the endpoints of a port that take requests: those that are ready, or, if none is, those that end
// and still serve.
func (r *resolver) ready(slicesOf []*discoveryv1.EndpointSlice, port string) []netip.AddrPort {
	var now, ending []netip.AddrPort
	for _, slice := range slicesOf {
		number := numberOf(slice, port)
		if number == 0 || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if len(e.Addresses) == 0 {
				continue
			}
			addr, err := netip.ParseAddr(e.Addresses[0])
			isReady := e.Conditions.Ready == nil || *e.Conditions.Ready
			serving := e.Conditions.Serving != nil && *e.Conditions.Serving
			if err != nil || !isReady && !serving {
				continue
			}
			// Whoever makes a process of the node connect would stand behind the walls between tenants.
			if !space.IsSystem(r.tenant) && !r.owns(addr.Unmap()) {
				r.strangers = true
				continue
			}
			to := netip.AddrPortFrom(addr.Unmap(), number)
			if isReady {
				now = append(now, to)
			} else {
				ending = append(ending, to)
			}
		}
	}
	if len(now) == 0 {
		now = ending
	}
	slices.SortFunc(now, netip.AddrPort.Compare)
	now = slices.Compact(now)
	now = now[:min(len(now), mostEndpoints, mostOfAll-r.all)]
	r.all += len(now)
	return now
}

// numberOf is that of a port of the name in a slice, 0 if it has none.
func numberOf(slice *discoveryv1.EndpointSlice, name string) uint16 {
	for _, p := range slice.Ports {
		if p.Port == nil || *p.Port <= 0 || *p.Port > 65535 ||
			p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
			continue
		}
		if p.Name == nil && name == "" || p.Name != nil && *p.Name == name {
			return uint16(*p.Port)
		}
	}
	return 0
}
