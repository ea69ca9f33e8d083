package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// listenersText are listeners as "name kinds attached conditions".
func listenersText(status *gatewayv1.GatewayStatus) (out []string) {
	for i := range status.Listeners {
		l := &status.Listeners[i]
		text := fmt.Sprintf("%s %d %d", l.Name, len(l.SupportedKinds), l.AttachedRoutes)
		if c := conditionsOf(l.Conditions); c != "" {
			text += " " + c
		}
		out = append(out, text)
	}
	return out
}

func TestListeners(t *testing.T) {
	const notPort = "Accepted=False/PortUnavailable Programmed=False/Invalid"
	const unsupported = "Accepted=False/UnsupportedValue Programmed=False/Invalid"
	const noCertificate = "Programmed=False/Invalid ResolvedRefs=False/InvalidCertificateRef"
	const conflict = "Accepted=False/HostnameConflict Conflicted=True/HostnameConflict Programmed=False/Invalid"
	const none = "Accepted=False/ListenersNotValid Programmed=False/Invalid"
	const tls = "tls: {certificateRefs: [{name: cert}]}"
	for name, c := range map[string]struct {
		listeners string
		gateway   string
		want      []string
	}{
		"HTTP":  {"{name: a, port: 80, protocol: HTTP}", "", []string{"a 2 0"}},
		"HTTPS": {"{name: a, port: 443, protocol: HTTPS, " + tls + "}", "", []string{"a 2 0"}},
		"HTTPS with its mode": {"{name: a, port: 443, protocol: HTTPS, tls: {mode: Terminate, certificateRefs: " +
			"[{name: cert, kind: Secret, group: ''}]}}", "", []string{"a 2 0"}},
		"other ports": {"{name: a, port: 8080, protocol: HTTP}, {name: b, port: 80, protocol: HTTPS, " + tls + "}," +
			"{name: c, port: 443, protocol: HTTP}", none, []string{"a 2 0 " + notPort, "b 2 0 " + notPort,
			"c 2 0 " + notPort}},
		"one that is good": {"{name: a, port: 8080, protocol: HTTP}, {name: b, port: 80, protocol: HTTP}",
			"Accepted=True/ListenersNotValid", []string{"a 2 0 " + notPort, "b 2 0"}},
		"other protocols": {"{name: a, port: 1111, protocol: INVALID}", none,
			[]string{"a 0 0 Accepted=False/UnsupportedProtocol Programmed=False/Invalid"}},
		"TLS": {"{name: a, port: 443, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {kinds: [{kind: " +
			"TLSRoute}]}}", "", []string{"a 1 0"}},
		"TLS by itself": {"{name: a, port: 443, protocol: TLS, tls: {mode: Passthrough, certificateRefs: [{name: " +
			"gone}]}}", "", []string{"a 1 0"}},
		"TLS for other kinds": {"{name: a, port: 443, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: " +
			"{kinds: [{kind: TCPRoute}, {kind: TLSRoute}]}}, {name: b, port: 443, protocol: TLS, hostname: b.x, " +
			"tls: {mode: Passthrough}, allowedRoutes: {kinds: [{kind: HTTPRoute}]}}", "",
			[]string{"a 1 0 ResolvedRefs=False/InvalidRouteKinds",
				"b 0 0 Programmed=False/Invalid ResolvedRefs=False/InvalidRouteKinds"}},
		"TLS for others": {"{name: a, port: 443, protocol: HTTPS, " + tls + ", allowedRoutes: {kinds: [{kind: " +
			"TLSRoute}]}}", "Programmed=False/Invalid",
			[]string{"a 0 0 Programmed=False/Invalid ResolvedRefs=False/InvalidRouteKinds"}},
		"TLS that ends here": {"{name: a, port: 8443, protocol: TLS, tls: {mode: Terminate, certificateRefs: " +
			"[{name: cert}]}}, {name: b, port: 443, protocol: TLS, " + tls + "}, {name: c, port: 443, " +
			"protocol: TLS, hostname: c.x}", none,
			[]string{"a 1 0 " + unsupported, "b 1 0 " + unsupported, "c 1 0 " + unsupported}},
		"TLS with options": {"{name: a, port: 443, protocol: TLS, tls: {mode: Passthrough, options: {a: b}}}", none,
			[]string{"a 1 0 " + unsupported}},
		"TLS at another port": {"{name: a, port: 8443, protocol: TLS, tls: {mode: Passthrough}}", none,
			[]string{"a 1 0 " + notPort}},
		"TLS and HTTPS": {"{name: a, port: 443, protocol: TLS, tls: {mode: Passthrough}}, {name: b, port: 443, " +
			"protocol: HTTPS, " + tls + "}, {name: c, port: 443, protocol: HTTPS, hostname: c.x, " + tls + "}, " +
			"{name: d, port: 443, protocol: TLS, hostname: '*.x', tls: {mode: Passthrough}}, " +
			"{name: e, port: 80, protocol: HTTP}", "Accepted=True/ListenersNotValid",
			[]string{"a 1 0 " + strings.ReplaceAll(conflict, "Hostname", "Protocol"),
				"b 2 0 " + strings.ReplaceAll(conflict, "Hostname", "Protocol"), "c 2 0", "d 1 0", "e 2 0"}},
		"TLS twice": {"{name: a, port: 443, protocol: TLS, hostname: a.x, tls: {mode: Passthrough}}, {name: b, " +
			"port: 443, protocol: TLS, hostname: a.x, tls: {mode: Passthrough}}", none,
			[]string{"a 1 0 " + conflict, "b 1 0 " + conflict}},
		"passthrough": {"{name: a, port: 443, protocol: HTTPS, tls: {mode: Passthrough, certificateRefs: " +
			"[{name: cert}]}}", none, []string{"a 2 0 " + unsupported}},
		"options": {"{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}], options: {a: b}}}",
			none, []string{"a 2 0 " + unsupported}},
		"TLS without HTTPS": {"{name: a, port: 80, protocol: HTTP, " + tls + "}", none,
			[]string{"a 2 0 " + unsupported}},
		"no TLS": {"{name: a, port: 443, protocol: HTTPS}", "Programmed=False/Invalid",
			[]string{"a 2 0 " + noCertificate}},
		"a Secret that is not there": {"{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: gone}]}}",
			"Programmed=False/Invalid", []string{"a 2 0 " + noCertificate}},
		"another kind": {"{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert, kind: X}]}}",
			"Programmed=False/Invalid", []string{"a 2 0 " + noCertificate}},
		"another group": {"{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert, group: x.y}]}}",
			"Programmed=False/Invalid", []string{"a 2 0 " + noCertificate}},
		"one of two certificates": {"{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: gone}, " +
			"{name: cert}]}}", "", []string{"a 2 0 ResolvedRefs=False/InvalidCertificateRef"}},
		"a Secret of another namespace": {"{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: " +
			"[{name: far, namespace: other}]}}", "Programmed=False/Invalid",
			[]string{"a 2 0 Programmed=False/Invalid ResolvedRefs=False/RefNotPermitted"}},
		"a namespace that is none": {"{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: " +
			"[{name: far, namespace: other.t1}]}}", "Programmed=False/Invalid", []string{"a 2 0 " + noCertificate}},
		"other kinds of routes": {"{name: a, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: X}]}}",
			"Programmed=False/Invalid",
			[]string{"a 0 0 Programmed=False/Invalid ResolvedRefs=False/InvalidRouteKinds"}},
		"HTTPRoutes and others": {"{name: a, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: X}, " +
			"{kind: HTTPRoute}, {kind: HTTPRoute, group: gateway.networking.k8s.io}]}}", "",
			[]string{"a 1 0 ResolvedRefs=False/InvalidRouteKinds"}},
		"HTTPRoutes of another group": {"{name: a, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{group: x, " +
			"kind: HTTPRoute}]}}", "Programmed=False/Invalid",
			[]string{"a 0 0 Programmed=False/Invalid ResolvedRefs=False/InvalidRouteKinds"}},
		"the same hostname": {"{name: a, port: 80, protocol: HTTP}, {name: b, port: 80, protocol: HTTP}," +
			"{name: c, port: 80, protocol: HTTP, hostname: c.x}", "Accepted=True/ListenersNotValid",
			[]string{"a 2 0 " + conflict, "b 2 0 " + conflict, "c 2 0"}},
		"the same hostname, one of which is not accepted": {"{name: a, port: 80, protocol: HTTP}, {name: b, port: " +
			"81, " +
			"protocol: HTTP}", "Accepted=True/ListenersNotValid", []string{"a 2 0", "b 2 0 " + notPort}},
		"the same name": {"{name: a, port: 80, protocol: HTTP}, {name: a, port: 80, protocol: HTTP, hostname: c.x}",
			none, []string{"a 2 0 " + unsupported}},
		"a name that is none": {"{name: A_, port: 80, protocol: HTTP}, {name: a, port: 80, protocol: HTTP}",
			"Accepted=True/ListenersNotValid", []string{"a 2 0"}},
		"a hostname that is none": {"{name: a, port: 80, protocol: HTTP, hostname: A.x}, {name: b, port: 80, " +
			"protocol: HTTP, hostname: 1.2.3.4}, {name: c, port: 80, protocol: HTTP, hostname: 'a.*.x'}", none,
			[]string{"a 2 0 " + unsupported, "b 2 0 " + unsupported, "c 2 0 " + unsupported}},
		"namespaces from nowhere": {"{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: X}}}",
			none,
			[]string{"a 2 0 " + unsupported}},
		"a selector that is none": {"{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: " +
			"Selector, " +
			"selector: {matchExpressions: [{key: a, operator: X}]}}}}", none, []string{"a 2 0 " + unsupported}},
		"no selector": {"{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector}}}", none,
			[]string{"a 2 0 " + unsupported}},
		"no listeners": {"", none, nil},
		"hostnames in common": {"{name: a, port: 443, protocol: HTTPS, hostname: '*.x', " + tls + "}," +
			"{name: b, port: 443, protocol: HTTPS, hostname: a.b.x, " + tls + "}, {name: c, port: 443, " +
			"protocol: HTTPS, hostname: x, " + tls + "}, {name: d, port: 80, protocol: HTTP, hostname: a.x}", "",
			[]string{"a 2 0 OverlappingTLSConfig=True/OverlappingHostnames",
				"b 2 0 OverlappingTLSConfig=True/OverlappingHostnames", "c 2 0", "d 2 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", "{kind: Gateway, metadata: {name: gw}, spec: {gatewayClassName: a4s, listeners: ["+
				c.listeners+"]}}")
			status := w.resolve(t).Gateways[w.name("gw")]
			if got := conditionsOf(status.Conditions); got != c.gateway {
				t.Errorf("the Gateway has %q, want %q", got, c.gateway)
			}
			if got := listenersText(status); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			for i := range status.Listeners {
				for _, condition := range status.Listeners[i].Conditions {
					if condition.ObservedGeneration != 7 {
						t.Errorf("condition %+v is of another generation", condition)
					}
				}
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	const one, two = "192.0.2.1", "2001:db8::1"
	for name, c := range map[string]struct {
		spec, conditions string
		none             bool // no node takes requests
		want             []string
		served           bool
	}{
		"all":             {want: []string{one, two}, served: true},
		"no nodes so far": {none: true, conditions: "Programmed=False/AddressNotAssigned", served: true},
		"one of them":     {spec: "addresses: [{value: " + one + "}]", want: []string{one}, served: true},
		"one of them, spelled at length": {spec: "addresses: [{type: IPAddress, value: '2001:db8:0::0:1'}]",
			want: []string{two}, served: true},
		"any": {spec: "addresses: [{type: IPAddress}]", want: []string{one, two}, served: true},
		"another": {spec: "addresses: [{value: 192.0.2.9}, {value: " + one + "}]", want: []string{one},
			conditions: "Programmed=False/AddressNotUsable", served: true},
		"no address": {spec: "addresses: [{value: x}]", conditions: "Programmed=False/AddressNotUsable", served: true},
		"another type": {spec: "addresses: [{type: Hostname, value: a.x}, {value: " + one + "}]",
			conditions: "Accepted=False/UnsupportedAddress Programmed=False/Invalid"},
		"too many": {spec: "addresses: [" + strings.Repeat("{value: "+one+"},", 17) + "]",
			conditions: "Accepted=False/UnsupportedAddress Programmed=False/Invalid"},
		"parameters": {spec: "infrastructure: {labels: {a: b}, parametersRef: {group: a, kind: b, name: c}}",
			conditions: "Accepted=False/InvalidParameters Programmed=False/Invalid"},
		"labels of what is made": {spec: "infrastructure: {labels: {a: b}}", want: []string{one, two}, served: true},
		"certificates for backends": {spec: "tls: {backend: {clientCertificateRef: {name: cert}}}",
			conditions: "Accepted=False/Invalid Programmed=False/Invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", "{kind: Gateway, metadata: {name: gw}, spec: {gatewayClassName: a4s, listeners: "+
				"[{name: http, port: 80, protocol: HTTP}], "+c.spec+"}}",
				routeYAML("rules: [{backendRefs: [{name: web, port: 80}]}]"))
			if c.none {
				w.addresses = nil
			}
			r := w.resolve(t)
			status := r.Gateways[w.name("gw")]
			var got []string
			for _, a := range status.Addresses {
				if a.Type == nil || *a.Type != gatewayv1.IPAddressType {
					t.Errorf("address %s is of type %v", a.Value, a.Type)
				}
				got = append(got, a.Value)
			}
			if conditions := conditionsOf(status.Conditions); conditions != c.conditions || !slices.Equal(got,
				c.want) {
				t.Errorf("got %q %q, want %q %q", conditions, got, c.conditions, c.want)
			}
			if len(r.Rules) == 0 == c.served {
				t.Errorf("the rules are %q", r.rulesOf())
			}
			if status.Listeners[0].AttachedRoutes != 1 {
				t.Error("the route is not attached")
			}
			programmed := len(c.want) > 0
			if (conditionsOf(status.Listeners[0].Conditions) == "") != programmed {
				t.Errorf("the listener has %q", conditionsOf(status.Listeners[0].Conditions))
			}
			_, said, _ := strings.Cut(messageOf(r.Routes[w.name("r")][0].Conditions, "Accepted"), "accepted")
			if (said == "") != c.served {
				t.Errorf("the route is told %q", said)
			}
		})
	}
}

// A Gateway that wants to know its clients must not let in others.
func TestCertificatesOfClients(t *testing.T) {
	const want = "{caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}"
	for name, c := range map[string]struct {
		frontend string
		refused  bool
	}{
		"none":         {"{default: {}}", false},
		"of all ports": {"{default: {validation: " + want + "}}", true},
		"of this port": {"{default: {}, perPort: [{port: 443, tls: {validation: " + want + "}}]}",
			true},
		"of another port": {"{default: {}, perPort: [{port: 8443, tls: {validation: " + want + "}}]}",
			false},
		"of all ports apart from one": {"{default: {validation: " + want + "}, perPort: [{port: 443, tls: {}}]}",
			false},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", "{kind: Gateway, metadata: {name: gw}, spec: {gatewayClassName: a4s, "+
				"tls: {frontend: "+c.frontend+"}, listeners: [{name: https, port: 443, protocol: HTTPS, "+
				"tls: {certificateRefs: [{name: cert}]}}]}}",
				routeYAML("rules: [{backendRefs: [{name: web, port: 80}]}]"))
			r := w.resolve(t)
			if refused := len(r.Rules)+len(r.Certificates) == 0; refused != c.refused {
				t.Errorf("%q of %q", r.rulesOf(), listenersText(r.Gateways[w.name("gw")]))
			}
		})
	}
}

func TestGatewaysOfOthersAreLeftAlone(t *testing.T) {
	w := worldOf(t, "t1", strings.ReplaceAll(gw, "a4s", "nginx"),
		routeYAML("rules: [{backendRefs: [{name: web, port: 80}]}]"))
	r := w.resolve(t)
	parents, known := r.Routes[w.name("r")]
	if len(r.Gateways)+len(r.Rules)+len(w.hosts)+len(parents) != 0 || !known {
		t.Errorf("it comes to %+v", r)
	}
}

// Of two labels that are wrong, a message is about the same one each time.
func TestMessagesDoNotDependOnChance(t *testing.T) {
	w := worldOf(t, "t1", gwOf("{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, "+
		"selector: "+
		"{matchLabels: {a a: x, b b: x, c c: x}}}}}"))
	for range 20 {
		message := messageOf(w.resolve(t).Gateways[w.name("gw")].Listeners[0].Conditions, "Accepted")
		if !strings.Contains(message, `"a a"`) {
			t.Fatalf("it is told %q", message)
		}
	}
}
