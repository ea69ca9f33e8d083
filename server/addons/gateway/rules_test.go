package gateway

import (
	"slices"
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	for name, c := range map[string]struct {
		rules string
		want  []string // without what is the same in all
	}{
		"none":                  {"{}", []string{"/"}},
		"an empty one":          {"{matches: [{}]}", []string{"/"}},
		"a prefix":              {"{matches: [{path: {value: /a/}}]}", []string{"/a"}},
		"exactly":               {"{matches: [{path: {type: Exact, value: /a/}}]}", []string{"=/a/"}},
		"a type alone":          {"{matches: [{path: {type: Exact}}]}", []string{"=/"}},
		"decoded":               {"{matches: [{path: {value: /a%20b+c}}]}", []string{"/a b+c"}},
		"regular expressions":   {"{matches: [{path: {type: RegularExpression, value: /a.*}}]}", nil},
		"methods":               {"{matches: [{method: GET}, {method: PATCH}]}", []string{"/ GET", "/ PATCH"}},
		"a method that is none": {"{matches: [{method: get}]}", nil},
		"headers": {"{matches: [{headers: [{name: x-b, value: '1'}, {name: A, value: '2'}, {name: " +
			"X-B, value: '3'}]}]}", []string{"/ A:2 X-B:1"}},
		"headers by expression": {"{matches: [{headers: [{name: a, type: RegularExpression, value: b}]}]}", nil},
		"a header that is none": {"{matches: [{headers: [{name: ':method', value: b}]}]}", nil},
		"no value":              {"{matches: [{headers: [{name: a, value: ''}]}]}", nil},
		"a value of two lines":  {`{matches: [{headers: [{name: a, value: "b\nc"}]}]}`, nil},
		"the host as a header":  {"{matches: [{headers: [{name: host, value: a.x}]}]}", nil},
		"who asks":              {"{matches: [{headers: [{name: x-forwarded-for, value: a}]}]}", nil},
		"who asks, for nginx":   {"{matches: [{headers: [{name: X-REAL-IP, value: a}]}]}", nil},
		"parameters": {"{matches: [{queryParams: [{name: b, value: '1'}, {name: a, value: '2'}, {name: " +
			"b, value: '3'}]}]}", []string{"/ ?a=2 ?b=1"}},
		"parameters by matching": {"{matches: [{queryParams: [{name: a, type: RegularExpression, value: b}]}]}", nil},
		"a parameter of none":    {"{matches: [{queryParams: [{name: a, value: ''}]}]}", nil},
		"17 headers": {"{matches: [{headers: [" + strings.Repeat("{name: a, value: b},", 17) + "]}]}",
			nil},
		"two rules": {"{matches: [{path: {value: /a}}, {path: {value: /b}}]}, {matches: [{path: " +
			"{value: /c}}]}", []string{"/a", "/b", "/c"}},
		"timeouts":    {"{timeouts: {request: 1h10m, backendRequest: 500ms}}", []string{"/ 1h10m0s/500ms"}},
		"no timeouts": {"{timeouts: {request: 0s, backendRequest: 1m}}", []string{"/ 0s/1m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", gw, routeYAML("rules: ["+strings.ReplaceAll(c.rules, "{}", "{backendRefs: []}")+"]"))
			r := w.resolve(t)
			var want []string
			for _, text := range c.want {
				want = append(want, "any http "+text+" >")
			}
			conditions := ""
			if c.want == nil {
				conditions = "Accepted=False/UnsupportedValue"
			}
			if got := w.parentsOf(r, "r"); !slices.Equal(r.rulesOf(), want) || !slices.Equal(got,
				[]string{conditions}) {
				t.Errorf("got  %q %q\nwant %q %q", got, r.rulesOf(), conditions, want)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	for path, want := range map[string]string{
		"/": "/", "/a/b": "/a/b", "/a/": "/a/", "/%41": "/A", "/a=b;c:d@e": "/a=b;c:d@e", "/.a": "/.a", "/a..": "/a..",
		"": "", "a": "", "//": "", "/a//b": "", "/a//": "", "/./a": "", "/a/.": "", "/a/..": "", "/../a": "",
		"/%2e%2e/a": "",
		"/a%2fb":    "", "/a%2Fb": "", "/a#b": "", "/a?b": "", "/a b": "", "/%": "", "/%4": "", "/%zz": "",
		"/a\\b": "",
		"/%0a":  "", "/%ff": "", "/ä": "", "/" + strings.Repeat("a", 1024): "",
	} {
		got, ok := decode(path)
		if got != want || ok != (want != "") {
			t.Errorf("%.40q is %q, %t; want %q", path, got, ok, want)
		}
	}
}

func TestBackends(t *testing.T) {
	const ok, broken = "default.t1/web:80", "500"
	for name, c := range map[string]struct {
		refs, grant string
		want        []string
		conditions  string
	}{
		"none":      {"", "", nil, ""},
		"a Service": {"{name: web, port: 80}", "", []string{ok}, ""},
		"spelled out": {"{name: web, port: 80, kind: Service, group: '', namespace: default, weight: 1}",
			"", []string{ok}, ""},
		"weights": {"{name: web, port: 80, weight: 9}, {name: api, port: 8080, weight: 0}", "",
			[]string{ok + "*9", "default.t1/api:8080*0"}, ""},
		"below zero": {"{name: web, port: 80, weight: -1}", "", nil, "Accepted=False/UnsupportedValue"},
		"too heavy": {"{name: web, port: 80, weight: 1000001}", "", nil,
			"Accepted=False/UnsupportedValue"},
		"not there": {"{name: gone, port: 80}, {name: web, port: 80}", "", []string{broken, ok},
			"ResolvedRefs=False/BackendNotFound"},
		"not there, with weights": {"{name: gone, port: 80, weight: 3}", "", []string{broken + "*3"},
			"ResolvedRefs=False/BackendNotFound"},
		"a name that is none": {"{name: ../web, port: 80}", "", []string{broken},
			"ResolvedRefs=False/BackendNotFound"},
		"no port": {"{name: web}", "", []string{broken}, "ResolvedRefs=False/BackendNotFound"},
		"another port": {"{name: web, port: 81}", "", []string{broken},
			"ResolvedRefs=False/BackendNotFound"},
		"a port for UDP": {"{name: web, port: 53}", "", []string{broken},
			"ResolvedRefs=False/BackendNotFound"},
		"another kind": {"{name: web, port: 80, kind: X}", "", []string{broken},
			"ResolvedRefs=False/InvalidKind"},
		"another group": {"{name: web, port: 80, group: x}", "", []string{broken},
			"ResolvedRefs=False/InvalidKind"},
		"ExternalName": {"{name: outside, port: 80}", "", []string{broken},
			"ResolvedRefs=False/BackendNotFound"},
		"the first problem": {"{name: web, port: 80, kind: X}, {name: gone, port: 80}", "", []string{broken,
			broken}, "ResolvedRefs=False/InvalidKind"},
		"protocols": {"{name: odd, port: 2}, {name: odd, port: 4}", "", []string{"default.t1/odd:2",
			"default.t1/odd:4"}, ""},
		"TLS in a WebSocket": {"{name: odd, port: 1}", "", []string{broken},
			"ResolvedRefs=False/UnsupportedProtocol"},
		"TLS of any kind": {"{name: odd, port: 3}", "", []string{broken},
			"ResolvedRefs=False/UnsupportedProtocol"},
		"of another namespace": {"{name: far, namespace: other, port: 80}", "", []string{broken},
			"ResolvedRefs=False/RefNotPermitted"},
		"a namespace that is none": {"{name: far, namespace: other.t1, port: 80}", grantOf("HTTPRoute", "default",
			"Service", ""),
			[]string{broken}, "ResolvedRefs=False/BackendNotFound"},
		"granted": {"{name: far, namespace: other, port: 80}", grantOf("HTTPRoute", "default", "Service", ""),
			[]string{"other.t1/far:80"}, ""},
		"granted by name": {"{name: far, namespace: other, port: 80}", grantOf("HTTPRoute", "default", "Service",
			"far"),
			[]string{"other.t1/far:80"}, ""},
		"granted, not there": {"{name: gone, namespace: other, port: 80}", grantOf("HTTPRoute", "default", "Service",
			""),
			[]string{broken}, "ResolvedRefs=False/BackendNotFound"},
		"another name granted": {"{name: far, namespace: other, port: 80}", grantOf("HTTPRoute", "default", "Service",
			"x"),
			[]string{broken}, "ResolvedRefs=False/RefNotPermitted"},
		"granted to others": {"{name: far, namespace: other, port: 80}", grantOf("HTTPRoute", "x", "Service", ""),
			[]string{broken}, "ResolvedRefs=False/RefNotPermitted"},
		"granted to another kind": {"{name: far, namespace: other, port: 80}", grantOf("GRPCRoute", "default",
			"Service", ""),
			[]string{broken}, "ResolvedRefs=False/RefNotPermitted"},
		"granted for another kind": {"{name: far, namespace: other, port: 80}", grantOf("HTTPRoute", "default",
			"Secret", ""),
			[]string{broken}, "ResolvedRefs=False/RefNotPermitted"},
		"granted to another group": {"{name: far, namespace: other, port: 80}", strings.ReplaceAll(
			grantOf("HTTPRoute", "default", "Service", ""), "gateway.networking.k8s.io", "x.y"), []string{broken},
			"ResolvedRefs=False/RefNotPermitted"},
		"granted for another group": {"{name: far, namespace: other, port: 80}", strings.ReplaceAll(
			grantOf("HTTPRoute", "default", "Service", ""), "group: ''", "group: x.y"), []string{broken},
			"ResolvedRefs=False/RefNotPermitted"},
		"granted elsewhere": {"{name: far, namespace: other, port: 80}",
			strings.ReplaceAll(grantOf("HTTPRoute", "default", "Service", ""), "namespace: other",
				"namespace: default"),
			[]string{broken}, "ResolvedRefs=False/RefNotPermitted"},
		"17 of them": {strings.Repeat("{name: web, port: 80}, ", 17), "", nil, "Accepted=False/UnsupportedValue"},
		"with filters": {"{name: web, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: " +
			"{remove: [a]}}]}", "", []string{ok + `{"request":{"remove":["A"]}}`}, ""},
		"with a redirect": {"{name: web, port: 80, filters: [{type: RequestRedirect, requestRedirect: {port: 1}}]}",
			"",
			nil, "Accepted=False/UnsupportedValue"},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", gw, routeYAML("rules: [{backendRefs: ["+c.refs+"]}]"), c.grant)
			r := w.resolve(t)
			var got []string
			for _, to := range r.Rules[0].To {
				got = append(got, targetText(to))
			}
			if conditions := w.parentsOf(r, "r"); !slices.Equal(got, c.want) || conditions[0] != c.conditions {
				t.Errorf("got %q %q, want %q %q", got, conditions, c.want, c.conditions)
			}
		})
	}
}

// grantOf is a ReferenceGrant in the namespace "other".
func grantOf(from, namespace, to, name string) string {
	if name != "" {
		name = ", name: " + name
	}
	return "{kind: ReferenceGrant, metadata: {name: g, namespace: other}, spec: {from: [{group: " +
		"gateway.networking.k8s.io, " +
		"kind: " + from + ", namespace: " + namespace + "}], to: [{group: '', kind: " + to + name + "}]}}"
}

func TestGrantsForCertificates(t *testing.T) {
	const listener = "{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: far, namespace: " +
		"other}]}}"
	for name, c := range map[string]struct {
		grant string
		want  []string
	}{
		"granted": {grantOf("Gateway", "default", "Secret", "far"), []string{"https 2 1"}},
		"to routes": {grantOf("HTTPRoute", "default", "Secret", "far"),
			[]string{"https 2 1 Programmed=False/Invalid ResolvedRefs=False/RefNotPermitted"}},
		"for Services": {grantOf("Gateway", "default", "Service", "far"),
			[]string{"https 2 1 Programmed=False/Invalid ResolvedRefs=False/RefNotPermitted"}},
		"of another tenant": {grantOf("Gateway", "default.t1", "Secret", "far"),
			[]string{"https 2 1 Programmed=False/Invalid ResolvedRefs=False/RefNotPermitted"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", gwOf(listener), routeYAML("hostnames: [a.x], "+toWeb), c.grant)
			r := w.resolve(t)
			if got := listenersText(r.Gateways[w.name("gw")]); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if granted := name == "granted"; granted != slices.Contains(r.Certificates, Certificate{"a.x", "other.t1",
				"far"}) {
				t.Errorf("the certificates are %v", r.Certificates)
			}
		})
	}
}

// What is wrong with a rule has requests for it answered with 500, and the other rules go on.
func TestRulesThatCannotBeDone(t *testing.T) {
	const good = "{matches: [{path: {value: /good}}], backendRefs: [{name: web, port: 80}]}"
	for name, c := range map[string]struct{ rule, reason, says string }{
		"a filter that is not here": {"filters: [{type: CORS, cors: {}}]", "UnsupportedValue",
			`filter "CORS" is not supported`},
		"mirroring": {"filters: [{type: RequestMirror, requestMirror: {backendRef: {name: web, port: 80}}}]",
			"UnsupportedValue", `filter "RequestMirror" is not supported`},
		"extensions": {"filters: [{type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}}]",
			"UnsupportedValue",
			`spec.rules[1].filters[0]: filter "ExtensionRef" is not supported`},
		"external authorization": {"filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP}}]",
			"UnsupportedValue",
			`filter "ExternalAuth" is not supported`},
		"retries":  {"retry: {attempts: 1}", "UnsupportedValue", "spec.rules[1]: retry is not supported"},
		"sessions": {"sessionPersistence: {}", "UnsupportedValue", "sessionPersistence is not supported"},
		"timeouts": {"timeouts: {request: 1.5s}", "UnsupportedValue",
			`timeouts.request: "1.5s" is not a duration`},
		"backend timeouts": {"timeouts: {backendRequest: 1us}", "UnsupportedValue",
			`backendRequest: "1us" is not a duration`},
		"longer than all": {"timeouts: {request: 1s, backendRequest: 1001ms}", "UnsupportedValue",
			"backendRequest is longer"},
		"redirect and rewrite": {"filters: [{type: URLRewrite, urlRewrite: {hostname: a.x}}, {type: " +
			"RequestRedirect, " +
			"requestRedirect: {hostname: a.x}}]", "IncompatibleFilters", "exclude each other"},
		"redirect and backends": {"filters: [{type: RequestRedirect, requestRedirect: {hostname: a.x}}], " +
			"backendRefs: " +
			"[{name: web, port: 80}]", "IncompatibleFilters", "exclude each other"},
		"the same filter twice": {"filters: [{type: URLRewrite, urlRewrite: {hostname: a.x}}, {type: URLRewrite, " +
			"urlRewrite: {hostname: b.x}}]", "IncompatibleFilters", "several filters"},
		"17 filters": {"filters: [" + strings.Repeat("{type: X},", 17) + "]", "UnsupportedValue",
			"more than 16 entries"},
	} {
		for _, alone := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				first := good
				if alone {
					first = "{matches: [{path: {type: RegularExpression, value: a}}]}"
				}
				w := worldOf(t, "t1", gw, routeYAML("rules: ["+first+", {matches: [{path: {value: /bad}}], "+
					""+c.rule+"}]"))
				r := w.resolve(t)
				rules, condition, typ := []string{"any http /good > default.t1/web:80", "any http /bad >"},
					"PartiallyInvalid=True/"+c.reason, "PartiallyInvalid"
				if alone {
					rules, condition, typ = rules[1:], "Accepted=False/UnsupportedValue", "Accepted"
				}
				if got := w.parentsOf(r, "r"); got[0] != condition || !slices.Equal(r.rulesOf(), rules) {
					t.Errorf("got  %q %q\nwant %q %q", got, r.rulesOf(), condition, rules)
				}
				message := messageOf(r.Routes[w.name("r")][0].Conditions, typ)
				if !strings.Contains(message, c.says) || alone == strings.HasPrefix(message, "Dropped Rule") {
					t.Errorf("it is told %q", message)
				}
			})
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]string{"0s": "0s", "10s": "10s", "1h1m1s1ms": "1h1m1.001s",
		"99999h": "99999h0m0s",
		"5m5m":   "10m0s", "": "no", "s": "no", "1": "no", "-1s": "no", "1.5s": "no", "100000s": "no",
		"1s1s1s1s1s": "no",
		"1us":        "no", "1S": "no", " 1s": "no", "1s ": "no", "1d": "no"} {
		w := worldOf(t, "t1", gw, routeYAML("rules: [{timeouts: {request: '"+text+"'}}]"))
		r := w.resolve(t)
		got := "no"
		if w.parentsOf(r, "r")[0] == "" {
			got = r.Rules[0].Path.Timeout.String()
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
