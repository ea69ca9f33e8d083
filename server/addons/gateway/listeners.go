package gateway

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	portHTTP    = 80
	portHTTPS   = 443
	schemeHTTP  = "http"
	schemeHTTPS = "https"
	// schemeTLS is that of connections that are passed on.
	schemeTLS = "tls"
	// mostKinds is how many kinds of routes a listener names, as the CRD says.
	mostKinds = 8
)

// listener is one of a Gateway.
type listener struct {
	spec   *gatewayv1.Listener
	index  int
	host   string
	scheme string // "" of a protocol that is not supported
	// refused says why it is not accepted, conflict which others it conflicts with, unresolved what is wrong with
	// its references.
	refused, conflict, unresolved problem
	kinds                         []gatewayv1.RouteGroupKind
	sources                       sources
	certificate                   *secretRef
	// unused says that there are certificates that are not presented.
	unused bool
	// overlaps is another listener with names in common.
	overlaps *listener
	live     bool
	attached int32
	// occupied are the hosts that routes of a kind are attached for.
	occupied map[string]*occupied
}

// served reports whether requests are taken for it.
func (l *listener) served() bool {
	return l.live && (l.scheme != schemeHTTPS || l.certificate != nil)
}

// listenersOf looks at the listeners of a Gateway.
func (r gatewayReader) listenersOf(g *gateway) {
	specs := g.object.Spec.Listeners
	if len(specs) > mostListeners {
		g.invalid = append(g.invalid, unsupported("a Gateway has at most %d "+
			"listeners; the rest is left out", mostListeners))
		specs = specs[:mostListeners]
	}
	named := map[gatewayv1.SectionName]*listener{}
	first := map[string]*listener{}
	for i := range specs {
		l := &listener{spec: &specs[i], index: i}
		if !isObjectName(string(l.spec.Name)) {
			g.invalid = append(g.invalid, unsupported("spec.listeners[%d]: "+
				"%s is not a name", i, quote(l.spec.Name)))
			continue
		}
		if other := named[l.spec.Name]; other != nil { // a status has one entry for both
			other.refused = unsupported("several listeners have this name")
			continue
		}
		named[l.spec.Name] = l
		g.listeners = append(g.listeners, l)
		r.lookAt(g, l)
	}
	for _, l := range g.listeners {
		if l.refused.is() {
			continue
		}
		key := liveKey(l.scheme, l.host)
		if other := first[key]; other != nil {
			l.conflicts(other)
			other.conflicts(l)
			continue
		}
		first[key] = l
	}
	for _, l := range g.listeners {
		l.refused = l.refused.or(l.conflict)
		if l.refused.is() {
			g.invalid = append(g.invalid, problem{l.refused.reason, fmt.Sprintf("listener %s: %s", l.spec.Name,
				l.refused.message)})
		}
	}
}

func (l *listener) conflicts(with *listener) {
	reason := gatewayv1.ListenerReasonHostnameConflict
	if l.scheme != with.scheme {
		reason = gatewayv1.ListenerReasonProtocolConflict
	}
	l.conflict = l.conflict.or(problemf(reason, "listener %s has the same port and hostname", with.spec.Name))
}

// lookAt checks a listener by itself.
func (r gatewayReader) lookAt(g *gateway, l *listener) {
	switch l.spec.Protocol {
	case gatewayv1.HTTPProtocolType:
		l.scheme, l.refused = schemeHTTP, portOnly(l, portHTTP)
	case gatewayv1.HTTPSProtocolType:
		l.scheme, l.refused = schemeHTTPS, portOnly(l, portHTTPS)
	case gatewayv1.TLSProtocolType:
		l.scheme, l.refused = schemeTLS, passthroughOnly(l.spec.TLS).or(portOnly(l, portHTTPS))
	default:
		l.refused = problemf(gatewayv1.ListenerReasonUnsupportedProtocol, "protocol %s is not supported, only HTTP, "+
			"HTTPS and TLS", quote(l.spec.Protocol))
	}
	if h := l.spec.Hostname; h != nil && *h != "" {
		if !isHost(string(*h)) {
			l.refused = l.refused.or(unsupported("hostname %s is not a DNS "+
				"name in lower case", quote(*h)))
		} else {
			l.host = string(*h)
		}
	}
	r.kindsOf(l)
	l.refused = l.refused.or(r.sourcesOf(l))
	switch {
	case l.scheme == schemeHTTPS:
		l.refused = l.refused.or(tlsRefusal(g.object, l.spec.TLS))
		r.certificateOf(g, l)
	case l.scheme == schemeHTTP && l.spec.TLS != nil:
		l.refused = l.refused.or(unsupported("tls is for HTTPS and TLS only"))
	}
}

func portOnly(l *listener, port gatewayv1.PortNumber) problem {
	if l.spec.Port == port {
		return problem{}
	}
	return problemf(gatewayv1.ListenerReasonPortUnavailable, "port %d is not available for %s: nodes take requests "+
		"at ports %d (HTTP) and %d (HTTPS and TLS)", l.spec.Port, l.spec.Protocol, portHTTP, portHTTPS)
}

// tlsRefusal says what a listener asks of TLS that is not here. To ignore it might let in whom it keeps out.
func tlsRefusal(object *gatewayv1.Gateway, t *gatewayv1.ListenerTLSConfig) problem {
	switch {
	case validatesClients(object):
		return unsupported("certificates of clients are not checked here: " +
			"spec.tls.frontend is not supported")
	case t == nil:
		return problem{}
	case t.Mode != nil && *t.Mode != "" && *t.Mode != gatewayv1.TLSModeTerminate:
		return unsupported("tls.mode %s is not supported for HTTPS, only %s",
			quote(*t.Mode), gatewayv1.TLSModeTerminate)
	case len(t.Options) > 0:
		return unsupported("tls.options are not supported")
	}
	return problem{}
}

// passthroughOnly says what a listener with TLS asks for that is not here. Its certificates are of no use, and left.
func passthroughOnly(t *gatewayv1.ListenerTLSConfig) problem {
	mode := gatewayv1.TLSModeTerminate
	if t != nil && t.Mode != nil && *t.Mode != "" {
		mode = *t.Mode
	}
	switch {
	case mode != gatewayv1.TLSModePassthrough:
		return unsupported("tls.mode %s is not supported for TLS, only %s; HTTPS has %s", quote(mode),
			gatewayv1.TLSModePassthrough, gatewayv1.TLSModeTerminate)
	case len(t.Options) > 0:
		return unsupported("tls.options are not supported")
	}
	return problem{}
}

// kindsFor are the kinds of routes that listeners of a protocol take.
func kindsFor(scheme string) []gatewayv1.Kind {
	switch scheme {
	case schemeHTTP, schemeHTTPS:
		return []gatewayv1.Kind{KindHTTP, KindGRPC}
	case schemeTLS:
		return []gatewayv1.Kind{KindTLS}
	}
	return nil
}

// kindsOf finds which kinds of routes a listener takes.
func (r gatewayReader) kindsOf(l *listener) {
	group := gatewayv1.Group(gatewayv1.GroupName)
	l.kinds = []gatewayv1.RouteGroupKind{}
	a := l.spec.AllowedRoutes
	if a == nil || len(a.Kinds) == 0 {
		for _, kind := range kindsFor(l.scheme) {
			l.kinds = append(l.kinds, gatewayv1.RouteGroupKind{Group: &group, Kind: kind})
		}
		return
	}
	if len(a.Kinds) > mostKinds {
		l.unresolved = badKinds("allowedRoutes.kinds has more than %d entries",
			mostKinds)
		return
	}
	for i := range a.Kinds {
		k := &a.Kinds[i]
		if !slices.Contains(kindsFor(l.scheme), k.Kind) || k.Group != nil && *k.Group != group {
			l.unresolved = l.unresolved.or(badKinds("allowedRoutes.kinds[%d]: kind %s is not supported, only %s and "+
				"%s for HTTP and HTTPS, and %s for TLS", i, quote(k.Kind), KindHTTP, KindGRPC, KindTLS))
		} else if !l.takesKind(string(k.Kind)) {
			l.kinds = append(l.kinds, gatewayv1.RouteGroupKind{Group: &group, Kind: k.Kind})
		}
	}
}

// takesKind reports whether a listener takes routes of a kind.
func (l *listener) takesKind(kind string) bool {
	return slices.ContainsFunc(l.kinds, func(k gatewayv1.RouteGroupKind) bool { return string(k.Kind) == kind })
}

// badKinds is the problem of kinds of routes that are not here.
func badKinds(format string, args ...any) problem {
	return problemf(gatewayv1.ListenerReasonInvalidRouteKinds, format, args...)
}

// markOverlaps finds listeners with TLS that have names in common: clients may use a connection for both.
func (r gatewayReader) markOverlaps(g *gateway) {
	for _, l := range g.listeners {
		if !l.live || l.scheme != schemeHTTPS {
			continue
		}
		for host := range wider(l.host) {
			if !r.spend(1) {
				return
			}
			if other := g.live[liveKey(schemeHTTPS, host)]; other != nil && other.scheme == schemeHTTPS {
				l.overlaps = other
				if other.overlaps == nil {
					other.overlaps = l
				}
				break
			}
		}
	}
}

// statusOfListener is the status of a listener, after all routes were looked at.
func (r gatewayReader) statusOfListener(g *gateway, l *listener, present []metav1.Condition) gatewayv1.ListenerStatus {
	c := r.conditionsOn(present, g.object.Generation, string(gatewayv1.ListenerConditionAccepted),
		string(gatewayv1.ListenerConditionProgrammed), string(gatewayv1.ListenerConditionResolvedRefs),
		string(gatewayv1.ListenerConditionConflicted), string(gatewayv1.ListenerConditionOverlappingTLSConfig))
	message := "the listener is accepted"
	if l.unused {
		message += "; of its certificates the first that can be used is presented"
	}
	judge(c, gatewayv1.ListenerConditionAccepted, l.refused, gatewayv1.ListenerReasonAccepted, message)
	judge(c, gatewayv1.ListenerConditionProgrammed, l.notProgrammed(g), gatewayv1.ListenerReasonProgrammed,
		"nodes take requests for this listener")
	judge(c, gatewayv1.ListenerConditionResolvedRefs, l.unresolved, gatewayv1.ListenerReasonResolvedRefs,
		"all references are resolved")
	if l.conflict.is() {
		set(c, gatewayv1.ListenerConditionConflicted, metav1.ConditionTrue, l.conflict.reason, l.conflict.message)
	} else {
		set(c, gatewayv1.ListenerConditionConflicted, metav1.ConditionFalse, gatewayv1.ListenerReasonNoConflicts,
			"no other listener has the same port and hostname")
	}
	if l.overlaps != nil {
		set(c, gatewayv1.ListenerConditionOverlappingTLSConfig, metav1.ConditionTrue,
			gatewayv1.ListenerReasonOverlappingHostnames,
			fmt.Sprintf("listener %s has hostnames in common", l.overlaps.spec.Name))
	} else {
		remove(c, gatewayv1.ListenerConditionOverlappingTLSConfig)
	}
	return gatewayv1.ListenerStatus{Name: l.spec.Name, SupportedKinds: l.kinds, AttachedRoutes: l.attached,
		Conditions: c.list}
}

// notProgrammed says why nodes take no requests for a listener.
func (l *listener) notProgrammed(g *gateway) problem {
	switch {
	case l.refused.is():
		return problemf(gatewayv1.ListenerReasonInvalid, "the listener is not accepted")
	case l.served() && len(g.addresses) == 0:
		return problemf(gatewayv1.ListenerReasonPending, "no node takes requests so far")
	case l.served():
		return problem{}
	case l.unresolved.is():
		return problemf(gatewayv1.ListenerReasonInvalid, "its references are not resolved")
	}
	return problemf(gatewayv1.ListenerReasonInvalid, "the Gateway takes no requests: see its conditions")
}
