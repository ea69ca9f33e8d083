package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// TestGateway: requests for Gateways and their routes on two nodes, seen from a machine that is neither.
func TestGateway(t *testing.T) {
	t.Parallel()
	g := &gatewayTest{newIngressTest(t, "gateway")}
	g.c.installGatewayAPI(t)
	g.c.shareGatewayAPI(t)
	g.c.applyGateway(t, g.ns, edgeGateway)
	g.c.waitGateway(t, g.ns, "edge", g.near, g.far)
	t.Run("of the system", g.testSystem)
	t.Run("TLS", g.testTLS)
	t.Run("TLSRoutes", g.testTLSRoutes)
	t.Run("grants", g.testGrants)
	t.Run("tenants", g.testTenants)
	t.Run("changes under load", g.testChanges)
	t.Run("the CRDs go", g.testDeletedCRDs)
}

func (g *gatewayTest) testSystem(t *testing.T) {
	// kubectl shows one of the addresses.
	if out := g.c.mustKubectl(t, "get gateway -n "+g.ns+" edge"); !strings.Contains(out, "True") ||
		!strings.Contains(out, g.near) && !strings.Contains(out, g.far) {
		t.Errorf("kubectl get gateway says:\n%s", out)
	}
	const host = "route.example.com"
	g.c.applyGateway(t, g.ns, route("web", "["+host+"]", toService("web")))
	g.c.waitRoute(t, g.ns, "web")
	g.waitBoth(t, host) // with the first route nodes begin to listen
	g.always(t, "unknown.example.com", "404", ofStatus(http.StatusNotFound))
	status, err := g.c.gatewayStatus(t.Context(), t, g.ns, "Gateway", "edge")
	if err != nil || len(status.Listeners) != 1 || status.Listeners[0].AttachedRoutes != 1 {
		t.Errorf("with one route the Gateway says %+v (%v)", status.Listeners, err)
	}
	t.Run("matches", g.testMatches)
	t.Run("weights", g.testWeights)
	t.Run("filters", g.testFilters)
	t.Run("no Service", func(t *testing.T) {
		const host = "nothing.example.com"
		g.c.applyGateway(t, g.ns, route("nothing", "["+host+"]", toService("nothing")))
		g.c.waitCondition(t, g.ns, "HTTPRoute", "nothing", "ResolvedRefs=False BackendNotFound", "nothing")
		g.waitStatuses(t, host, http.StatusInternalServerError)
	})
	t.Run("another class", func(t *testing.T) {
		g.c.applyGateway(t, g.ns, strings.NewReplacer("name: edge", "name: other", "gatewayClassName: a4s",
			"gatewayClassName: somebody").Replace(edgeGateway))
		g.c.applyGateway(t, g.ns, strings.ReplaceAll(route("other", "[other.example.com]", toService("web")),
			"parentRefs: [{name: edge}]", "parentRefs: [{name: other}]"))
		// What is made after it is served.
		g.c.applyGateway(t, g.ns, route("after", "[after.example.com]", toService("web")))
		g.waitBoth(t, "after.example.com")
		g.always(t, "other.example.com", "404", ofStatus(http.StatusNotFound))
		status, err := g.c.gatewayStatus(t.Context(), t, g.ns, "HTTPRoute", "other")
		if err != nil || len(status.conditions()) > 0 {
			t.Errorf("the route of another controller has %+v (%v)", status, err)
		}
	})
}

func (g *gatewayTest) testMatches(t *testing.T) {
	const host = "match.example.com"
	g.c.applyGateway(t, g.ns, route("match", "["+host+"]", `[
  {matches: [{headers: [{name: X-To, value: far}]},
             {queryParams: [{name: to, value: far}]},
             {method: POST},
             {path: {type: Exact, value: /request/exact}},
             {path: {type: PathPrefix, value: /request/far}}], backendRefs: [{name: far, port: 80}]},
  {backendRefs: [{name: near, port: 80}]}]`))
	g.waitPods(t, host, "near")
	for _, c := range []struct {
		method, path string
		headers      []string
		pod          string
	}{
		{"GET", "/request/", nil, "near"},
		{"GET", "/request/", []string{"X-To", "far"}, "far"},
		{"GET", "/request/", []string{"x-to", "far"}, "far"},
		{"GET", "/request/", []string{"X-To", "Far"}, "near"},
		{"GET", "/request/?to=far", nil, "far"},
		{"GET", "/request/?a=b&to=%66ar", nil, "far"},
		{"GET", "/request/?to=near&to=far", nil, "near"},
		{"POST", "/request/", nil, "far"},
		{"PUT", "/request/", nil, "near"},
		{"GET", "/request/exact", nil, "far"},
		{"GET", "/request/exact/", nil, "near"},
		{"GET", "/request/far/a", nil, "far"},
		{"GET", "/request/farther", nil, "near"},
	} {
		g.each(t, c.method, host, c.path, c.headers, isPod(c.pod))
	}
}

// testWeights: of weights 1 and 0 all requests go to one, and all to the other when these are changed.
func (g *gatewayTest) testWeights(t *testing.T) {
	const host = "weight.example.com"
	split := func(near, far int) {
		g.c.applyGateway(t, g.ns, route("weight", "["+host+"]", fmt.Sprintf(
			"[{backendRefs: [{name: near, port: 80, weight: %d}, {name: far, port: 80, weight: %d}]}]", near, far)))
	}
	split(1, 0)
	g.waitPods(t, host, "near")
	g.always(t, host, "pod near", ofPod("near"))
	split(0, 1)
	g.waitPods(t, host, "far")
	g.always(t, host, "pod far", ofPod("far"))
	split(1, 1)
	g.waitBoth(t, host)
}

func (g *gatewayTest) testFilters(t *testing.T) {
	const host = "filter.example.com"
	g.c.applyGateway(t, g.ns, route("filter", "["+host+"]", `[
  {matches: [{path: {value: /secure}}],
   filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}]},
  {matches: [{path: {value: /app}}], backendRefs: [{name: near, port: 80}],
   filters: [{type: URLRewrite, urlRewrite: {hostname: inside.example.com,
     path: {type: ReplacePrefixMatch, replacePrefixMatch: /request}}}]},
  {backendRefs: [{name: near, port: 80}], filters: [
   {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: new}],
     add: [{name: X-Add, value: more}], remove: [X-Remove]}},
   {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: Content-Language, value: en}],
     add: [{name: X-Answer, value: given}]}}]}]`))
	g.waitPods(t, host, "near")
	g.each(t, "GET", host, "/secure/a?b=c", nil, func(a answer) error {
		if want := "https://" + host + "/secure/a?b=c"; a.status != http.StatusMovedPermanently ||
			a.said.Get("Location") != want {
			return fmt.Errorf("want 301 with %s", want)
		}
		return nil
	})
	g.each(t, "GET", host, "/app/a%2Fb", nil, func(a answer) error {
		// Of its path the pod says what it means, not how it was written.
		if a.Path != "/request/a/b" || a.Host != "inside.example.com" {
			return errors.New("want path /request/a/b of inside.example.com at the pod")
		}
		return isPod("near")(a)
	})
	g.each(t, "GET", host, "/request/", []string{"X-Set", "old", "X-Add", "one", "X-Remove", "gone", "X-Keep", "kept"},
		func(a answer) error {
			for name, want := range map[string][]string{"X-Set": {"new"}, "X-Add": {"one", "more"},
				"X-Remove": nil, "X-Keep": {"kept"}} {
				if got := a.Header[name]; !slices.Equal(got, want) {
					return fmt.Errorf("the pod gets %s %q, want %q", name, got, want)
				}
			}
			for name, want := range map[string]string{"Content-Language": "en", "X-Answer": "given",
				"Content-Type": "application/json"} {
				if got := a.said.Get(name); got != want {
					return fmt.Errorf("the client gets %s %q, want %q", name, got, want)
				}
			}
			return isPod("near")(a)
		})
}

// testTLS: a listener shows the certificate of its Secret to who asks for its host, and is of HTTPS alone.
func (g *gatewayTest) testTLS(t *testing.T) {
	const host, only = "secure.example.com", "only.example.com"
	g.c.applyGateway(t, g.ns, fmt.Sprintf(`{kind: Gateway, metadata: {name: tls}, spec: {gatewayClassName: a4s,
  listeners: [{name: http, port: 80, protocol: HTTP},
    {name: one, port: 443, protocol: HTTPS, hostname: %s, tls: {certificateRefs: [{name: one}]}},
    {name: two, port: 443, protocol: HTTPS, hostname: %s, tls: {certificateRefs: [{name: two}]}}]}}`, host, only))
	hosts.Until(t, soon, "the listener misses its certificate", func(ctx context.Context) error {
		status, err := g.c.gatewayStatus(ctx, t, g.ns, "Gateway", "tls")
		if err != nil {
			return err
		}
		for _, l := range status.Listeners {
			for _, c := range l.Conditions {
				if l.Name == "one" && c.Type == "ResolvedRefs" && c.Reason == "InvalidCertificateRef" {
					return nil
				}
			}
		}
		return fmt.Errorf("the listeners are %+v", status.Listeners)
	})
	first := certificateSecret(t, "one", host, "of one")
	for _, secret := range []string{"one", "two"} {
		made := first
		if secret == "two" {
			made = certificateSecret(t, "two", only, "of two")
		}
		if _, err := g.c.client.CoreV1().Secrets(g.ns).Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	g.c.waitGateway(t, g.ns, "tls", g.near, g.far)
	both := strings.Replace(route("secure", "["+host+"]", toService("near")), "{name: edge}", "{name: tls}", 1)
	g.c.applyGateway(t, g.ns, both)
	secure := strings.Replace(route("only", "["+only+"]", toService("near")), "{name: edge}",
		"{name: tls, sectionName: two}", 1)
	g.c.applyGateway(t, g.ns, secure)
	g.c.waitRoute(t, g.ns, "secure")
	g.c.waitRoute(t, g.ns, "only")
	for _, ip := range []string{g.near, g.far} {
		g.waitCertificate(t, ip, host, "of one")
		g.waitCertificate(t, ip, only, "of two")
		g.waitCertificate(t, ip, "unknown.example.com", nobodysCertificate)
		g.waitPodOf(t, ip, host, "near")
		g.waitStatus(t, ip, only, "/request/", http.StatusNotFound)
		hosts.Until(t, soon, "a request by HTTPS is answered", func(ctx context.Context) error {
			a, err := g.secureGet(ctx, ip, host, first.Data["tls.crt"])
			if err == nil && (a.Pod != "near" || a.Header.Get("X-Forwarded-Proto") != "https") {
				err = fmt.Errorf("%v with %v", a, a.Header)
			}
			return err
		})
	}
	renewed := certificateSecret(t, "one", host, "of one again")
	if _, err := g.c.client.CoreV1().Secrets(g.ns).Update(t.Context(), renewed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, ip := range []string{g.near, g.far} {
		g.waitCertificate(t, ip, host, "of one again")
		g.waitCertificate(t, ip, only, "of two")
	}
}

// testGrants: a route reaches a Service of another namespace as long as a ReferenceGrant there says so.
func (g *gatewayTest) testGrants(t *testing.T) {
	const host = "grant.example.com"
	other := g.c.namespace(t)
	g.c.applyGateway(t, other, fmt.Sprintf(`{kind: HTTPRoute, metadata: {name: across}, spec: {
  parentRefs: [{name: edge, namespace: %[1]s}], hostnames: [%[2]s],
  rules: [{backendRefs: [{name: near, namespace: %[1]s, port: 80}]}]}}`, g.ns, host))
	refused := func() {
		t.Helper()
		g.c.waitCondition(t, other, "HTTPRoute", "across", "Accepted=True", "")
		g.c.waitCondition(t, other, "HTTPRoute", "across", "ResolvedRefs=False RefNotPermitted", "")
		g.waitStatuses(t, host, http.StatusInternalServerError)
	}
	refused()
	g.c.applyGateway(t, g.ns, `{kind: ReferenceGrant, metadata: {name: another}, spec: {
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: nobody}], to: [{group: "", kind: Service}]}}`)
	g.c.applyGateway(t, g.ns, fmt.Sprintf(`{kind: ReferenceGrant, metadata: {name: grant}, spec: {
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: %s}],
  to: [{group: "", kind: Service, name: near}]}}`, other))
	g.c.waitRoute(t, other, "across")
	g.waitPods(t, host, "near")
	g.c.deleteGateway(t, g.ns, "ReferenceGrant", "grant")
	refused()
}
