package gateway

import (
	"slices"
	"strings"
	"testing"
)

// grpcParents are the entries of a GRPCRoute, each as its conditions.
func (w *world) grpcParents(r *Result, route string) (out []string) {
	for _, p := range r.GRPCRoutes[w.name(route)] {
		out = append(out, conditionsOf(p.Conditions))
	}
	return out
}

// grpcYAML is a GRPCRoute "r" of Gateway "gw".
func grpcYAML(spec string) string {
	return "{kind: GRPCRoute, metadata: {name: r}, spec: {parentRefs: [{name: gw}], " + spec + "}}"
}

func TestGRPCMatches(t *testing.T) {
	long := strings.Repeat("a", mostMethod)
	for name, c := range map[string]struct {
		rules string
		want  []string // without what is the same in all
	}{
		"none":         {"{backendRefs: []}", []string{"/"}},
		"an empty one": {"{matches: [{}]}", []string{"/"}},
		"a method":     {"{matches: [{method: {service: a.b_1.C, method: Get}}]}", []string{"=/a.b_1.C/Get"}},
		"exactly":      {"{matches: [{method: {type: Exact, service: .a, method: _b}}]}", []string{"=/.a/_b"}},
		"a service":    {"{matches: [{method: {service: a.B}}]}", []string{"/a.B"}},
		"the longest": {"{matches: [{method: {service: " + long + ", method: " + long + "}}]}",
			[]string{"=/" + long + "/" + long}},
		"too long a service":       {"{matches: [{method: {service: a" + long + "}}]}", nil},
		"too long a method":        {"{matches: [{method: {service: a, method: a" + long + "}}]}", nil},
		"a method of any service":  {"{matches: [{method: {method: Get}}]}", nil},
		"a method of nothing":      {"{matches: [{method: {}}]}", nil},
		"regular expressions":      {"{matches: [{method: {type: RegularExpression, service: a.*}}]}", nil},
		"a service with a slash":   {"{matches: [{method: {service: a/b}}]}", nil},
		"a service above":          {"{matches: [{method: {service: ..}}]}", nil},
		"a service with two dots":  {"{matches: [{method: {service: a..b}}]}", nil},
		"a service that ends so":   {"{matches: [{method: {service: a.}}]}", nil},
		"a service with a digit":   {"{matches: [{method: {service: a.1b}}]}", nil},
		"a service with a percent": {"{matches: [{method: {service: 'a%2fb'}}]}", nil},
		"a method with a slash":    {"{matches: [{method: {service: a, method: b/c}}]}", nil},
		"a method with a dot":      {"{matches: [{method: {service: a, method: b.c}}]}", nil},
		"headers": {"{matches: [{headers: [{name: x-b, value: '1'}, {name: A, type: Exact, value: '2'}, " +
			"{name: X-B, value: '3'}]}]}", []string{"/ A:2 X-B:1"}},
		"headers by expression": {"{matches: [{headers: [{name: a, type: RegularExpression, value: b}]}]}", nil},
		"a header that is none": {"{matches: [{headers: [{name: ':path', value: b}]}]}", nil},
		"the host as a header":  {"{matches: [{headers: [{name: host, value: a.x}]}]}", nil},
		"17 headers":            {"{matches: [{headers: [" + strings.Repeat("{name: a, value: b},", 17) + "]}]}", nil},
		"two rules": {"{matches: [{method: {service: a}}, {method: {service: b}}]}, " +
			"{matches: [{method: {service: c}}]}",
			[]string{"/a", "/b", "/c"}},
		"headers set": {"{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [a]}}, " +
			"{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [b]}}]}",
			[]string{`/ {"request":{"remove":["A"]},"response":{"remove":["B"]}}`}},
		"mirroring": {"{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: web, port: 80}}}]}", nil},
		"a filter of another object": {"{filters: [{type: ExtensionRef, extensionRef: {group: x, kind: X, name: x}}]}",
			nil},
		"a filter of HTTPRoutes": {"{filters: [{type: URLRewrite, urlRewrite: {hostname: a.x}}]}", nil},
		"persistence":            {"{sessionPersistence: {}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", gw, grpcYAML("rules: ["+c.rules+"]"))
			r := w.resolve(t)
			var want, got []string
			for _, text := range c.want {
				want = append(want, strings.ReplaceAll("any http "+text+" >", "} >", "}>"))
			}
			for _, rule := range r.rulesOf() { // those of what is not supported are answered with an error
				got = append(got, strings.ReplaceAll(rule, "/{", "/ {"))
			}
			conditions := ""
			if c.want == nil {
				conditions, want, got = "Accepted=False/UnsupportedValue", nil, nil
			}
			said := w.grpcParents(r, "r")
			if !slices.Equal(said, []string{conditions}) || !slices.Equal(got, want) {
				t.Errorf("got  %q %q\nwant %q %q", said, got, conditions, want)
			}
			for i := range r.Rules {
				if rule := &r.Rules[i]; len(rule.To) > 0 || rule.Kind != KindGRPC || rule.Route != w.name("r") {
					t.Errorf("there is the rule %+v", rule)
				}
			}
		})
	}
}

func TestGRPCBounds(t *testing.T) {
	for name, spec := range map[string]string{
		"rules":     "rules: [" + strings.Repeat("{},", 17) + "]",
		"matches":   "rules: [{matches: [" + strings.Repeat("{},", 65) + "]}]",
		"together":  "rules: [" + strings.Repeat("{matches: ["+strings.Repeat("{},", 43)+"]},", 3) + "]",
		"backends":  "rules: [{backendRefs: [" + strings.Repeat("{name: web, port: 80},", 17) + "]}]",
		"filters":   "rules: [{filters: [" + strings.Repeat("{type: X},", 17) + "]}]",
		"hostnames": "hostnames: [" + strings.Repeat("a.x,", 17) + "]",
		"of parts": "rules: [{backendRefs: [{name: web, port: 80, filters: [" + strings.Repeat("{type: X},", 17) +
			"]}]}]",
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", gw, grpcYAML(spec))
			r := w.resolve(t)
			if got := w.grpcParents(r, "r"); !slices.Equal(got, []string{"Accepted=False/UnsupportedValue"}) {
				t.Errorf("it is told %q", got)
			}
			if message := messageOf(r.GRPCRoutes[w.name("r")][0].Conditions, "Accepted"); !strings.Contains(message,
				"has more than") && !strings.Contains(message, "have more than") {
				t.Errorf("it is told %q", message)
			}
		})
	}
	w := worldOf(t, "t1", gw, grpcYAML("rules: []"))
	r := w.resolve(t)
	if got := w.grpcParents(r, "r"); !slices.Equal(got, []string{""}) || len(r.Rules) > 0 {
		t.Errorf("a route without rules is told %q and has %q", got, r.rulesOf())
	}
}

func TestGRPCBackends(t *testing.T) {
	grant := func(kind string) string {
		return "{kind: ReferenceGrant, metadata: {name: g, namespace: other}, spec: {from: [{group: " +
			"gateway.networking.k8s.io, kind: " + kind + ", namespace: default}], to: [{group: '', kind: Service}]}}"
	}
	far := "{name: far, namespace: other, port: 80}"
	for name, c := range map[string]struct {
		refs, more string
		want       string
		conditions string
	}{
		"weights": {"{name: web, port: 80, weight: 3}, {name: api, port: 8080}", "",
			"default.t1/web:80*3 default.t1/api:8080", ""},
		"headers": {"{name: web, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: " +
			"{remove: [a]}}]}", "", `default.t1/web:80{"request":{"remove":["A"]}}`, ""},
		"one that is not there": {"{name: web, port: 80}, {name: gone, port: 80}", "", "default.t1/web:80 500",
			"ResolvedRefs=False/BackendNotFound"},
		"granted":          {far, grant("GRPCRoute"), "other.t1/far:80", ""},
		"not granted":      {far, "", "500", "ResolvedRefs=False/RefNotPermitted"},
		"to other routes":  {far, grant("HTTPRoute"), "500", "ResolvedRefs=False/RefNotPermitted"},
		"HTTP/2":           {"{name: odd, port: 2}", "", "default.t1/odd:2", ""},
		"HTTP by its name": {"{name: odd, port: 4}", "", "default.t1/odd:4", ""},
		"TLS":              {"{name: odd, port: 3}", "", "500", "ResolvedRefs=False/UnsupportedProtocol"},
		"WebSocket": {"{name: ws, port: 80}", "{kind: Service, metadata: {name: ws}, spec: {ports: [{port: 80, " +
			"appProtocol: kubernetes.io/ws}]}}", "500", "ResolvedRefs=False/UnsupportedProtocol"},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", gw, c.more, grpcYAML("rules: [{backendRefs: ["+c.refs+"]}]"))
			r := w.resolve(t)
			want := []string{"any http / > " + c.want}
			if got := w.grpcParents(r, "r"); !slices.Equal(r.rulesOf(), want) || !slices.Equal(got,
				[]string{c.conditions}) {
				t.Errorf("got  %q %q\nwant %q %q", got, r.rulesOf(), c.conditions, want)
			}
			for _, to := range r.Rules[0].To {
				if to.HTTP2 == to.Broken {
					t.Errorf("requests go to %+v", to)
				}
			}
		})
	}
}

// Two routes of one name are two objects.
func TestRoutesOfAKindAreApart(t *testing.T) {
	backend := "rules: [{backendRefs: [{name: web, port: 80}]}]"
	w := worldOf(t, "t1", gw, routeYAML("hostnames: [a.x], "+backend),
		grpcYAML("hostnames: [b.x], rules: [{matches: [{headers: [{name: a, type: X, value: b}]}]}]"))
	r := w.resolve(t)
	if got := w.parentsOf(r, "r"); !slices.Equal(got, []string{""}) {
		t.Errorf("the HTTPRoute is told %q", got)
	}
	if got := w.grpcParents(r, "r"); !slices.Equal(got, []string{"Accepted=False/UnsupportedValue"}) {
		t.Errorf("the GRPCRoute is told %q", got)
	}
	if len(r.Rules) != 1 || r.Rules[0].Kind != KindHTTP || r.Rules[0].To[0].HTTP2 {
		t.Errorf("there are the rules %+v", r.Rules)
	}
}

func TestKindsOfListeners(t *testing.T) {
	for kinds, c := range map[string]struct {
		takes      string
		http, grpc string
	}{
		"":                                      {"HTTPRoute GRPCRoute", "", ""},
		"kinds: [{kind: GRPCRoute}]":            {"GRPCRoute", "Accepted=False/NotAllowedByListeners", ""},
		"kinds: [{kind: HTTPRoute}]":            {"HTTPRoute", "", "Accepted=False/NotAllowedByListeners"},
		"kinds: [{kind: X}, {kind: GRPCRoute}]": {"GRPCRoute", "Accepted=False/NotAllowedByListeners", ""},
		"kinds: [{kind: GRPCRoute}, {kind: HTTPRoute}, {kind: GRPCRoute}]": {"GRPCRoute HTTPRoute", "", ""},
	} {
		t.Run(kinds, func(t *testing.T) {
			w := worldOf(t, "t1", gwOf("{name: http, port: 80, protocol: HTTP, allowedRoutes: {"+kinds+"}}"),
				routeYAML("hostnames: [a.x]"), grpcYAML("hostnames: [b.x]"))
			r := w.resolve(t)
			l := &r.Gateways[w.name("gw")].Listeners[0]
			var takes []string
			for _, k := range l.SupportedKinds {
				takes = append(takes, string(k.Kind))
			}
			attached := int32(strings.Count(c.takes, "Route"))
			if got := strings.Join(takes, " "); got != c.takes || l.AttachedRoutes != attached {
				t.Errorf("it takes %s and has %d", got, l.AttachedRoutes)
			}
			http, grpc := w.parentsOf(r, "r"), w.grpcParents(r, "r")
			if !slices.Equal(http, []string{c.http}) || !slices.Equal(grpc, []string{c.grpc}) {
				t.Errorf("the routes are told %q and %q", http, grpc)
			}
		})
	}
}
