package gateway

import (
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/randfill"
)

// pick is one of the values, the first more often.
func pick[T any](c randfill.Continue, values ...T) T {
	if c.Bool() {
		return values[0]
	}
	return values[c.Intn(len(values))]
}

// garbage is text that is short, or long, or none.
func garbage(c randfill.Continue) string {
	return pick(c, "x", "", "\x00", "a\nb", "ä", "*", "../..", string(make([]byte, 2000)), c.String(20))
}

// words has a type of text be one of the words, or garbage.
func words[T ~string](all ...string) func(*T, randfill.Continue) {
	return func(to *T, c randfill.Continue) {
		if c.Intn(20) == 0 {
			*to = T(garbage(c))
			return
		}
		*to = T(pick(c, all...))
	}
}

// filler makes objects that mean something, and some that do not.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		words[gatewayv1.ObjectName]("web", "gw", "cert", "api", "far", "outside", "odd", "gone", "a4s"),
		words[gatewayv1.Namespace]("default", "other", "default.t1", "default.t2", "a.b", ""),
		words[gatewayv1.SectionName]("http", "https", "b", ""),
		words[gatewayv1.Group]("", gatewayv1.GroupName, "x.y"),
		words[gatewayv1.Kind]("HTTPRoute", "GRPCRoute", "TLSRoute", "Gateway", "Service", "Secret", "X"),
		words[gatewayv1.Hostname]("a.x", "*.x", "", "b.a.x", "*.a.x", "A.x", "1.2.3.4"),
		words[gatewayv1.PreciseHostname]("a.x", "*.x", ""),
		words[gatewayv1.ProtocolType]("HTTP", "HTTPS", "TLS", "X"),
		words[gatewayv1.TLSModeType]("Passthrough", "Terminate", ""),
		words[gatewayv1.FromNamespaces]("All", "Same", "Selector", "None"),
		words[gatewayv1.AddressType]("IPAddress", "Hostname"),
		words[gatewayv1.PathMatchType]("PathPrefix", "Exact", "RegularExpression"),
		words[gatewayv1.HeaderMatchType]("Exact", "RegularExpression"),
		words[gatewayv1.QueryParamMatchType]("Exact", "RegularExpression"),
		words[gatewayv1.HTTPMethod]("GET", "POST", "get"),
		words[gatewayv1.HTTPHeaderName]("a", "B", "host", "x-forwarded-for", "te"),
		words[gatewayv1.HTTPRouteFilterType]("RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect",
			"URLRewrite", "CORS"),
		words[gatewayv1.GRPCRouteFilterType]("RequestHeaderModifier", "ResponseHeaderModifier", "RequestMirror",
			"URLRewrite"),
		words[gatewayv1.GRPCMethodMatchType]("Exact", "RegularExpression"),
		words[gatewayv1.GRPCHeaderMatchType]("Exact", "RegularExpression"),
		words[gatewayv1.GRPCHeaderName]("a", "B", "host"),
		words[gatewayv1.HTTPPathModifierType]("ReplaceFullPath", "ReplacePrefixMatch"),
		words[gatewayv1.Duration]("1s", "0s", "1h", "2.5s"),
		words[gatewayv1.GatewayController](ControllerName, "x.y/z"),
		words[metav1.LabelSelectorOperator]("In", "Exists", "NotIn"),
		words[string]("/a", "/", "a", "https", "192.0.2.1", "http", "/b/", "Accepted", "team"),
		func(p *gatewayv1.PortNumber, c randfill.Continue) {
			*p = pick[int32](c, 80, 443, 8080, 1, 2, 0, -1, 1<<30)
		},
		func(p *int, c randfill.Continue) { *p = pick(c, 301, 302, 200, -1) },
		func(o *metav1.Time, c randfill.Continue) { *o = metav1.Unix(int64(c.Intn(3)), 0) },
		func(o *gatewayv1.HTTPRouteRetry, _ randfill.Continue) {},
		func(o **gatewayv1.HTTPRouteRetry, c randfill.Continue) {
			if c.Intn(20) == 0 {
				*o = &gatewayv1.HTTPRouteRetry{}
			}
		},
		func(o **gatewayv1.SessionPersistence, c randfill.Continue) {
			if c.Intn(20) == 0 {
				*o = &gatewayv1.SessionPersistence{}
			}
		},
	)
}

// sane are objects that mean something; parts of them become random.
const sane = gw + `
---
{kind: Gateway, metadata: {name: api, namespace: other}, spec: {gatewayClassName: a4s, listeners: [
  {name: http, port: 80, protocol: HTTP, hostname: "*.x", allowedRoutes: {namespaces: {from: All}}},
  {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: far}]},
    allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: a}}}}},
  {name: b, port: 443, protocol: HTTPS, hostname: a.x, tls: {certificateRefs: [{name: cert, namespace: default}]},
    allowedRoutes: {namespaces: {from: All}}}]}}
---
{kind: Gateway, metadata: {name: tls}, spec: {gatewayClassName: a4s, listeners: [
  {name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}},
  {name: b, port: 443, protocol: TLS, hostname: "*.x", tls: {mode: Passthrough}}]}}
---
{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: gw}, {name: api, namespace: other}],
  hostnames: [a.x, b.a.x, c.y], rules: [{matches: [{path: {value: /a}, headers: [{name: a, value: b}]}, {method: GET}],
    backendRefs: [{name: web, port: 80}, {name: far, namespace: other, port: 80, weight: 2}]},
  {filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}]}}
---
{kind: HTTPRoute, metadata: {name: s, namespace: other}, spec: {parentRefs: [{name: api, sectionName: http}],
  rules: [{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [a]}}], timeouts: {request: 1s},
    backendRefs: [{name: far, port: 80}]}]}}
---
{kind: HTTPRoute, metadata: {name: u, namespace: other}, spec: {parentRefs: [{name: api, port: 80}], hostnames: [c.y],
  rules: [{backendRefs: [{name: far, port: 80}]}]}}
---
{kind: GRPCRoute, metadata: {name: r}, spec: {parentRefs: [{name: gw}, {name: api, namespace: other}],
  hostnames: [g.x, c.y], rules: [{matches: [{method: {service: a.B, method: C}, headers: [{name: a, value: b}]},
    {method: {service: d}}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [a]}}],
    backendRefs: [{name: web, port: 80}, {name: far, namespace: other, port: 80, weight: 2}]}, {matches: [{}]}]}}
---
{kind: TLSRoute, metadata: {name: r}, spec: {parentRefs: [{name: tls}], hostnames: [a.x, t.x, c.y],
  rules: [{backendRefs: [{name: web, port: 80}, {name: far, namespace: other, port: 80, weight: 2}]}]}}
---
{kind: TLSRoute, metadata: {name: s, namespace: other}, spec: {parentRefs: [{name: tls, namespace: default}],
  hostnames: [u.y, '*.x', t.x], rules: [{backendRefs: [{name: far, port: 80}]}]}}
---
{kind: ReferenceGrant, metadata: {name: g, namespace: other}, spec: {from: [{group: gateway.networking.k8s.io,
  kind: HTTPRoute, namespace: default}, {group: gateway.networking.k8s.io, kind: GRPCRoute, namespace: default},
  {group: gateway.networking.k8s.io, kind: TLSRoute, namespace: default}],
  to: [{group: "", kind: Service}]}}
`

// randomWorld is a space of objects of which parts are random.
func randomWorld(t *testing.T, seed int64) *world {
	w := worldOf(t, []string{"t1", "system"}[seed%2], sane)
	f, random := filler(seed), rand.New(rand.NewSource(seed))
	meta := func(o *metav1.ObjectMeta) {
		o.Generation, o.CreationTimestamp = random.Int63n(3), metav1.Unix(random.Int63n(3), 0)
		if random.Intn(30) == 0 {
			o.Namespace = "default.t2"
		}
	}
	fill := func(one int, into any) {
		if random.Intn(one) == 0 {
			f.Fill(into)
		}
	}
	for _, g := range w.gateways {
		meta(&g.ObjectMeta)
		fill(3, &g.Status)
		fill(10, &g.Spec)
		fill(10, &g.Spec.Addresses)
		fill(20, &g.Spec.TLS)
		for i := range g.Spec.Listeners {
			fill(6, &g.Spec.Listeners[i])
			fill(10, &g.Spec.Listeners[i].TLS)
			fill(10, &g.Spec.Listeners[i].AllowedRoutes)
		}
		g.Spec.GatewayClassName = ClassName
	}
	for _, o := range w.routes {
		meta(&o.ObjectMeta)
		fill(3, &o.Status)
		fill(10, &o.Spec)
		fill(5, &o.Spec.Hostnames)
		for i := range o.Spec.ParentRefs {
			fill(5, &o.Spec.ParentRefs[i])
		}
		for i := range o.Spec.Rules {
			fill(6, &o.Spec.Rules[i])
			fill(10, &o.Spec.Rules[i].Matches)
			fill(10, &o.Spec.Rules[i].Filters)
			fill(10, &o.Spec.Rules[i].BackendRefs)
		}
	}
	for _, o := range w.grpc {
		meta(&o.ObjectMeta)
		fill(3, &o.Status)
		fill(10, &o.Spec)
		fill(5, &o.Spec.Hostnames)
		for i := range o.Spec.Rules {
			fill(6, &o.Spec.Rules[i])
			fill(10, &o.Spec.Rules[i].Matches)
			fill(10, &o.Spec.Rules[i].Filters)
			fill(10, &o.Spec.Rules[i].BackendRefs)
		}
	}
	for _, o := range w.tls {
		meta(&o.ObjectMeta)
		fill(3, &o.Status)
		fill(10, &o.Spec)
		fill(5, &o.Spec.Hostnames)
		for i := range o.Spec.ParentRefs {
			fill(10, &o.Spec.ParentRefs[i])
		}
		for i := range o.Spec.Rules {
			fill(10, &o.Spec.Rules[i].BackendRefs)
		}
	}
	if random.Intn(5) == 0 {
		w.ingresses = map[string]int64{"t.x": random.Int63n(3), "*.x": random.Int63n(3)}
	}
	for _, o := range w.grants {
		meta(&o.ObjectMeta)
		fill(2, &o.Spec)
	}
	w.gateways, w.routes, w.grants = append(w.gateways, nil), append(w.routes, nil), append(w.grants, nil)
	w.grpc, w.tls = append(w.grpc, nil), append(w.tls, nil)
	return w
}

// drop takes away what stands for nothing, which feed does not look at.
func (w *world) drop() {
	w.gateways, w.routes = w.gateways[:len(w.gateways)-1], w.routes[:len(w.routes)-1]
	w.grpc, w.tls = w.grpc[:len(w.grpc)-1], w.tls[:len(w.tls)-1]
}

func TestRandomWorlds(t *testing.T) {
	seen := map[string]int{}
	for seed := range int64(700) {
		w := randomWorld(t, seed)
		r := resolve(w.view())
		wrong := w.wrong(r.out)
		if r.spent > mostSteps {
			wrong = append(wrong, "too many steps")
		}
		if again := Resolve(w.view()); !reflect.DeepEqual(r.out, again) {
			wrong = append(wrong, "another time it comes to something else")
		}
		slices.Reverse(w.gateways)
		slices.Reverse(w.routes)
		slices.Reverse(w.grpc)
		slices.Reverse(w.tls)
		slices.Reverse(w.grants)
		if again := Resolve(w.view()); !reflect.DeepEqual(r.out, again) {
			wrong = append(wrong, "the order of objects counts")
		}
		slices.Reverse(w.gateways)
		slices.Reverse(w.routes)
		slices.Reverse(w.grpc)
		slices.Reverse(w.tls)
		w.drop()
		w.feed(r.out)
		w.now = w.now.Add(time.Hour)
		if again := Resolve(w.view()); !reflect.DeepEqual(r.out, again) {
			wrong = append(wrong, "what it comes to changes it")
		}
		if len(wrong) > 0 {
			t.Fatalf("seed %d: %.2000q", seed, wrong)
		}
		note(seen, r.out)
	}
	// Worlds in which nothing happens would prove nothing.
	for _, want := range []string{"rules", "certificates", "Accepted=True/Accepted",
		"ResolvedRefs=False/RefNotPermitted",
		"PartiallyInvalid=True/UnsupportedValue", "Accepted=False/NoMatchingListenerHostname",
		"Accepted=False/NotAllowedByListeners", "Programmed=True/Programmed", "targets", "targets of gRPC",
		"Accepted=False/HostnameConflict", "passed", "opened, or another's"} {
		if seen[want] < 5 {
			t.Errorf("%s was there %d times", want, seen[want])
		}
	}
}

// note counts what there is.
func note(seen map[string]int, r *Result) {
	seen["rules"] += len(r.Rules)
	seen["certificates"] += len(r.Certificates)
	for i := range r.Rules {
		if r.Rules[i].Kind == KindTLS {
			seen["passed"]++
		}
		for _, to := range r.Rules[i].To {
			if !to.Broken {
				seen["targets"]++
			}
			if to.HTTP2 {
				seen["targets of gRPC"]++
			}
		}
	}
	count := func(list []metav1.Condition) {
		for _, c := range list {
			seen[c.Type+"="+string(c.Status)+"/"+c.Reason]++
		}
	}
	for _, parents := range r.TLSRoutes {
		for i := range parents {
			if strings.Contains(messageOf(parents[i].Conditions, "Accepted"), "connections with TLS for") {
				seen["opened, or another's"]++
			}
		}
	}
	for _, routes := range []map[types.NamespacedName][]gatewayv1.RouteParentStatus{r.Routes, r.GRPCRoutes,
		r.TLSRoutes} {
		for _, parents := range routes {
			for i := range parents {
				count(parents[i].Conditions)
			}
		}
	}
	for _, status := range r.Gateways {
		count(status.Conditions)
	}
}

// The fields of an object that is empty are absent.
func TestEmptyObjects(t *testing.T) {
	w := worldOf(t, "t1")
	meta := metav1.ObjectMeta{Name: "x", Namespace: "default.t1"}
	w.gateways = append(w.gateways, &gatewayv1.Gateway{ObjectMeta: meta,
		Spec: gatewayv1.GatewaySpec{GatewayClassName: ClassName, Listeners: make([]gatewayv1.Listener, 3)}})
	w.routes = append(w.routes, &gatewayv1.HTTPRoute{ObjectMeta: meta, Spec: gatewayv1.HTTPRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: make([]gatewayv1.ParentReference, 2)},
		Hostnames:       make([]gatewayv1.Hostname, 2), Rules: make([]gatewayv1.HTTPRouteRule, 2)}})
	w.routes[0].Spec.ParentRefs[0].Name = "x"
	w.grpc = append(w.grpc, &gatewayv1.GRPCRoute{ObjectMeta: meta, Spec: gatewayv1.GRPCRouteSpec{
		CommonRouteSpec: w.routes[0].Spec.CommonRouteSpec, Rules: make([]gatewayv1.GRPCRouteRule, 2)}})
	w.tls = append(w.tls, &gatewayv1.TLSRoute{ObjectMeta: meta, Spec: gatewayv1.TLSRouteSpec{
		CommonRouteSpec: w.routes[0].Spec.CommonRouteSpec, Hostnames: make([]gatewayv1.Hostname, 2),
		Rules: make([]gatewayv1.TLSRouteRule, 1)}})
	w.grants = append(w.grants, &gatewayv1.ReferenceGrant{ObjectMeta: meta})
	w.services["default.t1/web"] = &corev1.Service{}
	r := w.resolve(t)
	name := types.NamespacedName{Namespace: "default.t1", Name: "x"}
	if len(r.Rules) > 0 || len(r.Gateways) != 1 || len(r.Routes[name]) != 1 || len(r.GRPCRoutes[name]) != 1 ||
		len(r.TLSRoutes[name]) != 1 {
		t.Errorf("it comes to %+v", r)
	}
}
