package gateway

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// many are copies of a route, each younger than the one before.
func (w *world) many(n int, change func(i int, route *gatewayv1.HTTPRoute)) {
	first := w.routes[0]
	w.routes = nil
	for i := range n {
		route := first.DeepCopy()
		route.Name = fmt.Sprintf("r%05d", i)
		route.CreationTimestamp = metav1.Unix(2e9+int64(i), 0)
		if change != nil {
			change(i, route)
		}
		w.routes = append(w.routes, route)
	}
}

// accepted counts routes by the reason of their condition.
func (r *Result) accepted() map[string]int {
	out := map[string]int{}
	for _, parents := range r.Routes {
		for _, c := range parents[0].Conditions {
			if c.Type == "Accepted" {
				out[c.Reason]++
			}
		}
	}
	return out
}

func hostnames(format string, n int) (out []gatewayv1.Hostname) {
	for i := range n {
		out = append(out, gatewayv1.Hostname(fmt.Sprintf(format, i)))
	}
	return out
}

func listeners(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("{name: l%d, port: 80, protocol: HTTP, hostname: l%d.x}", i, i))
	}
	return gwOf(out...)
}

func TestListenersBeyondTheBound(t *testing.T) {
	w := worldOf(t, "t1", listeners(mostListeners+1), routeYAML("hostnames: [l63.x, l64.x], "+toWeb))
	r := w.resolve(t)
	status := r.Gateways[w.name("gw")]
	if len(status.Listeners) != mostListeners || conditionsOf(status.Conditions) != "Accepted=True/ListenersNotValid" {
		t.Errorf("%d listeners, %q", len(status.Listeners), conditionsOf(status.Conditions))
	}
	if len(r.Rules) != 1 || r.Rules[0].Host != "l63.x" {
		t.Errorf("the rules are %q", r.rulesOf())
	}
}

// Who has too many rules keeps those of the older routes, and the others are told.
func TestTooManyRules(t *testing.T) {
	matches := strings.Repeat("{path: {value: /a}}, ", 50)
	w := worldOf(t, "t1", gw, routeYAML("rules: [{matches: ["+matches+"]}, {matches: ["+matches+"]}]"))
	const each = 16 * 100
	w.many(20, func(i int, route *gatewayv1.HTTPRoute) {
		route.Spec.Hostnames = hostnames(fmt.Sprintf("h%%d.r%d.x", i), 16)
	})
	r := w.resolve(t)
	if got := r.accepted(); got["Accepted"] != mostRules/each || got[reasonBounds] != 20-mostRules/each {
		t.Errorf("the routes are %v", got)
	}
	if len(r.Rules) != mostRules/each*each || len(w.hosts) != mostRules/each*16 {
		t.Errorf("%d rules, asked for %d hosts", len(r.Rules), len(w.hosts))
	}
	if last := r.Rules[len(r.Rules)-1].Route.Name; last != fmt.Sprintf("r%05d", mostRules/each-1) {
		t.Errorf("the last rule is of %s", last)
	}
}

func TestTooManyBytes(t *testing.T) {
	long := strings.Repeat("a", 4000)
	w := worldOf(t, "t1", gw, routeYAML("rules: [{matches: [{headers: [{name: a, value: "+long+"}]}], filters: ["+
		"{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: a, value: "+long+"}]}}]}]"))
	w.many(100, func(i int, route *gatewayv1.HTTPRoute) {
		route.Spec.Hostnames = hostnames(fmt.Sprintf("h%%d.r%d.x", i), 16)
	})
	r := w.resolve(t)
	bytes := 0
	for i := range r.Rules {
		bytes += sizeOf(&r.Rules[i].Path, r.Rules[i].To)
	}
	got := r.accepted()
	if bytes > mostBytes || got["Accepted"] < 50 || got["Accepted"] > 80 || got[reasonBounds] != 100-got["Accepted"] {
		t.Errorf("%d bytes, the routes are %v", bytes, got)
	}
}

func TestTooManyHosts(t *testing.T) {
	w := worldOf(t, "t1", gw, routeYAML(toWeb))
	w.many(mostHosts/16+10, func(i int, route *gatewayv1.HTTPRoute) {
		route.Spec.Hostnames = hostnames(fmt.Sprintf("h%%d.r%d.x", i), 16)
	})
	view := w.view()
	asked := 0
	view.Host = func(string) (string, string) {
		asked++
		return "HostTaken", "no"
	}
	r := Resolve(view)
	if got := r.accepted(); asked != mostHosts || got["HostTaken"] != mostHosts/16 ||
		got[reasonBounds] != 10 {
		t.Errorf("asked for %d hosts, the routes are %v", asked, got)
	}
}

// The work of a space is bounded, and what is younger is left out.
func TestSteps(t *testing.T) {
	for name, document := range map[string]string{
		"comparisons": routeYAML("hostnames: [" + strings.Repeat("a.b.c.d.e.f.g, ", 16) + "], " + toWeb),
		"no match":    routeYAML("hostnames: [" + strings.Repeat("a.b.c.d.e.f.g, ", 15) + "l1.x], " + toWeb),
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", listeners(64), document)
			w.many(2500, func(_ int, route *gatewayv1.HTTPRoute) {
				section, port := gatewayv1.SectionName("none"), gatewayv1.PortNumber(80)
				refs := &route.Spec.ParentRefs
				*refs = append(*refs, gatewayv1.ParentReference{Name: "gw", SectionName: &section},
					gatewayv1.ParentReference{Name: "gw", Port: &port})
			})
			r := resolve(w.view())
			// The last step may be a large one; what is left out takes none.
			if r.spent < mostSteps || r.spent > mostSteps+mostRules {
				t.Errorf("%d steps were done", r.spent)
			}
			got := r.out.accepted()
			if got[reasonBounds] == 0 || got[reasonBounds] == len(w.routes) || len(got) != 2 {
				t.Errorf("the routes are %v", got)
			}
			last := r.out.Routes[w.name("r02499")]
			if len(last) != 1 || conditionsOf(last[0].Conditions) != "Accepted=False/TooManyRoutes" {
				t.Errorf("the last one has %+v", last)
			}
			if wrong := w.wrong(r.out); len(wrong) > 0 {
				t.Error(wrong)
			}
		})
	}
}

// Gateways that are too many are told so, and have no rules.
func TestTooManyGateways(t *testing.T) {
	w := worldOf(t, "t1", listeners(64), "{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: last}], "+
		toWeb+"}}")
	first := w.gateways[0]
	values := make([]string, 900)
	for i := range first.Spec.Listeners {
		from := gatewayv1.NamespacesFromSelector
		first.Spec.Listeners[i].AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{
			From: &from, Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a",
				Operator: metav1.LabelSelectorOpIn, Values: values}}}}}
	}
	for i := range 40 {
		g := first.DeepCopy()
		g.Name = fmt.Sprintf("g%d", i)
		g.CreationTimestamp = metav1.Unix(2e9+int64(i), 0)
		w.gateways = append(w.gateways, g)
	}
	w.gateways[40].Name = "last"
	r := w.resolve(t)
	if got := conditionsOf(r.Gateways[w.name("last")].Conditions); got != "Accepted=False/TooManyRoutes "+
		"Programmed=False/Invalid" {
		t.Errorf("the last Gateway has %q", got)
	}
	if got := conditionsOf(r.Gateways[w.name("gw")].Conditions); got != "" {
		t.Errorf("the first Gateway has %q", got)
	}
	if got := w.parentsOf(r, "r"); got[0] != "Accepted=False/TooManyRoutes" {
		t.Errorf("the route has %q", got)
	}
}

func TestSelectorsBeyondTheBound(t *testing.T) {
	w := worldOf(t, "t1", gwOf("{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, "+
		"selector: "+
		"{matchExpressions: [{key: a, operator: In, values: ["+strings.Repeat("b,", mostSelected)+"]}]}}}}"))
	want := "Accepted=False/UnsupportedValue Programmed=False/Invalid"
	if got := conditionsOf(w.resolve(t).Gateways[w.name("gw")].Listeners[0].Conditions); got != want {
		t.Errorf("it has %q", got)
	}
}

// What is longer than a CRD of ours would let through is refused, and not cut.
func TestListsOfRoutes(t *testing.T) {
	match := "{path: {value: /a}}, "
	for name, rules := range map[string]string{
		"rules":   strings.Repeat("{}, ", mostRulesOfRoute+1),
		"matches": "{matches: [" + strings.Repeat(match, mostMatches+1) + "]}",
		"all matches": strings.Repeat("{matches: ["+strings.Repeat(match, mostMatches-10)+"]}, ", 2) + "{matches: [" +
			strings.Repeat(match, 21) + "]}",
	} {
		w := worldOf(t, "t1", gw, routeYAML("rules: ["+rules+"]"))
		r := w.resolve(t)
		if got := w.parentsOf(r, "r"); got[0] != "Accepted=False/UnsupportedValue" || len(r.Rules) > 0 {
			t.Errorf("%s: %q %q", name, got, r.rulesOf())
		}
	}
}
