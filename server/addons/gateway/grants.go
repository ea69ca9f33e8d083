package gateway

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/space"
)

// mostGranted is how many entries each list of a ReferenceGrant has, as its CRD says.
const mostGranted = 16

// Kinds of references that grants are looked up for.
const (
	kindGateway = "Gateway"
	kindService = "Service"
	kindSecret  = "Secret"
)

// reference is one from a namespace to another. Namespaces are composite.
type reference struct {
	fromKind, fromNamespace string
	toKind, toNamespace     string
	toName                  string
}

// grants says which references between namespaces are permitted.
type grants struct {
	in   map[string][]*gatewayv1.ReferenceGrant // by namespace
	seen map[reference]bool
}

func newGrants(all []*gatewayv1.ReferenceGrant) *grants {
	g := &grants{in: map[string][]*gatewayv1.ReferenceGrant{}, seen: map[reference]bool{}}
	for _, grant := range all {
		g.in[grant.Namespace] = append(g.in[grant.Namespace], grant)
	}
	return g
}

// permits reports whether a reference is permitted. One within a namespace is.
func (r *work) permits(ref reference) bool {
	if ref.fromNamespace == ref.toNamespace {
		return true
	}
	if permitted, ok := r.grants.seen[ref]; ok {
		return permitted
	}
	permitted := false
	for _, grant := range r.grants.in[ref.toNamespace] {
		if !r.spend(2 * mostGranted) {
			break
		}
		if grantsFrom(grant, ref) && grantsTo(grant, ref) {
			permitted = true
			break
		}
	}
	r.grants.seen[ref] = permitted
	return permitted
}

func grantsFrom(grant *gatewayv1.ReferenceGrant, ref reference) bool {
	tenant, _ := space.SplitNamespace(grant.Namespace)
	for i, from := range grant.Spec.From {
		if i == mostGranted {
			break
		}
		if from.Group == gatewayv1.GroupName && string(from.Kind) == ref.fromKind && from.Namespace != "" &&
			space.Namespace(tenant, string(from.Namespace)) == ref.fromNamespace {
			return true
		}
	}
	return false
}

func grantsTo(grant *gatewayv1.ReferenceGrant, ref reference) bool {
	for i, to := range grant.Spec.To {
		if i == mostGranted {
			break
		}
		if to.Group == "" && string(to.Kind) == ref.toKind &&
			(to.Name == nil || *to.Name == "" || string(*to.Name) == ref.toName) {
			return true
		}
	}
	return false
}
