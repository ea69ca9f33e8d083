package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/addons/gateway"
)

// tlsGateway is one that passes connections on, for a hostname, "" for any.
func tlsGateway(key, hostname string) *gatewayv1.Gateway {
	out, mode, of := &gatewayv1.Gateway{ObjectMeta: metaOf(key)}, gatewayv1.TLSModePassthrough,
		gatewayv1.Hostname(hostname)
	out.Spec.GatewayClassName = ClassName
	out.Spec.Listeners = []gatewayv1.Listener{{Name: "tls", Port: 443, Protocol: gatewayv1.TLSProtocolType,
		Hostname: &of, TLS: &gatewayv1.ListenerTLSConfig{Mode: &mode}}}
	return out
}

// tlsRoute is one of the Gateway web of its namespace, with an age in seconds.
func tlsRoute(key string, age int, hosts ...string) *gatewayv1.TLSRoute {
	out := &gatewayv1.TLSRoute{ObjectMeta: metaOf(key)}
	out.CreationTimestamp = metav1.NewTime(time.Unix(int64(1e9-age), 0))
	out.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "web"}}
	out.Spec.Rules = make([]gatewayv1.TLSRouteRule, 1)
	for _, host := range hosts {
		out.Spec.Hostnames = append(out.Spec.Hostnames, gatewayv1.Hostname(host))
	}
	return out
}

// tlsTo adds a backend.
func tlsTo(route *gatewayv1.TLSRoute, service, namespace string, port, weight int32) {
	ref := gatewayv1.BackendRef{Weight: &weight}
	ref.Name, ref.Port = gatewayv1.ObjectName(service), &port
	if namespace != "" {
		ref.Namespace = (*gatewayv1.Namespace)(&namespace)
	}
	route.Spec.Rules[0].BackendRefs = append(route.Spec.Rules[0].BackendRefs, ref)
}

const tlsGatewaySpec = "spec: {gatewayClassName: a4s, listeners: [{name: tls, protocol: TLS, port: 443, " +
	"tls: {mode: Passthrough}}]}"

// tlsRoute makes one that leads to the Service web.
func (w *gatewayWorld) tlsRoute(namespace, name string, hosts ...string) {
	w.t.Helper()
	w.make(gatewayGVR(resourceTLSRoutes), namespace, fmt.Sprintf("metadata: {name: %s}\nspec: {parentRefs: "+
		"[{name: tls}], hostnames: [%s], rules: [{backendRefs: [{name: web, port: 80}]}]}", name,
		strings.Join(hosts, ", ")))
}

// TestTLSRoutesComeAndGo: they are served while their CRD is there, and all else of the Gateway API without it.
func TestTLSRoutesComeAndGo(t *testing.T) {
	w := newGatewayWorld(t, node("n1", nil, "192.0.2.1"), svc("default/web", "http:80"))
	told := w.start()
	w.install()
	w.gateway("default", "web")
	w.make(gatewayGVR(resourceGateways), "default", "metadata: {name: tls}\n"+tlsGatewaySpec)
	w.route("default", "shop", "web", "shop.example.com")
	w.tlsRoute("default", "shop", "tls.example.com", "shop.example.com")
	w.await("the HTTPRoute is accepted", func() bool {
		return w.said(resourceRoutes, "default", "shop") == routeServed
	})
	if line := told()["host tls.example.com"]; line != nil {
		t.Errorf("without the CRD there is %+v", line.Host)
	}
	w.installOne(resourceTLSRoutes)
	w.await("the TLSRoute is served", func() bool { return told()["host tls.example.com"] != nil })
	w.await("the TLSRoute is accepted", func() bool {
		return w.said(resourceTLSRoutes, "default", "shop") == routeServed
	})
	w.await("the Gateway is served", func() bool {
		return w.said(resourceGateways, "default", "tls") == gatewayServed
	})
	for host, paths := range map[string]int{"tls.example.com": 0, "shop.example.com": 1} {
		is := told()["host "+host].Host
		if len(is.Paths) != paths || is.Passthrough == nil || len(is.Passthrough.Split) != 1 ||
			is.Passthrough.Split[0] != (joinapi.IngressPart{Backend: "default/web:80", Weight: 1}) {
			t.Errorf("%s is %+v", host, is)
		}
	}
	w.tlsRoute("default", "more", "more.example.com")
	w.await("another one is served", func() bool { return told()["host more.example.com"] != nil })
	w.remove(gatewayGVR(resourceTLSRoutes), "default", "more")
	w.await("another one is gone", func() bool { return told()["host more.example.com"] == nil })
	w.remove(crdGVR(), "", "tlsroutes.gateway.networking.k8s.io")
	w.await("the HTTPRoute alone is served", func() bool {
		lines := told()
		shop := lines["host shop.example.com"]
		return lines["host tls.example.com"] == nil && shop != nil && shop.Host.Passthrough == nil
	})
}

// TestHostsOfTLSRoutesAreOfOneSpace: they are shared with those of Ingresses and other routes.
func TestHostsOfTLSRoutesAreOfOneSpace(t *testing.T) {
	w := newGatewayWorld(t, node("n1", nil, "192.0.2.1"), ourClass(), svc("default.t1/web", "http:80"),
		svc("default.t2/web", "http:80"), ing("default.t1/old", 1, rule("ingress.example.com", "Prefix / web:80")))
	w.install()
	w.installOne(resourceTLSRoutes)
	told := w.start()
	for _, tenant := range []string{"t1", "t2"} {
		w.gateway("default."+tenant, "web")
		w.make(gatewayGVR(resourceGateways), "default."+tenant, "metadata: {name: tls}\n"+tlsGatewaySpec)
	}
	w.route("default.t1", "shop", "web", "shop.example.com")
	w.tlsRoute("default.t1", "tls", "tls.example.com")
	for _, host := range []string{"ingress", "shop", "tls"} {
		w.await("the first has "+host, func() bool { return told()["host "+host+".example.com"] != nil })
	}
	for _, host := range []string{"ingress", "shop", "tls"} {
		w.tlsRoute("default.t2", host, host+".example.com")
	}
	w.tlsRoute("default.t2", "wild", "'*.wild.example.com'")
	w.route("default.t2", "tls", "web", "tls.example.com")
	for name, reason := range map[string]string{"ingress": reasonTaken, "shop": reasonTaken, "tls": reasonTaken,
		"wild": reasonHost} {
		w.await("route "+name+" to be refused", func() bool {
			return strings.Contains(w.said(resourceTLSRoutes, "default.t2", name), "Accepted=False:"+reason)
		})
	}
	w.await("the HTTPRoute to be refused", func() bool {
		return strings.Contains(w.said(resourceRoutes, "default.t2", "tls"), "Accepted=False:"+reasonTaken)
	})
	for key, line := range told() {
		if line.Host != nil && line.Host.Tenant != "t1" {
			t.Errorf("%s is of %s", key, line.Host.Tenant)
		}
	}
}

// TestConnectionsOfIngresses: those for one host are opened for an Ingress, or passed on, for whoever is older.
func TestConnectionsOfIngresses(t *testing.T) {
	const secret = "default.t1/cert"
	path, opened := rule("a.x", "Prefix / web:80"), "a.x of t1: />default.t1/web:80"
	for name, c := range map[string]struct {
		ingress change
		age     int
		host    string
		said    []string
		refused bool
	}{
		"a younger one": {all(path, tlsOf("cert", "a.x")), 5,
			opened + " tls " + secret + " passed default.t1/web:80*1", []string{"default.t1/i HostnameConflict: " +
				`connections with TLS for host "a.x" are those of an older TLSRoute`}, false},
		"an older one":         {all(path, tlsOf("cert", "a.x")), 15, opened + " tls " + secret, nil, true},
		"one of the same age":  {all(path, tlsOf("cert", "a.x")), 10, opened + " tls " + secret, nil, true},
		"by a wildcard":        {all(path, tlsOf("cert", "*.x")), 15, opened + " tls " + secret, nil, true},
		"for all of its hosts": {all(path, tlsOf("cert")), 15, opened + " tls " + secret, nil, true},
		"without a Secret":     {all(path, tlsOf("", "a.x")), 15, opened, nil, true},
		"without TLS":          {path, 15, opened + " passed default.t1/web:80*1", nil, false},
		"with TLS for others": {all(path, rule("b.x", "Prefix / web:80"), tlsOf("cert", "b.x")), 15,
			opened + " passed default.t1/web:80*1", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			route := tlsRoute("default.t1/r", 10, "a.x")
			tlsTo(route, "web", "", 80, 1)
			w := &world{services: []*corev1.Service{svc("default.t1/web", ":80")},
				secrets:   []*corev1.Secret{good(t, secret)},
				gateways:  []*gatewayv1.Gateway{tlsGateway("default.t1/web", "")},
				tlsRoutes: []*gatewayv1.TLSRoute{route}}
			w.ingresses = append(w.ingresses, ing("default.t1/i", c.age, c.ingress))
			r := resolve(w.view("t1"))
			if got := r.show(); got[0] != c.host {
				t.Errorf("got  %q\nwant %q", got[0], c.host)
			}
			if got := r.said(); !slices.Equal(got, c.said) {
				t.Errorf("it is said %q", got)
			}
			parents := r.parents(gateway.KindTLS, route, nil)
			is := parents[0].Conditions[0]
			if (is.Status == metav1.ConditionFalse) != c.refused || c.refused && is.Reason != reasonConflict {
				t.Errorf("the route is told %+v", is)
			}
		})
	}
}

// TestTLSRoutesCountAsPaths: nodes keep no more of them than of others.
func TestTLSRoutesCountAsPaths(t *testing.T) {
	w := &world{gateways: []*gatewayv1.Gateway{tlsGateway("default.t1/web", "")}}
	const each, routes = 1000, 7 // and there is room for one more host
	for i := range routes {
		var hosts []string
		for n := range each {
			hosts = append(hosts, fmt.Sprintf("h%d.r%d.x", n, i))
		}
		w.tlsRoutes = append(w.tlsRoutes, tlsRoute(fmt.Sprintf("default.t1/r%d", i), routes-i, hosts...))
	}
	v := w.view("t1")
	r := resolve(v)
	if len(r.hosts) != each*routes || len(r.wants) != each*routes {
		t.Errorf("there are %d hosts, %d are wanted", len(r.hosts), len(r.wants))
	}
	var paths []string
	for n := range mostPaths - each {
		paths = append(paths, fmt.Sprintf("Exact /%d web:80", n))
	}
	w.ingresses = append(w.ingresses, ing("default.t1/i", 100, rule("i.x", paths...)))
	r = resolve(w.view("t1"))
	if len(r.hosts) != each+1 {
		t.Errorf("with as many paths there are %d hosts", len(r.hosts))
	}
	if is := r.parents(gateway.KindTLS, w.tlsRoutes[routes-1], nil)[0].Conditions[0]; is.Reason != reasonBounds {
		t.Errorf("the youngest route is told %+v", is)
	}
}
