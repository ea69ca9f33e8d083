package ingress

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// TestGRPCRoutesComeAndGo: they are served while their CRD is there, and all else of the Gateway API without it.
func TestGRPCRoutesComeAndGo(t *testing.T) {
	w := newGatewayWorld(t, node("n1", nil, "192.0.2.1"), svc("default/web", "http:80"))
	told := w.start()
	w.install()
	w.gateway("default", "web")
	w.route("default", "shop", "web", "shop.example.com")
	w.make(gatewayGVR(resourceGRPCRoutes), "default", `
metadata: {name: shop}
spec:
  parentRefs: [{name: web}]
  hostnames: [grpc.example.com]
  rules:
  - matches: [{method: {service: pkg.Svc, method: Method}}]
    backendRefs: [{name: web, port: 80}]`)
	w.await("the HTTPRoute is accepted", func() bool {
		return w.said(resourceRoutes, "default", "shop") == routeServed
	})
	if line := told()["host grpc.example.com"]; line != nil {
		t.Errorf("without the CRD there is %+v", line.Host)
	}

	w.installOne(resourceGRPCRoutes)
	w.await("the GRPCRoute is served", func() bool { return told()["host grpc.example.com"] != nil })
	w.await("the GRPCRoute is accepted", func() bool {
		return w.said(resourceGRPCRoutes, "default", "shop") == routeServed
	})
	lines := told()
	path := lines["host grpc.example.com"].Host.Paths[0]
	if path.Path != "/pkg.Svc/Method" || !path.Exact || len(path.Split) != 1 {
		t.Fatalf("it has the path %+v", path)
	}
	if b := lines["backend "+path.Split[0].Backend]; b == nil || b.Backend.Protocol != joinapi.ProtocolH2C {
		t.Errorf("requests go to %+v", b)
	}
	w.await("the HTTPRoute is served", func() bool { return told()["host shop.example.com"] != nil })
	to := told()["host shop.example.com"].Host.Paths[0].Split[0].Backend
	if b := told()["backend "+to]; b == nil || b.Backend.Protocol != joinapi.ProtocolHTTP {
		t.Errorf("requests of the HTTPRoute go to %+v", b)
	}

	// What comes and goes meanwhile is taken over.
	w.make(gatewayGVR(resourceGRPCRoutes), "default", "metadata: {name: bad}\nspec: {parentRefs: [{name: web}], "+
		"hostnames: [bad.example.com], rules: [{matches: [{method: {method: Any}}]}]}")
	w.await("a route that cannot be done is refused", func() bool {
		return strings.Contains(w.said(resourceGRPCRoutes, "default", "bad"), "Accepted=False:UnsupportedValue")
	})
	w.make(gatewayGVR(resourceGRPCRoutes), "default", "metadata: {name: more}\nspec: {parentRefs: [{name: web}], "+
		"hostnames: [more.example.com], rules: [{backendRefs: [{name: web, port: 80}]}]}")
	w.await("another one is served", func() bool { return told()["host more.example.com"] != nil })
	w.remove(gatewayGVR(resourceGRPCRoutes), "default", "more")
	w.await("another one is gone", func() bool { return told()["host more.example.com"] == nil })
	w.remove(crdGVR(), "", "grpcroutes.gateway.networking.k8s.io")
	w.await("the HTTPRoute alone is served", func() bool {
		lines := told()
		return lines["host grpc.example.com"] == nil && lines["host shop.example.com"] != nil
	})
}

// TestGRPCRoutesWithoutABackend: their clients are told UNAVAILABLE, which they make of 503.
func TestGRPCRoutesWithoutABackend(t *testing.T) {
	w := newGatewayWorld(t, node("n1", nil, "192.0.2.1"), svc("default/web", "http:80"))
	told := w.start()
	w.install()
	w.installOne(resourceGRPCRoutes)
	w.gateway("default", "web")
	w.make(gatewayGVR(resourceGRPCRoutes), "default", `
metadata: {name: shop}
spec:
  parentRefs: [{name: web}]
  hostnames: [grpc.example.com]
  rules:
  - {matches: [{method: {service: none}}], backendRefs: [{name: gone, port: 80}, {name: web, port: 80, weight: 3}]}
  - {matches: [{method: {service: zero}}], backendRefs: [{name: web, port: 80, weight: 0}]}
  - {matches: [{method: {service: nothing}}]}`)
	w.await("the route is served", func() bool { return told()["host grpc.example.com"] != nil })
	lines := told()
	empty := func(id string) bool {
		line := lines["backend "+id]
		return id != "" && line != nil && len(line.Backend.Endpoints) == 0
	}
	for _, path := range lines["host grpc.example.com"].Host.Paths {
		if path.Path != "/none" {
			if !empty(path.Backend) || len(path.Split) > 0 {
				t.Errorf("requests go to %+v", path)
			}
			continue
		}
		if len(path.Split) != 2 || !empty(path.Split[0].Backend) || path.Split[0].Weight != 1 ||
			path.Split[1].Backend != "default/web:80/h2c" || path.Split[1].Weight != 3 {
			t.Errorf("requests go to %+v", path)
		}
	}
	w.await("the route says what is not there", func() bool {
		return w.said(resourceGRPCRoutes, "default", "shop") ==
			"Accepted=True:Accepted ResolvedRefs=False:BackendNotFound"
	})
}

func TestProtocolOfGRPC(t *testing.T) {
	for said, want := range map[string]string{"": joinapi.ProtocolH2C, "http": joinapi.ProtocolH2C,
		"grpc": joinapi.ProtocolH2C, "kubernetes.io/h2c": joinapi.ProtocolH2C, "HTTPS": joinapi.ProtocolHTTPS} {
		port := &corev1.ServicePort{Name: "https", Port: 443}
		if said != "" {
			port.AppProtocol = &said
		}
		if got := http2Protocol(port); got != want {
			t.Errorf("appProtocol %q: %s", said, got)
		}
	}
}

// TestKindsThatAreServed: of all kinds, only GRPCRoutes and TLSRoutes can be missing.
func TestKindsThatAreServed(t *testing.T) {
	for missing := range gatewayVersions() {
		w := newKindsWatch()
		for resource := range gatewayVersions() {
			if resource != missing {
				w.set(resource, "v1", "1")
			}
		}
		now := w.current()
		if (now.api != nil) != (missing == resourceGRPCRoutes || missing == resourceTLSRoutes) {
			t.Errorf("without %s there is %v", missing, now.api)
		}
		w.set(missing, "v1", "1")
		select {
		case <-now.changed:
		default:
			t.Errorf("nobody is told of %s", missing)
		}
		if now := w.current(); len(now.api) != len(gatewayVersions()) {
			t.Errorf("with all of them there is %v", now.api)
		}
	}
}

// TestOtherKindsAreAwaited: a CRD in the place of another is another one, as its objects are.
func TestOtherKindsAreAwaited(t *testing.T) {
	w, ctx := newKindsWatch(), t.Context()
	awaits := func(change func()) bool {
		ctx, cancel := context.WithCancel(ctx)
		ended, these := make(chan bool, 1), w.current()
		go func() {
			w.await(ctx, these)
			ended <- ctx.Err() == nil
		}()
		change()
		now := w.current()
		if now.turn == these.turn || now.api == nil && these.api == nil {
			cancel()
		}
		defer cancel()
		return <-ended
	}
	all := func(uid string) {
		for resource := range gatewayVersions() {
			w.set(resource, "v1", uid)
		}
	}
	if awaits(func() { w.set(resourceRoutes, "v1", "1") }) {
		t.Error("one of them alone is something else")
	}
	if !awaits(func() { all("1") }) || !awaits(func() { w.set(resourceRoutes, "v1", "2") }) ||
		!awaits(func() { w.set(resourceRoutes, "", ""); w.set(resourceRoutes, "v1", "3") }) ||
		!awaits(func() { w.set(resourceGrants, "v1beta1", "1") }) ||
		!awaits(func() { w.set(resourceGrants, "", "") }) {
		t.Error("a change is not seen")
	}
	if all("4"); awaits(func() { all("4") }) {
		t.Error("nothing changed")
	}
}
