package ingress

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/addons/gateway"
)

// routes is what a space has of the Gateway API.
type routes struct {
	gateways   []*gatewayv1.Gateway
	routes     []*gatewayv1.HTTPRoute
	grpcRoutes []*gatewayv1.GRPCRoute
	tlsRoutes  []*gatewayv1.TLSRoute
	grants     []*gatewayv1.ReferenceGrant
	ours       func(class string) bool
	labels     func(namespace string) (map[string]string, bool)
	// addresses are those at which requests are taken.
	addresses []string
}

func routeSource(kind string, route types.NamespacedName) source {
	return source{kind + " " + route.String(), route.Namespace}
}

// ofRoutes are the routes of the space, in the words of its Gateways.
func (r *resolver) ofRoutes() (out []part) {
	if len(r.routes.gateways) == 0 {
		return nil
	}
	r.addressesOf = r.routes.addresses
	var opened map[string]time.Time
	if len(r.routes.tlsRoutes) > 0 { // who else asks
		opened = openedBy(r.ingresses)
	}
	r.gateway = gateway.Resolve(gateway.View{
		Tenant: r.tenant, Ours: r.routes.ours, Gateways: r.routes.gateways, Routes: r.routes.routes,
		GRPCRoutes: r.routes.grpcRoutes, TLSRoutes: r.routes.tlsRoutes, Grants: r.routes.grants,
		Labels: r.routes.labels, Addresses: r.routes.addresses, Now: metav1.Now(),
		Service: func(namespace, name string) *corev1.Service {
			r.uses[object{kindService, namespace, name}] = true
			return r.service(namespace, name)
		},
		Secret: r.usable,
		Host: func(host string) (reason, message string) {
			got := r.ask(host)
			return got.reason, got.message
		},
		Opened: func(host string, since metav1.Time) bool {
			at, ok := opened[host]
			return ok && !at.After(since.Time)
		},
	})
	type named struct {
		kind  string
		route types.NamespacedName
	}
	rules := map[named][]*gateway.Rule{}
	for i := range r.gateway.Rules {
		rule := &r.gateway.Rules[i]
		of := named{rule.Kind, rule.Route}
		if rule.Kind == gateway.KindTLS {
			r.passed[rule.Host] = true
		}
		if rules[of] == nil {
			from := routeSource(rule.Kind, rule.Route)
			out = append(out, part{rule.Created.Time, from.key, func() { r.route(from, rules[of]) }})
		}
		rules[of] = append(rules[of], rule)
	}
	return out
}

// usable says why a Secret is no certificate, "" if it is one.
func (r *resolver) usable(namespace, name string) string {
	o := object{kindSecret, namespace, name}
	if _, ok := r.parsed[o]; !ok {
		if r.entries++; r.entries > mostEntries {
			return fmt.Sprintf("this space names more than %d certificates", mostEntries)
		}
	}
	return r.parse(o).why
}

// route has requests go where a route says.
func (r *resolver) route(from source, rules []*gateway.Rule) {
	waits := false
	for _, rule := range rules {
		got := r.ask(rule.Host)
		if !got.held {
			waits = waits || got.reason == ""
			continue
		}
		if rule.Kind == gateway.KindTLS {
			r.pass(from, rule)
		} else {
			r.path(from, rule.Host, rule.Path, func(p *joinapi.IngressPath) { r.split(from, rule, p) })
		}
		if at := r.hosts[rule.Host]; at != nil {
			at.Deep = strings.HasPrefix(rule.Host, "*.")
		}
	}
	if waits {
		r.waiting = append(r.waiting, from)
	}
}

// split has requests go to the targets of a rule. Those of gRPC that have none go to a backend without endpoints, as
// clients make UNAVAILABLE of its 503, and of a 500 they make UNKNOWN.
func (r *resolver) split(from source, rule *gateway.Rule, p *joinapi.IngressPath) {
	grpc, weighted := rule.Kind == gateway.KindGRPC, false
	for i := range rule.To {
		to := &rule.To[i]
		one := joinapi.IngressPart{Weight: to.Weight, Filters: to.Filters}
		speaks := declaredProtocol
		switch {
		case to.HTTP2:
			speaks = http2Protocol
		case rule.Kind == gateway.KindTLS:
			speaks = protocolOf // it makes no difference, and the backend is that of others
		}
		switch {
		case !to.Broken:
			one.Backend, _ = r.backend(from, to.Namespace, to.Service,
				networkingv1.ServiceBackendPort{Number: to.Port}, speaks) // the route's status says why
		case grpc:
			one.Backend = r.empty(from.namespace + "/:")
		}
		p.Split, weighted = append(p.Split, one), weighted || to.Weight > 0
	}
	if grpc && !weighted {
		p.Backend, p.Split = r.empty(from.namespace+"/:"), nil
	}
}

// secureRoutes gives hosts the certificates of listeners, where no Ingress has one for them. A host can have a
// certificate, and no paths yet.
func (r *resolver) secureRoutes() {
	if r.gateway == nil {
		return
	}
	for _, c := range r.gateway.Certificates {
		at, p := r.hosts[c.Host], r.parse(object{kindSecret, c.Namespace, c.Secret})
		if p.certificate == nil || at == nil && !r.ask(c.Host).held {
			continue
		}
		if at == nil {
			at = &joinapi.IngressHost{Name: c.Host, Tenant: r.tenant, Deep: strings.HasPrefix(c.Host, "*.")}
			r.hosts[c.Host] = at
		}
		if at.Certificate == "" {
			r.present(source{"Secret " + c.Namespace + "/" + c.Secret, c.Namespace}, c.Host, p.certificate)
		}
	}
}
