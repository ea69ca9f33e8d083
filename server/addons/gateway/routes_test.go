package gateway

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

const toWeb = "rules: [{backendRefs: [{name: web, port: 80}]}]"

// listener is a Gateway "gw" with listeners.
func gwOf(listeners ...string) string {
	return "{kind: Gateway, metadata: {name: gw}, spec: {gatewayClassName: a4s, listeners: [" +
		strings.Join(listeners, ", ") + "]}}"
}

const (
	anyHTTP  = "{name: http, port: 80, protocol: HTTP}"
	anyHTTPS = "{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}"
)

func TestParents(t *testing.T) {
	const open = "{kind: Gateway, metadata: {name: gw}, spec: {gatewayClassName: a4s, listeners: [{name: http, " +
		"port: 80, " +
		"protocol: HTTP, allowedRoutes: {namespaces: FROM}}]}}"
	from := func(namespaces string) string { return strings.ReplaceAll(open, "FROM", namespaces) }
	for name, c := range map[string]struct {
		gateway, metadata, parents, hostnames string
		want                                  []string
		rules                                 int
	}{
		"a Gateway": {gw, "", "{name: gw}", "", []string{""}, 1},
		"spelled out": {gw, "", "{name: gw, kind: Gateway, group: gateway.networking.k8s.io, namespace: default}",
			"", []string{""}, 1},
		"none":         {gw, "", "", "", nil, 0},
		"not there":    {gw, "", "{name: gone}, {name: gw, namespace: other}", "", nil, 0},
		"another kind": {gw, "", "{name: gw, kind: Service}, {name: gw, group: ''}", "", nil, 0},
		"outside":      {gw, "", "{name: gw, namespace: default.t1}, {name: gw, namespace: a.b}", "", nil, 0},
		"a section":    {gw, "", "{name: gw, sectionName: http, port: 80}", "", []string{""}, 1},
		"no section":   {gw, "", "{name: gw, sectionName: x}", "", []string{"Accepted=False/NoMatchingParent"}, 0},
		"a long one":   {gw, "", "{name: gw, sectionName: " + strings.Repeat("x", 254) + "}", "", nil, 0},
		"another port": {gw, "", "{name: gw, port: 81}", "", []string{"Accepted=False/NoMatchingParent"}, 0},
		"not that port": {gw, "", "{name: gw, sectionName: http, port: 81}", "",
			[]string{"Accepted=False/NoMatchingParent"}, 0},
		"sections": {gwOf(anyHTTP, anyHTTPS), "", "{name: gw, sectionName: http}, {name: gw, sectionName: https}, " +
			"{name: gw, sectionName: x}", "", []string{"", "", "Accepted=False/NoMatchingParent"}, 1},
		"twice": {gw, "", "{name: gw}, {name: gw, namespace: default}", "", []string{""}, 1},
		"of a namespace": {gw, ", namespace: other", "{name: gw, namespace: default}", "",
			[]string{"Accepted=False/NotAllowedByListeners"}, 0},
		"same namespace": {from("{from: Same}"), ", namespace: other", "{name: gw, namespace: default}", "",
			[]string{"Accepted=False/NotAllowedByListeners"}, 0},
		"all namespaces": {from("{from: All}"), ", namespace: other", "{name: gw, namespace: default}", "",
			[]string{""}, 1},
		"a namespace's label": {from("{from: Selector, selector: {matchLabels: {team: b}}}"), ", namespace: other",
			"{name: gw, namespace: default}", "", []string{""}, 1},
		"another label": {from("{from: Selector, selector: {matchLabels: {team: a}}}"), ", namespace: other",
			"{name: gw, namespace: default}", "", []string{"Accepted=False/NotAllowedByListeners"}, 0},
		"a namespace's name": {from("{from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: " +
			"other}}}"), ", namespace: other", "{name: gw, namespace: default}", "", []string{""}, 1},
		"its tenant is unseen": {from("{from: Selector, selector: {matchLabels: {a4s.io/tenant: t1}}}"),
			", namespace: other", "{name: gw, namespace: default}", "",
			[]string{"Accepted=False/NotAllowedByListeners"}, 0},
		"any label": {from("{from: Selector, selector: {}}"), ", namespace: other",
			"{name: gw, namespace: default}", "", []string{""}, 1},
		"an unknown namespace": {from("{from: Selector, selector: {}}"), ", namespace: new",
			"{name: gw, namespace: default}", "", []string{"Accepted=False/NotAllowedByListeners"}, 0},
		"other kinds of routes": {gwOf("{name: tls, port: 443, protocol: TLS, allowedRoutes: {kinds: [{kind: " +
			"TLSRoute}]}}"), "", "{name: gw}", "", []string{"Accepted=False/NotAllowedByListeners"}, 0},
		"other hostnames": {gwOf("{name: http, port: 80, protocol: HTTP, hostname: a.x}"), "", "{name: gw}",
			"b.x, c.x", []string{"Accepted=False/NoMatchingListenerHostname"}, 0},
		"one of the hostnames": {gwOf("{name: http, port: 80, protocol: HTTP, hostname: a.x}"), "", "{name: gw}",
			"b.x, a.x", []string{""}, 1},
		"a hostname of none": {gw, "", "{name: gw}", "a.x, A.x", []string{"Accepted=False/UnsupportedValue"}, 0},
		"an address":         {gw, "", "{name: gw}", "1.2.3.4", []string{"Accepted=False/UnsupportedValue"}, 0},
		"too many hostnames": {gw, "", "{name: gw}", strings.Repeat("a.x,", 17),
			[]string{"Accepted=False/UnsupportedValue"}, 0},
		"a listener that takes nothing": {gwOf("{name: http, port: 8080, protocol: HTTP}"), "", "{name: gw}", "",
			[]string{""}, 0},
		"33 parents": {gw, "", strings.Repeat("{name: gone}, ", 32) + "{name: gw}", "", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", c.gateway, "{kind: HTTPRoute, metadata: {name: r"+c.metadata+"}, spec: "+
				"{parentRefs: ["+
				c.parents+"], hostnames: ["+c.hostnames+"], rules: [{backendRefs: [{name: web, namespace: default, "+
				"port: 80}]}]}}", "{kind: ReferenceGrant, metadata: {name: g}, spec: {from: [{group: "+
				"gateway.networking.k8s.io, kind: HTTPRoute, namespace: other}, {group: gateway.networking.k8s.io, "+
				"kind: HTTPRoute, namespace: new}], to: [{group: '', kind: Service}]}}")
			r := w.resolve(t)
			var name types.NamespacedName
			for name = range r.Routes {
			}
			var got []string
			for _, p := range r.Routes[name] {
				got = append(got, conditionsOf(p.Conditions))
				if p.ControllerName != ControllerName || p.ParentRef.Name != "gw" {
					t.Errorf("entry %+v", p)
				}
			}
			if !slices.Equal(got, c.want) || len(r.Rules) != c.rules {
				t.Errorf("got  %q with %q\nwant %q", got, r.rulesOf(), c.want)
			}
		})
	}
}

func TestHosts(t *testing.T) {
	at := func(name, hostname string) string {
		return "{name: " + name + ", port: 80, protocol: HTTP, hostname: '" + hostname + "'}"
	}
	secure := func(name, hostname, secret string) string {
		return "{name: " + name + ", port: 443, protocol: HTTPS, hostname: '" + hostname +
			"', tls: {certificateRefs: " +
			"[{name: " + secret + "}]}}"
	}
	for name, c := range map[string]struct {
		listeners    []string
		hostnames    string
		parents      string
		want         []string // scheme and host
		certificates []string
	}{
		"no hostnames":    {[]string{anyHTTP}, "", "", []string{"http any"}, nil},
		"of the route":    {[]string{anyHTTP}, "'*.x', a.y", "", []string{"http *.x", "http a.y"}, nil},
		"of the listener": {[]string{at("a", "*.x")}, "", "", []string{"http *.x"}, nil},
		"the listener is wider": {[]string{at("a", "*.x")}, "a.x, b.c.x, x, '*.c.x'", "", []string{"http a.x",
			"http b.c.x", "http *.c.x"}, nil},
		"the route is wider": {[]string{at("a", "a.b.x")}, "'*.b.x', '*.x', '*.y'", "",
			[]string{"http a.b.x"}, nil},
		"both are wild": {[]string{at("a", "*.b.x")}, "'*.x'", "", []string{"http *.b.x"}, nil},
		"both schemes": {[]string{anyHTTP, anyHTTPS}, "a.x", "", []string{" a.x"},
			[]string{"any cert", "a.x cert"}},
		"TLS only": {[]string{anyHTTP, anyHTTPS}, "a.x", "https", []string{"https a.x"},
			[]string{"any cert", "a.x cert"}},
		"not TLS": {[]string{anyHTTP, anyHTTPS}, "a.x", "http", []string{"http a.x"}, []string{"any cert"}},
		"a scheme for each host": {[]string{at("a", "a.x"), secure("b", "b.x", "cert")}, "a.x, b.x", "",
			[]string{"http a.x", "https b.x"}, []string{"b.x cert"}},
		"no certificate, no requests": {[]string{anyHTTP, secure("b", "b.x", "gone")}, "b.x", "",
			[]string{"http b.x"}, nil},
		"the more specific certificate": {[]string{secure("a", "*.x", "cert"), secure("b", "*.a.x", "second")},
			"b.x, b.a.x", "", []string{"https b.x", "https b.a.x"},
			[]string{"*.a.x second", "*.x cert", "b.a.x second", "b.x cert"}},
		"isolated by a name": {[]string{at("a", ""), at("b", "b.x")}, "a.x, b.x", "a", []string{"http a.x"},
			nil},
		"isolated by a wildcard": {[]string{at("a", "*.x"), at("b", "*.b.x")}, "a.x, b.x, a.b.x, '*.b.x'", "a",
			[]string{"http a.x", "http b.x"}, nil},
		"isolated at the same port only": {[]string{at("a", ""), secure("b", "b.x", "cert")}, "b.x", "a",
			[]string{"http b.x"}, []string{"b.x cert"}},
	} {
		t.Run(name, func(t *testing.T) {
			section := ""
			if c.parents != "" {
				section = ", sectionName: " + c.parents
			}
			w := worldOf(t, "t1", gwOf(c.listeners...), "{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: "+
				"[{name: gw"+section+"}], hostnames: ["+c.hostnames+"], "+toWeb+"}}")
			r := w.resolve(t)
			var got, hosts, certificates []string
			spell := func(host string) string { return cmp.Or(host, "any") }
			for _, rule := range r.Rules {
				host := spell(rule.Host)
				got, hosts = append(got, rule.Path.Scheme+" "+host), append(hosts, rule.Host)
			}
			for _, c := range r.Certificates {
				certificates = append(certificates, spell(c.Host)+" "+c.Secret)
			}
			if !slices.Equal(got, c.want) || !slices.Equal(certificates, c.certificates) {
				t.Errorf("got  %q %q\nwant %q %q", got, certificates, c.want, c.certificates)
			}
			if got := w.hosts[:min(len(w.hosts), len(hosts))]; !slices.Equal(got, hosts) {
				t.Errorf("it was asked for %q, not first for %q", w.hosts, hosts)
			}
			for _, c := range r.Certificates {
				if !slices.Contains(hosts, c.Host) {
					hosts = append(hosts, c.Host)
				}
			}
			if slices.Sort(hosts); !slices.Equal(slices.Sorted(slices.Values(w.hosts)), hosts) {
				t.Errorf("it was asked for %q, not for %q", w.hosts, hosts)
			}
			if got := w.parentsOf(r, "r"); !slices.Equal(got, []string{""}) {
				t.Errorf("the route has %q", got)
			}
		})
	}
}

// Listeners of two Gateways for the same host: the more specific one has its certificate presented, then the older.
func TestCertificatesOfSeveralGateways(t *testing.T) {
	gateway := func(name, hostname, secret string) string {
		return "{kind: Gateway, metadata: {name: " + name +
			"}, spec: {gatewayClassName: a4s, listeners: [{name: https, " +
			"port: 443, protocol: HTTPS, hostname: '" + hostname + "', tls: {certificateRefs: [{name: " + secret +
			"}]}}]}}"
	}
	route := func(name, parents string) string {
		return "{kind: HTTPRoute, metadata: {name: " + name + "}, spec: {parentRefs: [" + parents +
			"], hostnames: [a.x], " +
			toWeb + "}}"
	}
	for name, c := range map[string]struct {
		documents []string
		want      string
	}{
		"older": {[]string{gateway("b", "*.x", "cert"), gateway("a", "*.x", "second"), route("r",
			"{name: a}, {name: b}")}, "cert"},
		"more specific": {[]string{gateway("a", "*.x", "cert"), gateway("b", "a.x", "second"), route("r",
			"{name: a}, {name: b}")}, "second"},
		"of two routes": {[]string{gateway("a", "*.x", "cert"), gateway("b", "a.x", "second"), route("r", "{name: a}"),
			route("s", "{name: b}")}, "second"},
		"without a route": {[]string{gateway("a", "*.x", "cert"), gateway("b", "a.x", "second"), route("r",
			"{name: a}")}, "second"},
	} {
		t.Run(name, func(t *testing.T) {
			r := worldOf(t, "t1", c.documents...).resolve(t)
			if !slices.Contains(r.Certificates, Certificate{"a.x", "default.t1", c.want}) {
				t.Errorf("got %v, want %s for a.x", r.Certificates, c.want)
			}
		})
	}
}

func TestHostsThatTheSpaceDoesNotGet(t *testing.T) {
	w := worldOf(t, "t1", gw, routeYAML("hostnames: [a.x, b.x, c.x], "+toWeb),
		"{kind: HTTPRoute, metadata: {name: none}, spec: {parentRefs: [{name: gw}], hostnames: [b.x], "+toWeb+"}}",
		"{kind: HTTPRoute, metadata: {name: wrong}, spec: {parentRefs: [{name: gw}], hostnames: [b.x, d.x], "+
			"rules: [{retry: {attempts: 1}}]}}")
	w.refused["b.x"], w.refused["c.x"] = "another has it", "it is kept"
	r := w.resolve(t)
	if want := []string{"a.x http / > default.t1/web:80", "d.x http / >"}; !slices.Equal(r.rulesOf(), want) {
		t.Errorf("got %q, want %q", r.rulesOf(), want)
	}
	if want := []string{"a.x", "b.x", "c.x", "d.x"}; !slices.Equal(w.hosts, want) {
		t.Errorf("it was asked for %q, want %q", w.hosts, want)
	}
	for route, want := range map[string]string{"r": "", "none": "Accepted=False/HostTaken",
		"wrong": "Accepted=False/UnsupportedValue"} {
		if got := w.parentsOf(r, route); !slices.Equal(got, []string{want}) {
			t.Errorf("route %s has %q, want %q", route, got, want)
		}
	}
	message := messageOf(r.Routes[w.name("r")][0].Conditions, "Accepted")
	if want := `the route is accepted; no requests for host "b.x" are taken: another has it; no requests for host ` +
		`"c.x" are taken: it is kept`; message != want {
		t.Errorf("it is told %q", message)
	}
	if attached := r.Gateways[w.name("gw")].Listeners[0].AttachedRoutes; attached != 1 {
		t.Errorf("%d routes are attached", attached)
	}
}

// Who makes a route invalid for a while must not lose its host. Only a host that is none is not asked for.
func TestHostsOfRoutesThatAreNotAccepted(t *testing.T) {
	const refused = "Accepted=False/UnsupportedValue"
	for rules, want := range map[string]string{
		"{retry: {attempts: 1}}":                                               refused,
		"{matches: [{path: {type: RegularExpression, value: /a}}]}":            refused,
		"{filters: [{type: RequestRedirect, requestRedirect: {port: 70000}}]}": refused,
		"{backendRefs: [{name: gone, port: 80}]}":                              "ResolvedRefs=False/BackendNotFound",
	} {
		w := worldOf(t, "t1", gwOf(anyHTTPS), routeYAML("hostnames: [a.x], rules: ["+rules+"]"))
		r := w.resolve(t)
		got := w.parentsOf(r, "r")
		if !slices.Equal(got, []string{want}) || !slices.Equal(w.hosts, []string{"a.x", ""}) {
			t.Errorf("%s: %q, asked for %q", rules, got, w.hosts)
		}
		if secured := len(r.Certificates) == 2; secured != (len(r.Rules) > 0) {
			t.Errorf("%s: rules %q with certificates %v", rules, r.rulesOf(), r.Certificates)
		}
	}
	w := worldOf(t, "t1", gw, routeYAML("hostnames: [a.x, A.x], "+toWeb))
	if w.resolve(t); len(w.hosts) > 0 {
		t.Errorf("it was asked for %q", w.hosts)
	}
}

// Attached are routes that are accepted, each once, whatever becomes of the listener.
func TestAttachedRoutes(t *testing.T) {
	w := worldOf(t, "t1", gwOf(anyHTTP, "{name: other, port: 8080, protocol: HTTP}",
		"{name: tls, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: gone}]}}"),
		"{kind: HTTPRoute, metadata: {name: a}, spec: {parentRefs: [{name: gw}, {name: gw, port: 80}, {name: gw, "+
			"sectionName: http}], rules: [{backendRefs: [{name: gone, port: 80}]}]}}",
		"{kind: HTTPRoute, metadata: {name: b}, spec: {parentRefs: [{name: gw, sectionName: tls}], "+toWeb+"}}",
		"{kind: HTTPRoute, metadata: {name: c}, spec: {parentRefs: [{name: gw}], rules: [{retry: {attempts: 1}}]}}")
	r := w.resolve(t)
	want := []string{"http 2 1", "other 2 1 Accepted=False/PortUnavailable Programmed=False/Invalid",
		"tls 2 2 Programmed=False/Invalid ResolvedRefs=False/InvalidCertificateRef"}
	if got := listenersText(r.Gateways[w.name("gw")]); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestRulesAreInTheOrderOfAge(t *testing.T) {
	route := func(name, created string) string {
		return "{kind: HTTPRoute, metadata: {" + name + ", creationTimestamp: '" + created +
			"'}, spec: {parentRefs: " +
			"[{name: gw, namespace: default}], hostnames: [a.x], rules: [{matches: [{path: {value: /b}}, {path: " +
			"{value: " +
			"/a}}]}, {matches: [{path: {value: /c}}]}]}}"
	}
	open := gwOf("{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}")
	const old, young = "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"
	w := worldOf(t, "t1", open, route("name: z", old), route("name: b", young), route("name: a", young),
		route("name: a, namespace: ana", young))
	r := w.resolve(t)
	var got []string
	for _, rule := range r.Rules {
		got = append(got, rule.Route.String()+rule.Path.Path)
		if rule.Created.IsZero() {
			t.Errorf("rule %+v has no age", rule)
		}
	}
	var want []string
	for _, name := range []string{"default.t1/z", "ana.t1/a", "default.t1/a", "default.t1/b"} {
		want = append(want, name+"/b", name+"/a", name+"/c")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A Secret that is replaced is not there for a moment: no other space must get the hosts then, and no wider listener
// their requests.
func TestHostsAreWantedWithoutACertificate(t *testing.T) {
	w := worldOf(t, "t1", gwOf("{name: b, port: 443, protocol: HTTPS, hostname: b.x, tls: {certificateRefs: "+
		"[{name: gone}]}}", "{name: wide, port: 443, protocol: HTTPS, hostname: '*.x', tls: {certificateRefs: "+
		"[{name: cert}]}}"), routeYAML("hostnames: [b.x], "+toWeb))
	r := w.resolve(t)
	if len(r.Rules) > 0 || !slices.Equal(r.Certificates, []Certificate{{"*.x", "default.t1", "cert"}}) ||
		!slices.Equal(w.hosts, []string{"b.x", "*.x"}) {
		t.Errorf("%q, asked for %q", r.rulesOf(), w.hosts)
	}
	conditions := r.Routes[w.name("r")][0].Conditions
	if got := messageOf(conditions, "Accepted"); conditionsOf(conditions) != "" || !strings.Contains(got,
		"takes requests") {
		t.Errorf("the route is told %q", got)
	}
	w.secrets["default.t1/gone"] = true
	if got := w.resolve(t).rulesOf(); !slices.Equal(got, []string{"b.x https / > default.t1/web:80"}) {
		t.Errorf("the rules are %q", got)
	}
}
