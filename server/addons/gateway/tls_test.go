package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// anyTLS is a listener that takes connections for every host.
const anyTLS = "{name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}}"

func passthrough() *gatewayv1.ListenerTLSConfig {
	mode := gatewayv1.TLSModePassthrough
	return &gatewayv1.ListenerTLSConfig{Mode: &mode}
}

// tlsYAML is a TLSRoute of Gateway "gw".
func tlsYAML(name, spec string) string {
	return "{kind: TLSRoute, metadata: {name: " + name + "}, spec: {parentRefs: [{name: gw}], " + spec + "}}"
}

// tlsParents are the entries of a TLSRoute, each as its conditions.
func (w *world) tlsParents(r *Result, route string) (out []string) {
	for _, p := range r.TLSRoutes[w.name(route)] {
		out = append(out, conditionsOf(p.Conditions))
	}
	return out
}

func TestTLSRoutes(t *testing.T) {
	const web = "rules: [{backendRefs: [{name: web, port: 80}]}]"
	const unsupported = "Accepted=False/UnsupportedValue"
	grant := "{kind: ReferenceGrant, metadata: {name: g, namespace: other}, spec: {from: [{group: " +
		"gateway.networking.k8s.io, kind: KIND, namespace: default}], to: [{group: '', kind: Service}]}}"
	far := "hostnames: [a.x], rules: [{backendRefs: [{name: far, namespace: other, port: 80}]}]"
	const nothing, passed = "a.x passed >", "a.x passed > "
	to := func(refs string) string { return "hostnames: [a.x], rules: [{backendRefs: [" + refs + "]}]" }
	for name, c := range map[string]struct {
		listeners, spec, more string
		conditions            string
		want                  []string
	}{
		"a host": {anyTLS, "hostnames: [a.x], " + web, "", "", []string{passed + "default.t1/web:80"}},
		"several hosts": {anyTLS, "hostnames: [a.x, '*.b.x'], " + web, "", "",
			[]string{passed + "default.t1/web:80", "*.b.x passed > default.t1/web:80"}},
		"a host of both": {strings.Replace(anyTLS, "tls,", "tls, hostname: a.x,", 1), "hostnames: ['*.x'], " + web,
			"", "", []string{passed + "default.t1/web:80"}},
		"another host": {strings.Replace(anyTLS, "tls,", "tls, hostname: a.x,", 1), "hostnames: [b.x], " + web,
			"", "Accepted=False/NoMatchingListenerHostname", nil},
		"weights": {anyTLS, to("{name: web, port: 80, weight: 0}, {name: api, port: 8080, weight: 3}"), "", "",
			[]string{passed + "default.t1/web:80*0 default.t1/api:8080*3"}},
		"no Service": {anyTLS, to("{name: gone, port: 80}"), "", "ResolvedRefs=False/BackendNotFound",
			[]string{passed + "500"}},
		"another kind": {anyTLS, to("{name: web, kind: X, port: 80}"), "", "ResolvedRefs=False/InvalidKind",
			[]string{passed + "500"}},
		"not granted": {anyTLS, far, "", "ResolvedRefs=False/RefNotPermitted", []string{passed + "500"}},
		"granted": {anyTLS, far, strings.Replace(grant, "KIND", "TLSRoute", 1), "",
			[]string{passed + "other.t1/far:80"}},
		"granted others": {anyTLS, far, strings.Replace(grant, "KIND", "HTTPRoute", 1),
			"ResolvedRefs=False/RefNotPermitted", []string{passed + "500"}},
		"without TLS": {anyTLS, to("{name: odd, port: 2}, {name: odd, port: 4}"), "",
			"ResolvedRefs=False/UnsupportedProtocol", []string{passed + "500 500"}},
		"with TLS": {anyTLS, to("{name: odd, port: 1}, {name: odd, port: 3}"), "", "",
			[]string{passed + "default.t1/odd:1 default.t1/odd:3"}},
		"no backends":    {anyTLS, to(""), "", "", []string{nothing}},
		"a wrong weight": {anyTLS, to("{name: web, port: 80, weight: -1}"), "", unsupported, []string{nothing}},
		"many backends": {anyTLS, to(strings.Repeat("{name: web, port: 80},", 17)), "", unsupported,
			[]string{nothing}},
		"no hostnames": {anyTLS, web, "", unsupported, nil},
		"a wrong one":  {anyTLS, "hostnames: [a.x, A.x], " + web, "", unsupported, nil},
		"an empty one": {anyTLS, "hostnames: [a.x, ''], " + web, "", unsupported, nil},
		"an address":   {anyTLS, "hostnames: [1.2.3.4], " + web, "", unsupported, nil},
		"no rules":     {anyTLS, "hostnames: [a.x]", "", unsupported, nil},
		"two rules":    {anyTLS, "hostnames: [a.x], rules: [{}, {}]", "", unsupported, nil},
		"HTTP": {"{name: a, port: 80, protocol: HTTP}", "hostnames: [a.x], " + web, "",
			"Accepted=False/NotAllowedByListeners", nil},
		"HTTPS": {"{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}",
			"hostnames: [a.x], " + web, "", "Accepted=False/NotAllowedByListeners", nil},
		"no such section": {anyTLS, "hostnames: [a.x], " + web + ", parentRefs: [{name: gw, sectionName: gone}]", "",
			"Accepted=False/NoMatchingParent", nil},
		"one of two": {anyTLS + ", {name: b, hostname: '*.b.x', " + anyTLS[len("{name: tls, "):],
			"hostnames: ['*.b.x'], " + web + ", parentRefs: [{name: gw, sectionName: tls}]", "", "", nil},
		"a more specific listener with HTTPS": {anyTLS + ", {name: b, hostname: a.x, port: 443, protocol: HTTPS, " +
			"tls: {certificateRefs: [{name: cert}]}}", "hostnames: [a.x, b.x], " + web, "", "",
			[]string{"b.x passed > default.t1/web:80"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := tlsYAML("r", c.spec)
			if strings.Contains(c.spec, "parentRefs") {
				spec = strings.Replace(spec, "parentRefs: [{name: gw}], ", "", 1)
			}
			w := worldOf(t, "t1", gwOf(c.listeners), c.more, spec)
			r := w.resolve(t)
			if got := w.tlsParents(r, "r"); !slices.Equal(got, []string{c.conditions}) {
				t.Errorf("it is told %q, want %q", got, c.conditions)
			}
			if got := r.rulesOf(); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestOtherKindsOfTLS: other routes are none of a listener with TLS, and are counted by no one.
func TestOtherKindsOfTLS(t *testing.T) {
	w := worldOf(t, "t1", gwOf(anyTLS), routeYAML("hostnames: [a.x]"), grpcYAML("hostnames: [b.x]"),
		tlsYAML("r", "hostnames: [c.x], rules: [{}]"))
	r := w.resolve(t)
	const refused = "Accepted=False/NotAllowedByListeners"
	if got := slices.Concat(w.parentsOf(r, "r"), w.grpcParents(r, "r"), w.tlsParents(r, "r")); !slices.Equal(got,
		[]string{refused, refused, ""}) {
		t.Errorf("they are told %q", got)
	}
	if got := r.Gateways[w.name("gw")].Listeners[0].AttachedRoutes; got != 1 {
		t.Errorf("%d are attached", got)
	}
	w.refused["c.x"] = "somebody has it"
	if got := w.tlsParents(w.resolve(t), "r"); !slices.Equal(got, []string{"Accepted=False/HostTaken"}) {
		t.Errorf("without its host it is told %q", got)
	}
}

// TestWhoHasConnections: those for a host are either opened or passed on. The older one has them, and the other one is
// told.
func TestWhoHasConnections(t *testing.T) {
	const conflict = "Accepted=False/HostnameConflict"
	https := "{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}"
	second := func(listeners string) string {
		return strings.Replace(gwOf(listeners), "name: gw", "name: second", 1)
	}
	of := func(kind, name, spec string) string {
		return "{kind: " + kind + ", metadata: {name: " + name + "}, spec: {parentRefs: [{name: second}], " + spec +
			"}}"
	}
	pass := tlsYAML("r", "hostnames: [a.x], "+toWeb)
	passes, opens := "a.x passed > default.t1/web:80", "a.x https / > default.t1/web:80"
	for name, c := range map[string]struct {
		documents   []string
		ingress     int64 // seconds that it is older
		told, other string
		want        []string
		message     string // of the one that is refused in part
	}{
		"an older HTTPRoute": {[]string{second(https), of("HTTPRoute", "r", "hostnames: [a.x], "+toWeb), pass}, 0,
			conflict, "", []string{opens}, ""},
		"a younger HTTPRoute": {[]string{second(https), pass, of("HTTPRoute", "r", "hostnames: [a.x], "+toWeb)}, 0,
			"", conflict, []string{passes}, ""},
		"a younger HTTPRoute with another host": {[]string{second(https), pass,
			of("HTTPRoute", "r", "hostnames: [a.x, b.x], "+toWeb)}, 0, "", "",
			[]string{passes, "b.x https / > default.t1/web:80"}, "those of an older TLSRoute"},
		"an older GRPCRoute": {[]string{second(https), of("GRPCRoute", "r", "hostnames: [a.x], "+toWeb), pass}, 0,
			conflict, "", []string{opens}, ""},
		"one without TLS": {[]string{second(anyHTTP), of("HTTPRoute", "r", "hostnames: [a.x], "+toWeb), pass}, 0, "",
			"", []string{"a.x http / > default.t1/web:80", passes}, ""},
		"one with and without TLS": {[]string{second(https + ", " + anyHTTP), pass,
			of("HTTPRoute", "r", "hostnames: [a.x], "+toWeb)}, 0, "", "",
			[]string{passes, "a.x http / > default.t1/web:80"}, "those of an older TLSRoute"},
		"one whose certificate is missing": {[]string{second(strings.Replace(https, "cert}", "gone}", 1)),
			of("HTTPRoute", "r", "hostnames: [a.x], "+toWeb), pass}, 0, conflict, "", nil, "none of its listeners"},
		"one of a wider host": {[]string{second(https), of("HTTPRoute", "r", "hostnames: ['*.x'], "+toWeb), pass}, 0,
			"", "", []string{"*.x https / > default.t1/web:80", passes}, ""},
		"an older TLSRoute": {[]string{second(anyTLS), of("TLSRoute", "s", "hostnames: [a.x], "+toWeb), pass}, 0,
			conflict, "", []string{passes}, ""},
		"another host of it": {[]string{second(anyTLS), of("TLSRoute", "s", "hostnames: [a.x], "+toWeb),
			tlsYAML("r", "hostnames: [a.x, b.x], "+toWeb)}, 0, "", "",
			[]string{passes, "b.x passed > default.t1/web:80"}, "those of an older TLSRoute"},
		"an older Ingress":  {[]string{pass}, 1, conflict, "", nil, ""},
		"a younger Ingress": {[]string{pass}, -1, "", "", []string{passes}, ""},
		"no TLSRoute at all": {[]string{second(https), of("HTTPRoute", "r", "hostnames: [a.x], "+toWeb)}, 1, "", "",
			[]string{opens}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", append([]string{gwOf(anyTLS)}, c.documents...)...)
			for _, o := range w.tls {
				if c.ingress != 0 && o.Name == "r" {
					w.ingresses = map[string]int64{"a.x": o.CreationTimestamp.Unix() - c.ingress}
				}
			}
			if len(w.tls) == 0 {
				w.ingresses = map[string]int64{"a.x": 0}
			}
			r := w.resolve(t)
			if got := w.tlsParents(r, "r"); len(w.tls) > 0 && !slices.Equal(got, []string{c.told}) {
				t.Errorf("the TLSRoute is told %q", got)
			}
			others := slices.Concat(w.parentsOf(r, "r"), w.grpcParents(r, "r"), w.tlsParents(r, "s"))
			if len(others) > 0 && !slices.Equal(others, []string{c.other}) {
				t.Errorf("the other one is told %q", others)
			}
			if got := r.rulesOf(); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			var messages []string
			for _, entries := range [][]gatewayv1.RouteParentStatus{r.TLSRoutes[w.name("r")], r.Routes[w.name("r")]} {
				for _, e := range entries {
					messages = append(messages, messageOf(e.Conditions, "Accepted"))
				}
			}
			if got := strings.Join(messages, "; "); !strings.Contains(got, c.message) {
				t.Errorf("it says %q", got)
			}
		})
	}
}

// TestALostHostOfOneSection: who names the listener with TLS only is refused, and who names another one is not.
func TestALostHostOfOneSection(t *testing.T) {
	w := worldOf(t, "t1", gwOf(anyTLS), strings.Replace(gwOf("{name: https, port: 443, protocol: HTTPS, tls: "+
		"{certificateRefs: [{name: cert}]}}, "+anyHTTP), "name: gw", "name: second", 1),
		tlsYAML("r", "hostnames: [a.x], "+toWeb), "{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: "+
			"[{name: second, sectionName: https}, {name: second, sectionName: http}], hostnames: [a.x], "+toWeb+"}}")
	if got := w.parentsOf(w.resolve(t), "r"); !slices.Equal(got, []string{"Accepted=False/HostnameConflict", ""}) {
		t.Errorf("it is told %q", got)
	}
}

// TestTLSRoutesAreBounded, as other routes are.
func TestTLSRoutesAreBounded(t *testing.T) {
	w := worldOf(t, "t1", gwOf(anyTLS), tlsYAML("r", toWeb))
	w.tls[0].Spec.Hostnames = hostnames("h%d.x", mostTLSHostnames)
	if r := w.resolve(t); len(r.Rules) != mostTLSHostnames || len(w.hosts) != mostTLSHostnames {
		t.Errorf("%d rules for %d hosts", len(r.Rules), len(w.hosts))
	}
	w.tls[0].Spec.Hostnames = hostnames("h%d.x", mostTLSHostnames+1)
	if r := w.resolve(t); len(r.Rules) != 0 || len(w.hosts) != 0 ||
		w.tlsParents(r, "r")[0] != "Accepted=False/UnsupportedValue" {
		t.Errorf("%d rules for %d hosts, and %q", len(r.Rules), len(w.hosts), w.tlsParents(r, "r"))
	}
	// As much as the CRD lets through.
	first := w.tls[0]
	w = worldOf(t, "t1", strings.ReplaceAll(strings.ReplaceAll(listeners(mostListeners), "port: 80", "port: 443"),
		"protocol: HTTP", "protocol: TLS, tls: {mode: Passthrough}"))
	for i := range 3000 {
		route := first.DeepCopy()
		route.Name, route.CreationTimestamp = fmt.Sprintf("r%05d", i), metav1.Unix(2e9+int64(i), 0)
		route.Spec.ParentRefs = parentRefs("l%d")
		route.Spec.Hostnames = append(hostnames(fmt.Sprintf("h%%d.l%%[1]d.r%d.x", i), mostTLSHostnames-1), "*.x")
		w.tls = append(w.tls, route)
	}
	r := resolve(w.view())
	counts := map[string]int{}
	for _, parents := range r.out.TLSRoutes {
		counts[conditionsOf(parents[0].Conditions)]++
	}
	if r.spent < mostSteps || r.spent > 2*mostSteps || counts[""] == 0 ||
		counts["Accepted=False/TooManyRoutes"] == 0 || len(r.out.Rules) > mostRules {
		t.Errorf("%d steps were done, and the routes are %v", r.spent, counts)
	}
	for _, wrong := range w.wrong(r.out) {
		t.Error(wrong)
	}
}
