package gateway

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Objects of the system space could name a tenant's namespace, as it has a dot there: they lead nowhere.
func TestTheSystemSpaceNamesNoTenant(t *testing.T) {
	const tenants = "shop.t1"
	w := worldOf(t, "system", "{kind: Gateway, metadata: {name: gw}, spec: {gatewayClassName: a4s, listeners: "+
		"[{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}, {name: https, port: 443, "+
		"protocol: HTTPS, tls: {certificateRefs: [{name: cert, namespace: "+tenants+"}]}}]}}",
		routeYAML("rules: [{backendRefs: [{name: web, namespace: "+tenants+", port: 80}]}]"),
		"{kind: HTTPRoute, metadata: {name: s}, spec: {parentRefs: [{name: gw, namespace: "+tenants+"}], "+toWeb+"}}",
		"{kind: ReferenceGrant, metadata: {name: g, namespace: "+tenants+"}, spec: {from: [{group: "+
			"gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}, {group: gateway.networking.k8s.io, "+
			"kind: Gateway, namespace: default}], to: [{group: '', kind: Service}, {group: '', kind: Secret}]}}",
		"{kind: Gateway, metadata: {name: gw, namespace: "+tenants+"}, spec: {gatewayClassName: a4s, listeners: "+
			"[{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]}}",
		"{kind: HTTPRoute, metadata: {name: t, namespace: "+tenants+"}, spec: {parentRefs: [{name: gw, namespace: "+
			"default}], "+toWeb+"}}",
		"{kind: Service, metadata: {name: web, namespace: "+tenants+"}, spec: {ports: [{port: 80}]}}",
		"{kind: Secret, metadata: {name: cert, namespace: "+tenants+"}}")
	r := w.resolve(t)
	if want := []string{"any http / > 500"}; !slices.Equal(r.rulesOf(), want) || len(r.Certificates) > 0 {
		t.Errorf("got %q %v, want %q", r.rulesOf(), r.Certificates, want)
	}
	if len(r.Gateways) != 1 || len(r.Routes) != 2 || len(w.parentsOf(r, "s")) != 0 {
		t.Errorf("there are %v and %v", r.Gateways, r.Routes)
	}
	if len(w.asked) > 0 {
		t.Errorf("it was asked for something in %q", w.asked)
	}
}

// A space with no name is the system space, and what is in none of the two is of no concern.
func TestSpaces(t *testing.T) {
	for _, tenant := range []string{"", "system"} {
		w := worldOf(t, tenant, gw, routeYAML(toWeb))
		if got := w.resolve(t).rulesOf(); !slices.Equal(got, []string{"any http / > default/web:80"}) {
			t.Errorf("space %q has %q", tenant, got)
		}
		w.tenant = "t1"
		if r := Resolve(w.view()); len(r.Rules)+len(r.Gateways)+len(r.Routes) > 0 {
			t.Errorf("objects of space %q are taken for those of a tenant: %+v", tenant, r)
		}
	}
}

// A tenant can have a CRD of the same name with another scope. Its objects have no namespace, and are in no space.
func TestObjectsWithoutANamespace(t *testing.T) {
	const all = "kinds: [{kind: HTTPRoute}, {kind: GRPCRoute}], namespaces: {from: All}"
	for _, tenant := range []string{"", "system", "t1", "grab"} {
		w := worldOf(t, tenant, gwOf("{name: http, port: 80, protocol: HTTP, allowedRoutes: {"+all+"}}"),
			routeYAML("rules: [{backendRefs: [{name: far, namespace: other, port: 80}]}]"), "{kind: GRPCRoute, "+
				"metadata: {name: g}, spec: {parentRefs: [{name: gw}], "+toWeb+"}}",
			"{kind: ReferenceGrant, metadata: {name: g, namespace: other}, spec: {from: [{group: "+
				"gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}], to: [{group: '', kind: Service}]}}")
		w.gateways[0].Spec.Listeners = append(w.gateways[0].Spec.Listeners, gatewayv1.Listener{Name: "tls", Port: 443,
			Protocol: gatewayv1.TLSProtocolType, TLS: passthrough()})
		w.add(t, 99, tlsYAML("t", "hostnames: [t.x], "+toWeb))
		gw, route, grpc, grant := w.gateways[0], w.routes[0], w.grpc[0], w.grants[0]
		for object, check := range map[metav1.Object]func(r *Result) bool{
			gw:    func(r *Result) bool { return len(r.Gateways) == 0 },
			route: func(r *Result) bool { return len(r.Routes) == 0 },
			grpc:  func(r *Result) bool { return len(r.GRPCRoutes) == 0 },
			w.tls[0]: func(r *Result) bool {
				return len(r.TLSRoutes) == 0 && !slices.ContainsFunc(r.Rules, func(rule Rule) bool {
					return rule.Kind == KindTLS
				})
			},
			grant: func(r *Result) bool { return slices.Contains(r.rulesOf(), "any http / > 500") },
		} {
			namespace, name := object.GetNamespace(), object.GetName()
			if r := w.resolve(t); check(r) {
				t.Fatalf("%s of space %q makes no difference: %q", name, tenant, r.rulesOf())
			}
			object.SetNamespace("")
			object.SetName("grab.evil.tenant")
			if r := w.resolve(t); !check(r) {
				t.Errorf("%T without a namespace is one of space %q: %q", object, tenant, r.rulesOf())
			}
			object.SetNamespace(namespace)
			object.SetName(name)
		}
	}
}

// Messages have what objects say in quotes and in short, and native namespaces only.
func TestMessages(t *testing.T) {
	w := worldOf(t, "t1", gwOf(anyHTTP, "{name: far, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: far, "+
		"namespace: other}]}}"), routeYAML("rules: [{backendRefs: [{name: far, namespace: other, port: 80}, "+
		"{name: gone, port: 80}, {name: web, port: 1}, {name: outside, port: 80}, {name: odd, port: 1}]}]"))
	route := w.routes[0]
	route.Spec.Rules = append(route.Spec.Rules, gatewayv1.HTTPRouteRule{Filters: []gatewayv1.HTTPRouteFilter{
		{Type: gatewayv1.HTTPRouteFilterType("x\n" + strings.Repeat("y", 1<<20))}}})
	r := w.resolve(t)
	var all []string
	for _, c := range r.Routes[w.name("r")][0].Conditions {
		all = append(all, c.Message)
	}
	for _, l := range r.Gateways[w.name("gw")].Listeners {
		for _, c := range l.Conditions {
			all = append(all, c.Message)
		}
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{"in namespace other permits HTTPRoutes", "in namespace other permits Gateways",
		"there is no Service", "and 2 more", `filter "x\n`} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing says %q: %s", want, text)
		}
	}
	if strings.Contains(text, ".t1") {
		t.Errorf("a message has a composite namespace: %s", text)
	}
}

func TestMessagesAreShort(t *testing.T) {
	w := worldOf(t, "t1", gw, routeYAML("hostnames: [a.x], "+toWeb))
	w.refused["a.x"] = strings.Repeat("long ", mostMessage)
	message := messageOf(w.resolve(t).Routes[w.name("r")][0].Conditions, "Accepted")
	if len(message) != mostMessage || !strings.HasSuffix(message, "...") {
		t.Errorf("it has %d bytes: %s", len(message), message)
	}
}
