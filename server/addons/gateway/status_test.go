package gateway

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// feed writes what was resolved into the objects.
func (w *world) feed(r *Result) {
	for _, g := range w.gateways {
		if status := r.Gateways[nameOf(g)]; status != nil {
			g.Status = *status.DeepCopy()
		}
	}
	for _, route := range w.routes {
		route.Status.Parents = fed(route.Status.Parents, r.Routes[nameOf(route)])
	}
	for _, route := range w.grpc {
		route.Status.Parents = fed(route.Status.Parents, r.GRPCRoutes[nameOf(route)])
	}
	for _, route := range w.tls {
		route.Status.Parents = fed(route.Status.Parents, r.TLSRoutes[nameOf(route)])
	}
}

func fed(present, ours []gatewayv1.RouteParentStatus) (out []gatewayv1.RouteParentStatus) {
	for _, p := range present {
		if p.ControllerName != ControllerName {
			out = append(out, p)
		}
	}
	for _, p := range ours {
		out = append(out, *p.DeepCopy())
	}
	return out
}

func timesOf(list []metav1.Condition) (out []string) {
	for _, c := range list {
		out = append(out, fmt.Sprintf("%s %s %d", c.Type, c.Status, c.LastTransitionTime.Unix()))
	}
	return out
}

// A condition keeps its time while its status is the same, whatever else changes.
func TestTimesOfTransitions(t *testing.T) {
	w := worldOf(t, "t1", gw, routeYAML("rules: [{backendRefs: [{name: web, port: 80}, {name: gone, port: 80}]}]"))
	check := func(object string, got []metav1.Condition, want ...string) {
		t.Helper()
		if times := timesOf(got); !slices.Equal(times, want) {
			t.Errorf("%s: got %q, want %q", object, times, want)
		}
	}
	r := w.resolve(t)
	check("r", r.Routes[w.name("r")][0].Conditions, "Accepted True 2000000000", "ResolvedRefs False 2000000000")
	w.feed(r)
	w.now = w.now.Add(100 * time.Second)
	w.routes[0].Generation = 8
	w.routes[0].Spec.Rules[0].BackendRefs[1].Name = "api" // another message: no such port
	w.addresses = nil
	r = w.resolve(t)
	check("r", r.Routes[w.name("r")][0].Conditions, "Accepted True 2000000000", "ResolvedRefs False 2000000000")
	if c := r.Routes[w.name("r")][0].Conditions[1]; c.ObservedGeneration != 8 || c.Message == "" {
		t.Errorf("it is %+v", c)
	}
	check("gw", r.Gateways[w.name("gw")].Conditions, "Accepted True 2000000000", "Programmed False 2000000100")
	check("listener", r.Gateways[w.name("gw")].Listeners[0].Conditions, "Accepted True 2000000000",
		"Programmed False 2000000100", "ResolvedRefs True 2000000000", "Conflicted False 2000000000")
	w.feed(r)
	w.now = w.now.Add(100 * time.Second)
	w.routes[0].Spec.Rules[0].BackendRefs = w.routes[0].Spec.Rules[0].BackendRefs[:1]
	check("r", w.resolve(t).Routes[w.name("r")][0].Conditions, "Accepted True 2000000000",
		"ResolvedRefs True 2000000200")
}

func TestConditionsThatEnd(t *testing.T) {
	w := worldOf(t, "t1", gwOf(anyHTTPS,
		"{name: a, port: 443, protocol: HTTPS, hostname: a.x, tls: {certificateRefs: "+
			"[{name: cert}]}}"), routeYAML("rules: [{}, {retry: {attempts: 1}}]"))
	r := w.resolve(t)
	if got := w.parentsOf(r, "r")[0]; got != "PartiallyInvalid=True/UnsupportedValue" {
		t.Fatalf("it has %q", got)
	}
	w.feed(r)
	w.routes[0].Spec.Rules[1].Retry = nil
	w.gateways[0].Spec.Listeners = w.gateways[0].Spec.Listeners[:1]
	r = w.resolve(t)
	if got := w.parentsOf(r, "r")[0]; got != "" {
		t.Errorf("the route has %q", got)
	}
	if got := listenersText(r.Gateways[w.name("gw")]); !slices.Equal(got, []string{"https 2 1"}) {
		t.Errorf("the listeners are %q", got)
	}
}

// What others wrote stays: their conditions, and their entries, which are none of ours.
func TestConditionsOfOthers(t *testing.T) {
	other := func(i int) metav1.Condition {
		return metav1.Condition{Type: fmt.Sprintf("x.y/%d", i), Status: metav1.ConditionTrue, Reason: "R",
			Message:            "m",
			LastTransitionTime: metav1.Unix(1, 0)}
	}
	w := worldOf(t, "t1", gw, routeYAML(toWeb))
	sets := int32(3)
	w.gateways[0].Status.AttachedListenerSets = &sets
	for i := range 10 {
		w.gateways[0].Status.Conditions = append(w.gateways[0].Status.Conditions, other(i), other(i))
	}
	w.gateways[0].Status.Conditions = append(w.gateways[0].Status.Conditions, metav1.Condition{Type: "Accepted",
		Status: metav1.ConditionTrue, Reason: "Old", LastTransitionTime: metav1.Unix(2, 0)})
	ref := w.routes[0].Spec.ParentRefs[0]
	w.routes[0].Status.Parents = []gatewayv1.RouteParentStatus{
		{ParentRef: ref, ControllerName: "x.y/z", Conditions: []metav1.Condition{other(1)}},
		{ParentRef: ref, ControllerName: ControllerName, Conditions: []metav1.Condition{other(2)}},
	}
	r := w.resolve(t)
	status := r.Gateways[w.name("gw")]
	want := []string{"x.y/0 True 1", "x.y/1 True 1", "x.y/2 True 1", "x.y/3 True 1", "x.y/4 True 1", "x.y/5 True 1",
		"Accepted True 2", "Programmed True 2000000000"}
	if got := timesOf(status.Conditions); !slices.Equal(got, want) || status.AttachedListenerSets != &sets {
		t.Errorf("got %q, want %q", got, want)
	}
	parents := r.Routes[w.name("r")]
	want = []string{"x.y/2 True 1", "Accepted True 2000000000", "ResolvedRefs True 2000000000"}
	if len(parents) != 1 || !slices.Equal(timesOf(parents[0].Conditions), want) {
		t.Errorf("the route has %+v", parents)
	}
	if w.gateways[0].Status.Conditions[20].Reason != "Old" {
		t.Error("the object of the View was changed")
	}
}

// A View without a time is resolved as well, without that of the clock.
func TestNoTime(t *testing.T) {
	w := worldOf(t, "t1", gw)
	w.now = time.Time{}
	if got := w.resolve(t).Gateways[w.name("gw")].Conditions[0].LastTransitionTime.Unix(); got != 0 {
		t.Errorf("the time is %d", got)
	}
}
