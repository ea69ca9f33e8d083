package ingress

import (
	"fmt"
	"slices"
	"strings"

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
	gateways []*gatewayv1.Gateway
	routes   []*gatewayv1.HTTPRoute
	grants   []*gatewayv1.ReferenceGrant
	ours     func(class string) bool
	labels   func(namespace string) (map[string]string, bool)
	// addresses are those at which requests are taken.
	addresses []string
}

func routeSource(route types.NamespacedName) source {
	return source{"HTTPRoute " + route.String(), route.Namespace}
}

// ofRoutes are the HTTPRoutes of the space, in the words of its Gateways.
func (r *resolver) ofRoutes() (out []part) {
	if len(r.routes.gateways) == 0 {
		return nil
	}
	r.gateway = gateway.Resolve(gateway.View{
		Tenant: r.tenant, Ours: r.routes.ours, Gateways: r.routes.gateways, Routes: r.routes.routes,
		Grants: r.routes.grants, Labels: r.routes.labels, Addresses: r.routes.addresses, Now: metav1.Now(),
		Service: func(namespace, name string) *corev1.Service {
			r.uses[object{kindService, namespace, name}] = true
			return r.service(namespace, name)
		},
		Secret: r.usable,
		Host: func(host string) (reason, message string) {
			got := r.ask(host)
			return got.reason, got.message
		},
	})
	rules := map[types.NamespacedName][]*gateway.Rule{}
	for i := range r.gateway.Rules {
		rule := &r.gateway.Rules[i]
		if rules[rule.Route] == nil {
			out = append(out, part{rule.Created.Time, routeSource(rule.Route).key, func() {
				r.route(rule.Route, rules[rule.Route])
			}})
		}
		rules[rule.Route] = append(rules[rule.Route], rule)
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
func (r *resolver) route(name types.NamespacedName, rules []*gateway.Rule) {
	from, waits := routeSource(name), false
	slices.SortStableFunc(rules, func(a, b *gateway.Rule) int { return a.Index - b.Index })
	for _, rule := range rules {
		got := r.ask(rule.Host)
		if !got.held {
			waits = waits || got.reason == ""
			continue
		}
		r.path(from, rule.Host, rule.Path, func(p *joinapi.IngressPath) { r.split(from, rule, p) })
		if at := r.hosts[rule.Host]; at != nil {
			at.Deep = strings.HasPrefix(rule.Host, "*.")
		}
	}
	if waits {
		r.waiting = append(r.waiting, from)
	}
}

// split has requests go to the targets of a rule.
func (r *resolver) split(from source, rule *gateway.Rule, p *joinapi.IngressPath) {
	for i := range rule.To {
		to := &rule.To[i]
		one := joinapi.IngressPart{Weight: to.Weight, Filters: to.Filters}
		if !to.Broken {
			one.Backend, _ = r.backend(from, to.Namespace, to.Service,
				networkingv1.ServiceBackendPort{Number: to.Port}, declaredProtocol) // the route's status says why
		}
		p.Split = append(p.Split, one)
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
