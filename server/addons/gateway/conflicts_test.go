package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// TestOneKindForAHost: of an HTTPRoute and a GRPCRoute for the same host of a listener, the older one has it.
func TestOneKindForAHost(t *testing.T) {
	const conflict = "Accepted=False/HostnameConflict"
	one := gwOf("{name: http, port: 80, protocol: HTTP}")
	for name, c := range map[string]struct {
		gateways, http, grpc string // what they say besides
		want                 string
	}{
		"the same host":          {one, "hostnames: [a.x]", "hostnames: [b.x, a.x]", conflict},
		"others":                 {one, "hostnames: [a.x, '*.c.x']", "hostnames: [b.x, c.x, '*.d.x']", ""},
		"a wildcard above":       {one, "hostnames: ['*.x']", "hostnames: [a.b.x]", conflict},
		"a wildcard below":       {one, "hostnames: [a.b.x]", "hostnames: ['*.x']", conflict},
		"two wildcards":          {one, "hostnames: ['*.b.x']", "hostnames: ['*.x']", conflict},
		"two wildcards, swapped": {one, "hostnames: ['*.x']", "hostnames: ['*.b.x']", conflict},
		"the wildcard's parent":  {one, "hostnames: [b.x]", "hostnames: ['*.b.x']", ""},
		"every host":             {one, "hostnames: [a.x]", "", conflict},
		"every host before":      {one, "", "hostnames: [a.x]", conflict},
		"of a listener": {gwOf("{name: http, port: 80, protocol: HTTP, hostname: a.x}"), "hostnames: [a.x, b.x]",
			"hostnames: ['*.x']", conflict},
		"not of a listener": {gwOf("{name: http, port: 80, protocol: HTTP, hostname: '*.y'}"),
			"hostnames: [b.x, a.y]", "hostnames: ['*.x', b.y]", ""},
		"of one of two listeners": {gwOf("{name: a, port: 80, protocol: HTTP, hostname: a.x}, " +
			"{name: b, port: 80, protocol: HTTP, hostname: b.x}"), "hostnames: [b.x]", "", conflict},
		"of other Gateways": {one + "\n---\n" + strings.ReplaceAll(gw, "name: gw", "name: second"),
			"hostnames: [a.x], parentRefs: [{name: second}]", "hostnames: [a.x]", ""},
		"of a route that is not accepted": {one, "hostnames: [a.x], rules: [{retry: {}}]", "hostnames: [a.x]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			route := func(kind, spec string) string {
				refs := "parentRefs: [{name: gw}], "
				if strings.Contains(spec, "parentRefs") {
					refs = ""
				}
				return "{kind: " + kind + ", metadata: {name: r}, spec: {" + refs + spec + "}}"
			}
			w := worldOf(t, "t1", c.gateways, route("HTTPRoute", c.http), route("GRPCRoute", c.grpc))
			r := w.resolve(t)
			if got := w.grpcParents(r, "r"); !slices.Equal(got, []string{c.want}) {
				t.Errorf("the younger one is told %q", got)
			}
			if got := w.parentsOf(r, "r"); slices.Contains(got, conflict) {
				t.Errorf("the older one is told %q", got)
			}
			// By age, and not by kind.
			w = worldOf(t, "t1", c.gateways, route("HTTPRoute", c.http), route("GRPCRoute", c.grpc))
			w.grpc[0].CreationTimestamp.Time = w.routes[0].CreationTimestamp.Add(-1e9)
			r = w.resolve(t)
			if got := w.grpcParents(r, "r"); !slices.Equal(got, []string{""}) {
				t.Errorf("it is the older one, and told %q", got)
			}
			if got := w.parentsOf(r, "r"); c.want != "" && !slices.Equal(got, []string{conflict}) {
				t.Errorf("it is the younger one, and told %q", got)
			}
			for i := range r.Rules {
				if c.want != "" && r.Rules[i].Kind != KindGRPC {
					t.Errorf("there is %q", r.rulesOf()[i])
				}
			}
		})
	}
}

// What is counted is what is attached: one that is refused is not.
func TestARefusedKindIsNotAttached(t *testing.T) {
	w := worldOf(t, "t1", gw, routeYAML("hostnames: [a.x]"), grpcYAML("hostnames: [a.x]"))
	r := w.resolve(t)
	if got := r.Gateways[w.name("gw")].Listeners[0].AttachedRoutes; got != 1 {
		t.Errorf("%d are attached", got)
	}
	message := messageOf(r.GRPCRoutes[w.name("r")][0].Conditions, "Accepted")
	if want := `listener http has an older HTTPRoute for host "a.x"`; !strings.Contains(message, want) {
		t.Errorf("it is told %q", message)
	}
}

// What is taken down of hosts is paid for: each label of each host, at each listener.
func TestOccupiedHostsAreBounded(t *testing.T) {
	var all []string
	for i := range mostListeners {
		all = append(all, fmt.Sprintf("{name: l%d, port: 80, protocol: HTTP, hostname: '*.%sx'}", i,
			strings.Repeat("y.", i)))
	}
	w := worldOf(t, "t1", gwOf(all...), routeYAML(""), grpcYAML("hostnames: [other]"))
	w.many(400, func(i int, route *gatewayv1.HTTPRoute) {
		route.Spec.Hostnames = hostnames(fmt.Sprintf("h%%d.r%d.%sx", i, strings.Repeat("y.", 100)), 16)
	})
	r := resolve(w.view())
	entries := 0
	for _, l := range r.gateways[w.name("gw")].listeners {
		for _, o := range l.occupied {
			entries += len(o.hosts) + len(o.above)
		}
	}
	if r.spent < mostSteps || entries == 0 || entries > mostSteps/2 {
		t.Errorf("%d steps were done, there are %d entries", r.spent, entries)
	}
	if got := r.out.accepted(); got["Accepted"] == 0 || got[reasonBounds] == 0 {
		t.Errorf("the routes are %v", got)
	}
}
