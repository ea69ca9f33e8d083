package gateway

import (
	"cmp"
	"maps"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// mostCertificates is how many a listener names, as the CRD says.
const mostCertificates = 64

// secretRef is a Secret with a certificate.
type secretRef struct{ namespace, name string }

// certificateOf finds the certificate of a listener: the first that can be used.
func (r gatewayReader) certificateOf(g *gateway, l *listener) {
	var refs []gatewayv1.SecretObjectReference
	if l.spec.TLS != nil {
		refs = l.spec.TLS.CertificateRefs
	}
	switch {
	case len(refs) == 0:
		l.unresolved = l.unresolved.or(badCertificate("tls.certificateRefs names no Secret"))
		return
	case len(refs) > mostCertificates:
		l.unresolved = l.unresolved.or(badCertificate("tls.certificateRefs has more than %d entries",
			mostCertificates))
		return
	}
	l.unused = len(refs) > 1
	for i := range refs {
		if !r.spend(1) {
			return
		}
		ref, p := r.secretOf(g, i, &refs[i])
		l.unresolved = l.unresolved.or(p)
		if !p.is() && l.certificate == nil {
			l.certificate = &ref
		}
	}
}

// badCertificate is the problem of a certificate that cannot be used.
func badCertificate(format string, args ...any) problem {
	return problemf(gatewayv1.ListenerReasonInvalidCertificateRef, format, args...)
}

// secretOf resolves a reference to a Secret.
func (r gatewayReader) secretOf(g *gateway, i int, ref *gatewayv1.SecretObjectReference) (secretRef, problem) {
	const field = "tls.certificateRefs"
	if ref.Group != nil && *ref.Group != "" || ref.Kind != nil && *ref.Kind != kindSecret {
		return secretRef{}, badCertificate("%s[%d]: certificates are in "+
			"Secrets only", field, i)
	}
	namespace, ok := r.namespace(g.object, ref.Namespace)
	if !ok || !isObjectName(string(ref.Name)) {
		return secretRef{}, badCertificate("%s[%d]: there is no Secret %s", field,
			i, quote(ref.Name))
	}
	if !r.permits(reference{kindGateway, g.name.Namespace, kindSecret, namespace, string(ref.Name)}) {
		return secretRef{}, problemf(gatewayv1.ListenerReasonRefNotPermitted, "%s[%d]: no ReferenceGrant in "+
			"namespace %s permits Gateways of this namespace to use Secret %s", field, i, *ref.Namespace, ref.Name)
	}
	if why := r.Secret(namespace, string(ref.Name)); why != "" {
		return secretRef{}, badCertificate("%s[%d]: Secret %s: %s", field, i,
			ref.Name, why)
	}
	return secretRef{namespace, string(ref.Name)}, problem{}
}

// offer is a certificate that a listener has for a host.
type offer struct {
	gateway  *gateway
	listener *listener
}

// better reports whether it goes before another one for the same host.
func (o *offer) better(other *offer) bool {
	return cmp.Or(moreSpecific(o.listener.host, other.listener.host), cmp.Compare(o.gateway.rank, other.gateway.rank),
		cmp.Compare(o.listener.index, other.listener.index)) < 0
}

// offer has the connections of a host get a certificate, unless a better one was offered.
func (r *resolver) offer(host string, o *offer) {
	if had := r.offers[host]; had == nil || o.better(had) {
		r.offers[host] = o
	}
}

// certify writes the certificates of hosts: of those of listeners, too, which are there before there are routes.
func (r *resolver) certify(all []*gateway) {
	for _, g := range all {
		for _, l := range g.listeners {
			if l.live && l.certificate != nil && !r.verdict(l.host).is() {
				r.offer(l.host, &offer{g, l})
			}
		}
	}
	for _, host := range slices.Sorted(maps.Keys(r.offers)) {
		c := r.offers[host].listener.certificate
		r.out.Certificates = append(r.out.Certificates, Certificate{host, c.namespace, c.name})
	}
}
