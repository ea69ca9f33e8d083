package gateway

import (
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// tlsRules are those of a TLSRoute: one, which has all connections for its hosts.
type tlsRules []gatewayv1.TLSRouteRule

func (t tlsRules) count() int    { return len(t) }
func (tlsRules) matches(int) int { return 1 }

func (t tlsRules) read(
	_ ruleReader, _ string, i int,
) (rule *gatewayv1.HTTPRouteRule, paths []joinapi.IngressPath, wrong problem) {
	refs := t[i].BackendRefs
	rule = &gatewayv1.HTTPRouteRule{}
	// What is beyond the bounds is refused by its number, and not looked at.
	for _, ref := range refs[:min(len(refs), mostBackends+1)] {
		rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: ref})
	}
	return rule, []joinapi.IngressPath{{}}, problem{}
}

// wholeOfTLS says what is wrong with a TLSRoute as a whole, besides its hostnames.
func wholeOfTLS(t *route) problem {
	switch {
	case len(t.hostnames) == 0:
		return unsupported("spec.hostnames: a hostname is needed, by which connections are known")
	case t.rules.count() != 1:
		return unsupported("spec.rules has %d entries, and must have one", t.rules.count())
	}
	return problem{}
}

// mayBeTLS reports whether connections with TLS can be passed on to what speaks a protocol: all that are not known to
// be without.
func mayBeTLS(appProtocol string) bool {
	switch strings.ToLower(clip(appProtocol, mostName)) {
	case "http", "udp", "kubernetes.io/h2c", "kubernetes.io/ws":
		return false
	}
	return true
}

// secure has a route have the connections with TLS for a host, unless an older one has them otherwise: they are either
// opened, and may be for several routes then, or passed on for one TLSRoute.
func (r *resolver) secure(t *route, host string) {
	at := t.places.at[host]
	if !at.secured {
		return
	}
	holder := r.secures[host]
	switch {
	case holder != nil && (holder.kind == KindTLS || t.kind == KindTLS):
		at.lose(problemf(reasonConflict, "connections with TLS for %s are those of an older %s", spelled(host),
			holder.kind))
	case t.kind == KindTLS && r.Opened != nil && r.Opened(host, t.object.GetCreationTimestamp()):
		at.lose(problemf(reasonConflict, "connections with TLS for %s are those of an older Ingress", spelled(host)))
	case holder == nil:
		r.secures[host] = t
	}
}
