package gateway

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// hostile is a space with as many routes as are asked for, each with as much as the CRDs let through.
func hostile(t testing.TB, routes int) *world {
	t.Helper()
	refs := strings.Repeat("{name: web, port: 80}, ", mostBackends)
	matches := strings.Repeat("{path: {value: /a}}, ", mostAllMatches/mostRulesOfRoute)
	rule := "{matches: [" + matches + "], backendRefs: [" + refs + "]}, "
	w := worldOf(t, "t1", listeners(mostListeners), routeYAML("rules: ["+strings.Repeat(rule, mostRulesOfRoute)+"]"))
	w.many(routes, func(i int, route *gatewayv1.HTTPRoute) {
		route.Spec.Hostnames = append(hostnames(fmt.Sprintf("h%%d.r%d.x", i), mostHostnames-1), "*.x")
		route.Spec.ParentRefs = parentRefs("l%d")
	})
	return w
}

// parentRefs are as many as a route can have.
func parentRefs(section string) (out []gatewayv1.ParentReference) {
	for i := range mostParents {
		name := gatewayv1.SectionName(fmt.Sprintf(section, i))
		out = append(out, gatewayv1.ParentReference{Name: "gw", SectionName: &name})
	}
	return out
}

// entryCount is how many entries all routes have.
func (r *Result) entryCount() (out int) {
	for _, parents := range r.Routes {
		out += len(parents)
	}
	for _, parents := range r.GRPCRoutes {
		out += len(parents)
	}
	return out
}

func BenchmarkHostileSpace(b *testing.B) {
	view := hostile(b, 10000).view()
	b.ReportAllocs()
	for b.Loop() {
		Resolve(view)
	}
}

// Entries take steps, so that routes cannot have many of them that take nothing else.
func TestEntriesAreBounded(t *testing.T) {
	const routes, most = 2000, 16000
	for section, gateway := range map[string]string{"l%d": listeners(mostListeners), "none%d": gw} {
		w := worldOf(t, "t1", gateway, routeYAML(toWeb))
		w.many(routes, func(_ int, route *gatewayv1.HTTPRoute) { route.Spec.ParentRefs = parentRefs(section) })
		r := w.resolve(t)
		if got := r.entryCount(); got < routes || got > routes+most {
			t.Errorf("%s: there are %d entries", section, got)
		}
		if got := len(r.Routes[w.name("r00000")]); got != mostParents {
			t.Errorf("%s: the oldest route has %d entries", section, got)
		}
	}
}

// The oldest routes of both kinds are looked at; those of other controllers do not count.
func TestTooManyRoutes(t *testing.T) {
	w := worldOf(t, "t1", gw, routeYAML(toWeb), "{kind: GRPCRoute, metadata: {name: g}, spec: {parentRefs: "+
		"[{name: gw}, {name: gw, port: 80}], hostnames: [g.x], "+toWeb+"}}")
	w.many(mostRoutes+2, func(i int, route *gatewayv1.HTTPRoute) {
		if i == 0 {
			route.Spec.ParentRefs[0].Name = "other"
			return
		}
		route.Spec.Hostnames = []gatewayv1.Hostname{"a.x"}
		route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "other"}, {Name: "gw"}, parentRefs("no%d")[0]}
	})
	young := w.grpc[0].DeepCopy()
	young.Name, young.CreationTimestamp = "young", metav1.Unix(3e9, 0)
	w.grpc = append(w.grpc, young)
	view := w.view()
	slices.Reverse(view.Routes)
	r := Resolve(view)
	if got := len(r.Routes[w.name("r00000")]); got != 0 {
		t.Errorf("the route of others has %d entries", got)
	}
	for name, entries := range map[string][]gatewayv1.RouteParentStatus{
		"g": r.GRPCRoutes[w.name("g")], "r00001": r.Routes[w.name("r00001")],
		"the last one": r.Routes[w.name(fmt.Sprintf("r%05d", mostRoutes-1))],
	} {
		if len(entries) != 2 || conditionsOf(entries[0].Conditions) != "" {
			t.Errorf("%s has %+v", name, entries)
		}
	}
	for name, entries := range map[string][]gatewayv1.RouteParentStatus{
		"young": r.GRPCRoutes[w.name("young")], "the next": r.Routes[w.name(fmt.Sprintf("r%05d", mostRoutes))],
	} {
		if len(entries) != 1 || entries[0].ParentRef.Name != "gw" || len(entries[0].Conditions) != 1 ||
			conditionsOf(entries[0].Conditions) != "Accepted=False/TooManyRoutes" {
			t.Errorf("%s has %+v", name, entries)
		}
	}
	if attached := r.Gateways[w.name("gw")].Listeners[0].AttachedRoutes; attached != mostRoutes {
		t.Errorf("%d routes are attached", attached)
	}
}

// What a space comes to does not depend on the status of its routes, or else it would be written again and again.
func TestStatusOfTooManyIsStable(t *testing.T) {
	w := hostile(t, 400)
	first := w.resolve(t)
	if n := first.accepted()[reasonBounds]; n == 0 || n == len(w.routes) {
		t.Fatalf("%d routes are left out", n)
	}
	w.feed(first)
	for _, route := range w.routes {
		for i, parent := range route.Status.Parents {
			parent.ControllerName = gatewayv1.GatewayController(fmt.Sprintf("x.y/%d", i))
			route.Status.Parents = append(route.Status.Parents, parent)
		}
	}
	w.now = w.now.Add(time.Hour)
	if again := w.resolve(t); !reflect.DeepEqual(first, again) {
		t.Error("it comes to something else once the status is written")
	}
}

// A route that is left out keeps the time of the condition, and nothing else of its entries.
func TestConditionOfWhatIsLeftOut(t *testing.T) {
	other := metav1.Condition{Type: "x.y/z", Status: metav1.ConditionTrue, Reason: "R",
		LastTransitionTime: metav1.Unix(1, 0)}
	accepted := func(status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: "Accepted", Status: status, Reason: "R", LastTransitionTime: metav1.Unix(2, 0)}
	}
	for name, c := range map[string]struct {
		present []metav1.Condition
		want    string
	}{
		"new":             {nil, "Accepted False 2000000000"},
		"was accepted":    {[]metav1.Condition{other, accepted("True")}, "Accepted False 2000000000"},
		"was refused":     {[]metav1.Condition{accepted("False"), other, accepted("True")}, "Accepted False 2"},
		"has no Accepted": {[]metav1.Condition{other}, "Accepted False 2000000000"},
		"has no time":     {[]metav1.Condition{{Type: "Accepted", Status: "False"}}, "Accepted False 2000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "t1", gw, routeYAML(toWeb))
			w.routes[0].Status.Parents = []gatewayv1.RouteParentStatus{{ControllerName: ControllerName,
				ParentRef: w.routes[0].Spec.ParentRefs[0], Conditions: c.present}}
			r := resolve(w.view())
			r.spent = mostSteps + 1
			route := r.routesByAge()[0]
			r.route(route)
			entries := r.out.Routes[route.name]
			if len(entries) != 1 || !slices.Equal(timesOf(entries[0].Conditions), []string{c.want}) {
				t.Errorf("it has %+v, want %q", entries, c.want)
			}
		})
	}
}

// The present conditions of a parent are those of the reference that is spelled alike.
func TestPresentConditionsAreOfTheirParent(t *testing.T) {
	w := worldOf(t, "t1", gw, "{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: gw}, {name: gw, "+
		"sectionName: http}, {name: gw, port: 80}, {name: gw, namespace: default, sectionName: http, port: 80}, "+
		"{name: gw, sectionName: gone}], "+toWeb+"}}")
	refs := w.routes[0].Spec.ParentRefs
	for i := range refs {
		entry := gatewayv1.RouteParentStatus{ControllerName: ControllerName, ParentRef: *refs[i].DeepCopy(),
			Conditions: []metav1.Condition{{Type: fmt.Sprintf("x.y/%d", i), LastTransitionTime: metav1.Unix(1, 0)}}}
		others := *entry.DeepCopy()
		others.ControllerName, others.Conditions[0].Type = "x.y/z", "x.y/others"
		again := *entry.DeepCopy()
		again.Conditions[0].Type = "x.y/again" // the first entry counts
		status := &w.routes[0].Status
		status.Parents = append([]gatewayv1.RouteParentStatus{others, entry}, append(status.Parents, again)...)
	}
	entries := w.resolve(t).Routes[w.name("r")]
	if len(entries) != len(refs) {
		t.Fatalf("there are %d entries", len(entries))
	}
	for i := range entries {
		if got := entries[i].Conditions[0].Type; got != fmt.Sprintf("x.y/%d", i) {
			t.Errorf("parent %d has the conditions %q", i, got)
		}
	}
}

// Listeners have entries in the status of their Gateway, and names that are long to look up.
func TestListenersTakeSteps(t *testing.T) {
	deep := strings.Repeat("a.", 100) + "x"
	var all []string
	for i := range mostListeners {
		all = append(all, fmt.Sprintf("{name: l%d, port: 443, protocol: HTTPS, hostname: l%d.%s}", i, i, deep))
	}
	got := resolve(worldOf(t, "t1", gwOf(all...)).view()).spent
	if least := mostListeners * (costOfEntry + 100); got < least {
		t.Errorf("%d steps were taken, want at least %d", got, least)
	}
}

// Filters of GRPCRoutes are copied, also those after one that is wrong.
func TestFiltersOfGRPCRoutesTakeSteps(t *testing.T) {
	filters := "filters: [" + strings.Repeat("{type: none}, ", mostFilters) + "]"
	w := worldOf(t, "t1", gw, "{kind: GRPCRoute, metadata: {name: r}, spec: {parentRefs: [{name: gw}], rules: [{"+
		filters+", backendRefs: ["+strings.Repeat("{name: web, port: 80, "+filters+"}, ", mostBackends)+"]}]}}")
	if got, least := resolve(w.view()).spent, mostFilters*(mostBackends+1); got < least {
		t.Errorf("%d steps were taken, want at least %d", got, least)
	}
}
