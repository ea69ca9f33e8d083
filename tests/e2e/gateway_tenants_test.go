package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Tenants of the tests of Gateways. No host and no condition of a test has the name of one in it.
const gatewayRed, gatewayBlue, gatewayOdd = "gw-red", "gw-blue", "gw-odd"

func (g *gatewayTest) testTenants(t *testing.T) {
	red, blue := g.c.makeTenant(t, gatewayRed), g.c.makeTenant(t, gatewayBlue)
	for pod, c := range map[string]*cluster{"red": red, "blue": blue} {
		c.runWeb(t, pod)
		c.applyGateway(t, "default", edgeGateway)
		c.waitGateway(t, "default", "edge", g.near, g.far)
	}
	t.Run("a host that is taken", func(t *testing.T) { g.testTakenRoute(t, red, blue) })
	t.Run("TLSRoutes", func(t *testing.T) { g.testTakenTLSRoute(t, red, blue) })
	t.Run("no host", func(t *testing.T) {
		for name, hostnames := range map[string]string{"any": "[]", "wild": "['*.wild.example.com']"} {
			red.applyGateway(t, "default", route(name, hostnames, toService("web")))
			red.waitRouteRefusal(t, name, "HostNotAllowed", "")
		}
		for _, host := range []string{"", "nobody.example.com", "a.wild.example.com"} {
			g.always(t, host, "404", ofStatus(http.StatusNotFound))
		}
	})
	t.Run("Ingresses beside routes", func(t *testing.T) { g.testIngressBesideRoute(t, red, blue) })
	t.Run("another space", func(t *testing.T) { g.testOtherSpace(t, red) })
	t.Run("a CRD of a tenant", func(t *testing.T) { g.testOwnCRD(t, red) })
}

// waitRouteRefusal waits until a route is not accepted for a reason, with a message that has a part in it. None of
// its conditions names another space.
func (c *cluster) waitRouteRefusal(t *testing.T, name, reason, part string) {
	t.Helper()
	c.waitKindRefusal(t, "HTTPRoute", name, reason, part)
}

// waitKindRefusal is waitRouteRefusal of a route of some kind.
func (c *cluster) waitKindRefusal(t *testing.T, kind, name, reason, part string) {
	t.Helper()
	c.waitCondition(t, "default", kind, name, "Accepted=False "+reason, part)
	status, err := c.gatewayStatus(t.Context(), t, "default", kind, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range status.conditions() {
		for _, secret := range []string{gatewayRed, gatewayBlue, gatewayOdd, "system"} {
			if strings.Contains(is.Message, secret) {
				t.Errorf("a condition says who has the host: %+v", is)
			}
		}
	}
}

// testTakenRoute: whoever asked first has a host, and keeps it.
func (g *gatewayTest) testTakenRoute(t *testing.T, red, blue *cluster) {
	const host = "shop.example.com"
	red.applyGateway(t, "default", route("shop", "["+host+"]", toService("web")))
	red.waitRoute(t, "default", "shop")
	g.waitPods(t, host, "red")
	blue.applyGateway(t, "default", route("take", "["+host+"]", toService("web")))
	blue.waitRouteRefusal(t, "take", "HostTaken", host)
	g.always(t, host, "pod red", ofPod("red"))
	// The system's are nobody else's.
	red.applyGateway(t, "default", route("system", "[route.example.com]", toService("web")))
	red.waitRouteRefusal(t, "system", "HostTaken", "route.example.com")
	g.waitBoth(t, "route.example.com")
	red.deleteGateway(t, "default", "HTTPRoute", "shop")
	g.waitPods(t, host, "blue")
	blue.waitRoute(t, "default", "take")
	g.always(t, host, "pod blue", ofPod("blue"))
}

// testIngressBesideRoute: a host of an Ingress of one tenant is no host of another's route, and the other way round.
func (g *gatewayTest) testIngressBesideRoute(t *testing.T, red, blue *cluster) {
	const ofIngress, ofRoute = "first.example.com", "second.example.com"
	red.createIngress(t, "default", ingressRule("first", ofIngress, "web"))
	g.waitPods(t, ofIngress, "red")
	blue.applyGateway(t, "default", route("first", "["+ofIngress+"]", toService("web")))
	blue.waitRouteRefusal(t, "first", "HostTaken", ofIngress)
	g.always(t, ofIngress, "pod red", ofPod("red"))

	blue.applyGateway(t, "default", route("second", "["+ofRoute+"]", toService("web")))
	g.waitPods(t, ofRoute, "blue")
	red.createIngress(t, "default", ingressRule("second", ofRoute, "web"))
	red.waitIngressEvent(t, "default", "second", "HostTaken", ofRoute)
	g.always(t, ofRoute, "pod blue", ofPod("blue"))

	red.deleteIngress(t, "default", "first")
	blue.deleteGateway(t, "default", "HTTPRoute", "second")
	g.waitPods(t, ofIngress, "blue")
	g.waitPods(t, ofRoute, "red")
}

// testOtherSpace: what a route of a tenant names is of its own space, however it is written.
func (g *gatewayTest) testOtherSpace(t *testing.T, red *cluster) {
	const host = "reach.example.com"
	red.applyGateway(t, "default", fmt.Sprintf(`{kind: HTTPRoute, metadata: {name: reach}, spec: {
  parentRefs: [{name: edge}], hostnames: [%s], rules: [{backendRefs: [{name: near, namespace: %s, port: 80}]}]}}`,
		host, g.ns))
	red.waitCondition(t, "default", "HTTPRoute", "reach", "ResolvedRefs=False", "")
	g.waitStatuses(t, host, http.StatusInternalServerError)
	// A Gateway of the system is none of the tenant's.
	red.applyGateway(t, "default", fmt.Sprintf(`{kind: HTTPRoute, metadata: {name: parent}, spec: {
  parentRefs: [{name: edge, namespace: %s}], hostnames: [parent.example.com],
  rules: [{backendRefs: [{name: web, port: 80}]}]}}`, g.ns))
	red.applyGateway(t, "default", route("own", "[own.example.com]", toService("web")))
	g.waitPods(t, "own.example.com", "red")
	g.always(t, "parent.example.com", "404", ofStatus(http.StatusNotFound))
}

// oddCRD is a CRD by the name of one of the Gateway API, with a schema of its own. Its version is what the policy
// that comes with the CRDs of the system wants of all spaces.
func oddCRD(kind, resource string) string {
	return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {
  name: %[2]s.%[3]s, annotations: {api-approved.kubernetes.io: "unapproved, a test",
    gateway.networking.k8s.io/bundle-version: v9.0.0}}, spec: {group: %[3]s, names: {kind: %[1]s,
  listKind: %[1]sList, plural: %[2]s, singular: %[4]s}, scope: Namespaced,
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object,
    properties: {spec: {type: string}, status: {type: string}}}}}]}}
`, kind, resource, gatewayGroup, strings.ToLower(kind))
}

// testOwnCRD: a tenant that has kinds of its own by these names disturbs nobody.
func (g *gatewayTest) testOwnCRD(t *testing.T, red *cluster) {
	odd := g.c.makeTenant(t, gatewayOdd)
	const file = "/run/odd.yaml"
	crds := oddCRD("HTTPRoute", "httproutes") + "---\n" + oddCRD("Gateway", "gateways")
	if err := odd.host.WriteFile(file, crds); err != nil {
		t.Fatal(err)
	}
	odd.mustKubectl(t, "apply --server-side -f "+file)
	for n := range 20 {
		for _, kind := range []string{"HTTPRoute", "Gateway"} {
			odd.applyGateway(t, "default", fmt.Sprintf("{kind: %s, metadata: {name: odd-%d}, spec: %q, status: %q}",
				kind, n, strings.Repeat("x", n), "none"))
		}
	}
	const before, after = "before.example.com", "behind.example.com"
	red.applyGateway(t, "default", route("change", "["+before+"]", toService("web")))
	g.waitPods(t, before, "red")
	red.applyGateway(t, "default", route("change", "["+after+"]", toService("web")))
	g.waitPods(t, after, "red")
	g.waitStatuses(t, before, http.StatusNotFound)
	g.c.applyGateway(t, g.ns, route("late", "[late.example.com]", toService("web")))
	g.waitBoth(t, "late.example.com")
	// Ingresses of the tenant itself go on.
	odd.runWeb(t, "odd")
	odd.createIngress(t, "default", ingressRule("odd", "odd.example.com", "web"))
	g.waitPods(t, "odd.example.com", "odd")
	for _, kind := range []string{"HTTPRoute", "Gateway"} {
		o, err := odd.gatewayObjects(t, "default", kind).Get(t.Context(), "odd-3", metav1.GetOptions{})
		if err != nil || o.Object["spec"] != "xxx" || o.Object["status"] != "none" {
			t.Errorf("an object of the tenant's own kind is %+v (%v)", o, err)
		}
	}
}

// testChanges changes a route that is asked for, and others, and no request fails.
func (g *gatewayTest) testChanges(t *testing.T) {
	const host, changes = "steady.example.com", 100
	g.c.applyGateway(t, g.ns, route("steady", "["+host+"]", toService("web")))
	g.waitBoth(t, host)
	end := g.load(t, g.far, host)
	routes := g.c.gatewayObjects(t, g.ns, "HTTPRoute")
	var errs []error
	for n := range changes {
		weights := fmt.Appendf(nil, `{"spec":{"rules":[{"backendRefs":[{"name":"near","port":80,"weight":%d},`+
			`{"name":"far","port":80,"weight":%d}]}]}}`, n%3, 1+n%2)
		_, err := routes.Patch(t.Context(), "steady", types.MergePatchType, weights, metav1.PatchOptions{})
		errs = append(errs, err)
		name := fmt.Sprintf("other-%d", n)
		_, err = routes.Create(t.Context(), gatewayObject(t, route(name, "["+name+".example.com]", toService("web"))),
			metav1.CreateOptions{})
		errs = append(errs, err)
		if n > 0 {
			errs = append(errs, routes.Delete(t.Context(), fmt.Sprintf("other-%d", n-1), metav1.DeleteOptions{}))
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	// What was changed last is served before the load ends.
	g.waitPods(t, fmt.Sprintf("other-%d.example.com", changes-1), "near")
	if pods := end(); len(pods) != 2 {
		t.Errorf("the requests went to %v", pods)
	}
}

// testDeletedCRDs: without its CRDs the Gateway API serves nothing, and Ingresses go on.
func (g *gatewayTest) testDeletedCRDs(t *testing.T) {
	const ofIngress, ofRoute = "ingress.example.com", "again.example.com"
	serve := func() {
		g.c.applyGateway(t, g.ns, route("again", "["+ofRoute+"]", toService("web")))
		g.waitBoth(t, ofRoute)
	}
	g.c.createIngress(t, g.ns, ingressRule("beside", ofIngress, "web"))
	g.waitBoth(t, ofIngress)
	serve()
	g.c.deleteGatewayAPI(t)
	g.waitStatuses(t, ofRoute, http.StatusNotFound)
	g.waitStatuses(t, "own.example.com", http.StatusNotFound) // a tenant's
	g.c.createIngress(t, g.ns, ingressRule("meanwhile", "meanwhile.example.com", "web"))
	g.waitBoth(t, "meanwhile.example.com")
	g.waitBoth(t, ofIngress)
	g.c.waitIngressAddresses(t, g.ns, "beside", g.near, g.far)

	g.c.installGatewayAPI(t)
	g.c.applyGateway(t, g.ns, edgeGateway)
	g.c.waitGateway(t, g.ns, "edge", g.near, g.far)
	serve()
	g.c.waitRoute(t, g.ns, "again")
	g.waitBoth(t, ofIngress)
}
