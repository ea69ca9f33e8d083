package gateway

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// mostWeight is that of a backendRef, as the CRD says.
const mostWeight = 1000000

// targets resolves the backendRefs of a rule, and says what is wrong with the rule. References that are not resolved
// are taken down, and their part of the requests is answered with 500.
func (r ruleReader) targets(
	t *route, c *compiled, field string, rule *gatewayv1.HTTPRouteRule, filters *joinapi.IngressFilters,
) (out []Target, wrong problem) {
	switch {
	case len(rule.BackendRefs) > mostBackends:
		return nil, unsupported("%s.backendRefs has more than %d entries", field, mostBackends)
	case len(rule.BackendRefs) > 0 && filters != nil && filters.Redirect != nil:
		return nil, incompatible("%s: %s and backendRefs exclude each other", field,
			gatewayv1.HTTPRouteFilterRequestRedirect)
	}
	for i := range rule.BackendRefs {
		ref := &rule.BackendRefs[i]
		at := fmt.Sprintf("%s.backendRefs[%d]", field, i)
		if !r.spend(1) {
			return nil, wrong
		}
		target, p := r.target(t, at, &ref.BackendObjectReference)
		if p.is() {
			c.refs = append(c.refs, p)
			target = Target{Broken: true}
		}
		target.Weight = 1
		if ref.Weight != nil {
			target.Weight = *ref.Weight
		}
		if target.Weight < 0 || target.Weight > mostWeight {
			wrong = wrong.or(unsupported("%s.weight: %d is not between 0 and %d", at, target.Weight, mostWeight))
		}
		target.Filters, p = r.filters(at, ref.Filters, placeBackend)
		wrong = wrong.or(p)
		out = append(out, target)
	}
	return out, wrong
}

// target resolves a reference to a port of a Service.
func (r ruleReader) target(t *route, at string, ref *gatewayv1.BackendObjectReference) (Target, problem) {
	if ref.Group != nil && *ref.Group != "" || ref.Kind != nil && *ref.Kind != kindService {
		return Target{}, problemf(gatewayv1.RouteReasonInvalidKind, "%s: backends are Services only", at)
	}
	namespace, ok := r.namespace(t.object, ref.Namespace)
	name := string(ref.Name)
	if !ok || !isObjectName(name) {
		return Target{}, notFound("%s: there is no Service %s", at, quote(name))
	}
	if !r.permits(reference{t.kind, t.name.Namespace, kindService, namespace, name}) {
		return Target{}, problemf(gatewayv1.RouteReasonRefNotPermitted, "%s: no ReferenceGrant in namespace %s "+
			"permits %ss of this namespace to use Service %s", at, *ref.Namespace, t.kind, name)
	}
	if ref.Port == nil {
		return Target{}, notFound("%s: a port of Service %s is needed", at, name)
	}
	service := r.Service(namespace, name)
	switch {
	case service == nil:
		return Target{}, notFound("%s: there is no Service %s", at, name)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return Target{}, notFound("%s: Service %s is a name of something "+
			"outside; requests go to pods only", at, name)
	}
	r.spend(len(service.Spec.Ports))
	port := portOf(service, *ref.Port)
	switch {
	case port == nil:
		return Target{}, notFound("%s: Service %s has no port %d for TCP", at, name,
			*ref.Port)
	case port.AppProtocol != nil && !t.speaks(*port.AppProtocol):
		return Target{}, problemf(gatewayv1.RouteReasonUnsupportedProtocol, "%s: appProtocol %s of Service %s is not "+
			"supported", at, quote(*port.AppProtocol), name)
	}
	return Target{Namespace: namespace, Service: name, Port: *ref.Port, HTTP2: t.kind == KindGRPC}, problem{}
}

// notFound is the problem of a backend that is not there.
func notFound(format string, args ...any) problem {
	return problemf(gatewayv1.RouteReasonBackendNotFound, format, args...)
}

// portOf is a port of a Service for TCP, nil if it has none.
func portOf(service *corev1.Service, number int32) *corev1.ServicePort {
	for i := range service.Spec.Ports {
		p := &service.Spec.Ports[i]
		if p.Port == number && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
			return p
		}
	}
	return nil
}

// speaks reports whether requests can be put into a protocol: of those that Kubernetes names, HTTP/2 and, unless they
// are of gRPC, WebSocket without TLS; of others, all that are not known to be something else than HTTP.
func (t *route) speaks(appProtocol string) bool {
	if t.kind == KindTLS {
		return mayBeTLS(appProtocol)
	}
	switch strings.ToLower(clip(appProtocol, mostName)) {
	case "kubernetes.io/h2c":
		return true
	case "kubernetes.io/ws":
		return t.kind != KindGRPC
	case "tcp", "tls", "udp":
		return false
	}
	return !strings.HasPrefix(strings.ToLower(clip(appProtocol, mostName)), "kubernetes.io/")
}
