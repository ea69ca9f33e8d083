package gateway

import (
	"fmt"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// mostMethod is how long the name of a service or a method of gRPC is, as the CRD says.
const mostMethod = 1024

// grpcRules are those of a GRPCRoute. What is not of its matches is the same as in HTTPRoutes, of which it has less.
type grpcRules []gatewayv1.GRPCRouteRule

func (g grpcRules) count() int        { return len(g) }
func (g grpcRules) matches(i int) int { return len(g[i].Matches) }

func (g grpcRules) read(
	r ruleReader, field string, i int,
) (rule *gatewayv1.HTTPRouteRule, paths []joinapi.IngressPath, wrong problem) {
	of := &g[i]
	paths, wrong = matchesOf(r, field, of.Matches, r.grpcMatch)
	rule = &gatewayv1.HTTPRouteRule{Filters: r.httpFilters(of.Filters), SessionPersistence: of.SessionPersistence}
	// What is beyond the bounds is refused by its number, and not looked at.
	for i := range of.BackendRefs[:min(len(of.BackendRefs), mostBackends+1)] {
		ref := &of.BackendRefs[i]
		rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: ref.BackendRef,
			Filters: r.httpFilters(ref.Filters)})
	}
	return rule, paths, wrong
}

// httpFilters are filters in the words of HTTPRoutes. Of those that are supported, GRPCRoutes have two.
func (r ruleReader) httpFilters(of []gatewayv1.GRPCRouteFilter) (out []gatewayv1.HTTPRouteFilter) {
	of = of[:min(len(of), mostFilters+1)]
	r.spend(len(of))
	for i := range of {
		f := &of[i]
		out = append(out, gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterType(f.Type),
			RequestHeaderModifier: f.RequestHeaderModifier, ResponseHeaderModifier: f.ResponseHeaderModifier})
	}
	return out
}

// grpcMatch reads a match. The path of a request is "/service/method".
func (r ruleReader) grpcMatch(field string, m *gatewayv1.GRPCRouteMatch) (out joinapi.IngressPath, wrong problem) {
	if out, wrong = methodOf(field+".method", m.Method); wrong.is() {
		return out, wrong
	}
	if len(m.Headers) > mostValues {
		return out, unsupported("%s has more than %d headers", field, mostValues)
	}
	r.spend(len(m.Headers))
	for i := range m.Headers {
		h := &m.Headers[i]
		if h.Type != nil && *h.Type != gatewayv1.GRPCHeaderMatchExact {
			return out, unsupported("%s.headers[%d]: type %s is not supported", field, i, quote(*h.Type))
		}
		if wrong = addHeader(&out, fmt.Sprintf("%s.headers[%d]", field, i), string(h.Name), h.Value); wrong.is() {
			return out, wrong
		}
	}
	sortValues(out.Headers)
	return out, problem{}
}

func methodOf(field string, m *gatewayv1.GRPCMethodMatch) (out joinapi.IngressPath, wrong problem) {
	out.Path = "/"
	if m == nil {
		return out, problem{}
	}
	if m.Type != nil && *m.Type != gatewayv1.GRPCMethodMatchExact {
		return out, unsupported("%s: type %s is not supported", field, quote(*m.Type))
	}
	if m.Service == nil || *m.Service == "" {
		return out, unsupported("%s: a service is needed; a method of any service is not supported", field)
	}
	if !isService(*m.Service) {
		return out, unsupported("%s.service: %s is not a service of gRPC", field, quote(*m.Service))
	}
	out.Path += *m.Service
	if m.Method == nil || *m.Method == "" {
		return out, problem{}
	}
	if len(*m.Method) > mostMethod || !isIdentifier(*m.Method) {
		return out, unsupported("%s.method: %s is not a method of gRPC", field, quote(*m.Method))
	}
	out.Path, out.Exact = out.Path+"/"+*m.Method, true
	return out, problem{}
}

// isService reports whether s can be the name of a service: identifiers with dots between them, and maybe one before.
func isService(s string) bool {
	if len(s) > mostMethod {
		return false
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(s, "."), ".") {
		if !isIdentifier(part) {
			return false
		}
	}
	return true
}

func isIdentifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
