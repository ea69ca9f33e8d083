package gateway

import (
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Bounds of a Gateway, as its CRD says.
const (
	mostListeners = 64
	mostAddresses = 16
	mostPerPort   = 64
)

// gateway is a Gateway of this controller.
type gateway struct {
	object *gatewayv1.Gateway
	name   types.NamespacedName
	rank   int // by age
	// listeners are those that the status has.
	listeners []*listener
	// refused says why the Gateway is not accepted, apart from its listeners, and unusable why it has no addresses.
	refused, unusable problem
	// invalid are listeners that are not accepted, in words.
	invalid   []problem
	addresses []string
	// live are the listeners that are accepted, by port and host: these have the hosts, even while they lack a
	// certificate, so that no other space gets a host when a Secret is replaced.
	live map[string]*listener
}

// liveKey is a place for one listener. HTTPS and TLS have the same port.
func liveKey(scheme, host string) string {
	if scheme == schemeTLS {
		scheme = schemeHTTPS
	}
	return scheme + " " + host
}

// gateway looks at a Gateway, before it has routes.
func (r gatewayReader) gateway(object *gatewayv1.Gateway, rank int) *gateway {
	g := &gateway{object: object, name: nameOf(object), rank: rank, live: map[string]*listener{}}
	if !r.spend(1 + costOfEntry*min(len(object.Spec.Listeners), mostListeners)) {
		g.refused = tooMany()
		return g
	}
	r.addressesOf(g)
	g.refused = refusal(object).or(g.refused)
	r.listenersOf(g)
	for _, l := range g.listeners {
		if !l.refused.is() && len(l.kinds) > 0 && !g.refused.is() {
			g.live[liveKey(l.scheme, l.host)] = l
			l.live = true
		}
	}
	r.markOverlaps(g)
	if r.over() { // what was looked at may be wrong
		g.refused, g.live = tooMany(), nil
		for _, l := range g.listeners {
			l.live = false
		}
	}
	return g
}

// refusal says what a Gateway asks for that is not here.
func refusal(object *gatewayv1.Gateway) problem {
	if i := object.Spec.Infrastructure; i != nil && i.ParametersRef != nil {
		return problemf(gatewayv1.GatewayReasonInvalidParameters, "spec.infrastructure.parametersRef: Gateways take "+
			"no parameters here")
	}
	if t := object.Spec.TLS; t != nil && t.Backend != nil && t.Backend.ClientCertificateRef != nil {
		return problemf(gatewayv1.GatewayReasonInvalid, "spec.tls.backend.clientCertificateRef is not supported")
	}
	return problem{}
}

// validatesClients reports whether a Gateway wants certificates of clients at port 443.
func validatesClients(object *gatewayv1.Gateway) bool {
	if object.Spec.TLS == nil || object.Spec.TLS.Frontend == nil {
		return false
	}
	f := object.Spec.TLS.Frontend
	if len(f.PerPort) > mostPerPort {
		return true // nobody is let in by mistake
	}
	for i := range f.PerPort {
		if f.PerPort[i].Port == portHTTPS {
			return f.PerPort[i].TLS.Validation != nil
		}
	}
	return f.Default.Validation != nil
}

// addressesOf finds the addresses of a Gateway: all, or those that it asks for.
func (r gatewayReader) addressesOf(g *gateway) {
	asked := g.object.Spec.Addresses
	if len(asked) > mostAddresses {
		g.refused = problemf(gatewayv1.GatewayReasonUnsupportedAddress, "spec.addresses has more than %d entries",
			mostAddresses)
		return
	}
	wanted := map[netip.Addr]bool{}
	all := len(asked) == 0
	for i := range asked {
		a := &asked[i]
		if a.Type != nil && *a.Type != gatewayv1.IPAddressType {
			g.refused = problemf(gatewayv1.GatewayReasonUnsupportedAddress, "spec.addresses[%d]: type %s is not "+
				"supported, only %s", i, quote(*a.Type), gatewayv1.IPAddressType)
			return
		}
		if a.Value == "" { // any
			all = true
			continue
		}
		addr, err := netip.ParseAddr(clip(a.Value, mostName))
		if err != nil || !r.hasAddress(addr) {
			g.unusable = problemf(gatewayv1.GatewayReasonAddressNotUsable, "spec.addresses[%d]: requests are not "+
				"taken at %s; leave spec.addresses empty to get the addresses of the nodes", i, quote(a.Value))
			continue
		}
		wanted[addr.Unmap()] = true
	}
	for _, s := range r.Addresses {
		addr, err := netip.ParseAddr(s)
		if err != nil || !all && !wanted[addr.Unmap()] {
			continue
		}
		if g.addresses = append(g.addresses, addr.Unmap().String()); len(g.addresses) == mostAddresses {
			return
		}
	}
}

func (r gatewayReader) hasAddress(addr netip.Addr) bool {
	r.spend(len(r.Addresses))
	for _, s := range r.Addresses {
		if a, err := netip.ParseAddr(s); err == nil && a.Unmap() == addr.Unmap() {
			return true
		}
	}
	return false
}

// statusOf is the status of a Gateway, after all routes were looked at.
func (r gatewayReader) statusOf(g *gateway) *gatewayv1.GatewayStatus {
	present := &g.object.Status
	c := r.conditionsOn(present.Conditions, g.object.Generation, string(gatewayv1.GatewayConditionAccepted),
		string(gatewayv1.GatewayConditionProgrammed))
	out := &gatewayv1.GatewayStatus{AttachedListenerSets: present.AttachedListenerSets}
	accepted := g.refused
	if !accepted.is() && !g.acceptsAny() {
		accepted = problemf(gatewayv1.GatewayReasonListenersNotValid, "no listener is accepted: %s",
			several(g.invalid))
	}
	switch {
	case accepted.is():
		judge(c, gatewayv1.GatewayConditionAccepted, accepted, "", "")
	case len(g.invalid) > 0:
		set(c, gatewayv1.GatewayConditionAccepted, metav1.ConditionTrue, gatewayv1.GatewayReasonListenersNotValid,
			fmt.Sprintf("some listeners are not accepted: %s", several(g.invalid)))
	default:
		judge(c, gatewayv1.GatewayConditionAccepted, accepted, gatewayv1.GatewayReasonAccepted,
			"the Gateway is accepted")
	}
	judge(c, gatewayv1.GatewayConditionProgrammed, g.notProgrammed(accepted), gatewayv1.GatewayReasonProgrammed,
		"nodes take requests at the addresses in the status")
	out.Conditions = c.list
	if !accepted.is() {
		for _, address := range g.addresses {
			typ := gatewayv1.IPAddressType
			out.Addresses = append(out.Addresses, gatewayv1.GatewayStatusAddress{Type: &typ, Value: address})
		}
	}
	was := map[gatewayv1.SectionName][]metav1.Condition{}
	for i := range present.Listeners {
		was[present.Listeners[i].Name] = present.Listeners[i].Conditions
	}
	for _, l := range g.listeners {
		out.Listeners = append(out.Listeners, r.statusOfListener(g, l, was[l.spec.Name]))
	}
	return out
}

func (g *gateway) acceptsAny() bool {
	for _, l := range g.listeners {
		if !l.refused.is() {
			return true
		}
	}
	return false
}

// notProgrammed says why nodes take no requests for a Gateway.
func (g *gateway) notProgrammed(accepted problem) problem {
	switch {
	case accepted.is():
		return problemf(gatewayv1.GatewayReasonInvalid, "the Gateway is not accepted")
	case g.unusable.is():
		return g.unusable
	case len(g.addresses) == 0:
		return problemf(gatewayv1.GatewayReasonAddressNotAssigned, "no node takes requests so far")
	case !slices.ContainsFunc(g.listeners, (*listener).served):
		return problemf(gatewayv1.GatewayReasonInvalid, "no listener takes requests: see their conditions")
	}
	return problem{}
}
