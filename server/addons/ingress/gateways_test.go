package ingress

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// gatewayWorld is a cluster that has the Gateway API when it has its CRDs.
type gatewayWorld struct {
	*cluster
	objects *dynamicfake.FakeDynamicClient
}

func newGatewayWorld(t *testing.T, objects ...runtime.Object) *gatewayWorld {
	lists := map[schema.GroupVersionResource]string{
		crdGVR(): "CustomResourceDefinitionList",
	}
	for resource, kind := range gatewayKindNames() {
		lists[gatewayGVR(resource)] = kind + "List"
	}
	return &gatewayWorld{newCluster(t, objects...),
		dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)}
}

func gatewayKindNames() map[string]string {
	return map[string]string{resourceClasses: "GatewayClass", resourceGateways: "Gateway", resourceRoutes: "HTTPRoute",
		resourceGrants: "ReferenceGrant", resourceGRPCRoutes: "GRPCRoute", resourceTLSRoutes: "TLSRoute"}
}

func gatewayGVR(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: resource}
}

func crdGVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
}

// install makes the CRDs that must be there.
func (w *gatewayWorld) install() {
	w.t.Helper()
	for _, resource := range []string{resourceClasses, resourceGateways, resourceRoutes, resourceGrants} {
		w.installOne(resource)
	}
}

func (w *gatewayWorld) installOne(resource string) {
	w.t.Helper()
	w.make(crdGVR(), "", "metadata: {name: "+resource+".gateway.networking.k8s.io}\n"+
		"spec: {versions: [{name: v1, served: true}]}\n"+
		"status: {conditions: [{type: Established, status: 'True'}]}")
}

func (w *gatewayWorld) make(gvr schema.GroupVersionResource, namespace, text string) {
	w.t.Helper()
	of := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &of.Object); err != nil {
		w.t.Fatal(err)
	}
	kind := "CustomResourceDefinition"
	if name, ok := gatewayKindNames()[gvr.Resource]; ok {
		kind = name
	}
	of.SetGroupVersionKind(gvr.GroupVersion().WithKind(kind))
	of.SetNamespace(namespace)
	of.SetGeneration(1)
	if _, err := w.objects.Resource(gvr).Namespace(namespace).
		Create(w.t.Context(), of, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *gatewayWorld) remove(gvr schema.GroupVersionResource, namespace, name string) {
	w.t.Helper()
	if err := w.objects.Resource(gvr).Namespace(namespace).
		Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// gateway makes one with a listener for HTTP.
func (w *gatewayWorld) gateway(namespace, name string) {
	w.t.Helper()
	w.make(gatewayGVR(resourceGateways), namespace, "metadata: {name: "+name+"}\n"+
		"spec: {gatewayClassName: a4s, listeners: [{name: http, protocol: HTTP, port: 80}]}")
}

// route makes one that leads to the Service web.
func (w *gatewayWorld) route(namespace, name, gateway, host string) {
	w.t.Helper()
	w.make(gatewayGVR(resourceRoutes), namespace, fmt.Sprintf("metadata: {name: %s}\n"+
		"spec: {parentRefs: [{name: %s}], hostnames: [%s], rules: [{backendRefs: [{name: web, port: 80}]}]}", name,
		gateway, host))
}

// said are the conditions of an object: of a route those of its first parent, of a Gateway its own.
func (w *gatewayWorld) said(resource, namespace, name string) string {
	w.t.Helper()
	of, err := w.objects.Resource(gatewayGVR(resource)).Namespace(namespace).
		Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	conditions, _, _ := unstructured.NestedSlice(of.Object, "status", "conditions")
	if parents, _, _ := unstructured.NestedSlice(of.Object, "status", "parents"); len(parents) > 0 {
		parent, _ := parents[0].(map[string]any)
		conditions, _, _ = unstructured.NestedSlice(parent, "conditions")
	}
	var out []string
	for _, c := range conditions {
		is, _ := c.(map[string]any)
		out = append(out, fmt.Sprintf("%v=%v:%v", is["type"], is["status"], is["reason"]))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// start runs a server that writes, and returns what a node is told.
func (w *gatewayWorld) start() func() map[string]*joinapi.IngressLine {
	w.t.Helper()
	c := w.controller()
	c.Objects = w.objects
	w.cluster.start(c.Run)
	w.cluster.start(c.lead)
	return func() map[string]*joinapi.IngressLine {
		c.mu.Lock()
		defer c.mu.Unlock()
		out := map[string]*joinapi.IngressLine{}
		for key, line := range c.told.lines {
			out[key] = line
		}
		return out
	}
}

const (
	routeServed   = "Accepted=True:Accepted ResolvedRefs=True:ResolvedRefs"
	gatewayServed = "Accepted=True:Accepted Programmed=True:Programmed"
)

// TestTheGatewayAPIComesAndGoes: it is served while its CRDs are there, and begins with a class.
func TestTheGatewayAPIComesAndGoes(t *testing.T) {
	w := newGatewayWorld(t, node("n1", nil, "192.0.2.1"), svc("default/web", "http:80"))
	told := w.start()
	serves := func(host string) func() bool {
		return func() bool { return told()["host "+host] != nil }
	}
	classes := gatewayGVR(resourceClasses)
	w.install()
	w.await("there is a class", func() bool {
		all, err := w.objects.Resource(classes).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(all.Items) == 1 && w.said(resourceClasses, "", "a4s") == "Accepted=True:Accepted"
	})
	w.gateway("default", "web")
	w.route("default", "shop", "web", "shop.example.com")
	w.await("the route is served", serves("shop.example.com"))
	w.await("the route is accepted", func() bool {
		return w.said(resourceRoutes, "default", "shop") == routeServed
	})
	w.await("the Gateway has addresses", func() bool {
		return w.said(resourceGateways, "default", "web") == gatewayServed
	})
	if to := told()["host shop.example.com"].Host.Paths[0].Split; len(to) != 1 || to[0].Backend != "default/web:80" {
		t.Errorf("requests go to %+v", to)
	}

	if _, err := w.CoreV1().Nodes().Create(t.Context(), node("n2", nil, "192.0.2.2"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("it has the address of another node", func() bool {
		of, err := w.objects.Resource(gatewayGVR(resourceGateways)).Namespace("default").Get(t.Context(), "web",
			metav1.GetOptions{})
		return err == nil && strings.Contains(fmt.Sprint(of.Object["status"]), "192.0.2.2")
	})

	// Who deletes the class has Gateways served no more, and it does not come back.
	w.remove(classes, "", "a4s")
	w.await("nothing is served", func() bool { return !serves("shop.example.com")() })
	w.make(classes, "", "metadata: {name: a4s}\nspec: {controllerName: a4s.io/gateway}")
	w.await("the route is served again", serves("shop.example.com"))

	w.remove(crdGVR(), "", "httproutes.gateway.networking.k8s.io")
	w.await("nothing is served without the CRD", func() bool { return !serves("shop.example.com")() })
}

// TestHostsOfRoutesAreOfOneSpace: one host is an Ingress' or a route's, of whoever asked first.
func TestHostsOfRoutesAreOfOneSpace(t *testing.T) {
	w := newGatewayWorld(t, node("n1", nil, "192.0.2.1"), ourClass(), svc("default.t1/web", "http:80"),
		svc("default.t2/web", "http:80"), svc("default.t3/web", "http:80"),
		ing("default.t3/old", 100, rule("taken.example.com", "Prefix / web:80")))
	w.install()
	told := w.start()
	w.await("the Ingress has its host", func() bool { return told()["host taken.example.com"] != nil })
	for _, tenant := range []string{"t1", "t2"} {
		w.gateway("default."+tenant, "web")
	}
	w.route("default.t1", "shop", "web", "shop.example.com")
	w.await("the first has it", func() bool { return told()["host shop.example.com"] != nil })
	w.route("default.t2", "shop", "web", "shop.example.com")
	w.route("default.t2", "taken", "web", "taken.example.com")
	w.make(gatewayGVR(resourceRoutes), "default.t2",
		"metadata: {name: all}\nspec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: web, port: 80}]}]}")
	for name, reason := range map[string]string{"shop": reasonTaken, "taken": reasonTaken, "all": reasonHost} {
		w.await("route "+name+" to be refused", func() bool {
			return strings.Contains(w.said(resourceRoutes, "default.t2", name), "Accepted=False:"+reason)
		})
	}
	if l := told()["host shop.example.com"]; l.Host.Tenant != "t1" {
		t.Errorf("the host is of %s", l.Host.Tenant)
	}
	if l := told()["host taken.example.com"]; l.Host.Tenant != "t3" {
		t.Errorf("the host of the Ingress is of %s", l.Host.Tenant)
	}
	if l := told()["host "]; l != nil {
		t.Errorf("every host is of %s", l.Host.Tenant)
	}
}

// TestObjectsOfAnotherSchemaSayNothing: a tenant can have a CRD of its own by the names of the Gateway API.
func TestObjectsOfAnotherSchemaSayNothing(t *testing.T) {
	w := newGatewayWorld(t, node("n1", nil, "192.0.2.1"), svc("default.t1/web", "http:80"))
	w.install()
	w.installOne(resourceGRPCRoutes)
	w.installOne(resourceTLSRoutes)
	for _, resource := range []string{resourceGateways, resourceRoutes, resourceGrants, resourceGRPCRoutes,
		resourceTLSRoutes} {
		w.make(gatewayGVR(resource), "default.t2", "metadata: {name: odd}\nspec: some text\nstatus: [1, 2]")
	}
	w.make(gatewayGVR(resourceClasses), "", "metadata: {name: odd.t2.tenant}\nspec: [{a: 1}]")
	told := w.start()
	w.gateway("default.t1", "web")
	w.route("default.t1", "shop", "web", "shop.example.com")
	w.await("the route is served", func() bool { return told()["host shop.example.com"] != nil })
	w.await("the route is accepted", func() bool {
		return w.said(resourceRoutes, "default.t1", "shop") == routeServed
	})
}

// TestClassesOfSpaces: the class of the system is everybody's, and one of a space is its own.
func TestClassesOfSpaces(t *testing.T) {
	g := newGateways(nil)
	for name, controller := range map[string]string{"a4s": "a4s.io/gateway", "other": "example.com/other",
		"own.t1.tenant": "a4s.io/gateway", "a4s.t2.tenant": "example.com/other"} {
		class := &gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		class.Spec.ControllerName = gatewayv1.GatewayController(controller)
		g.classes[name] = class
	}
	for _, c := range []struct {
		tenant, class string
		want          bool
	}{
		{"system", "a4s", true}, {"t1", "a4s", true}, {"t1", "own", true}, {"t1", "other", false},
		{"t2", "a4s", false}, {"t2", "own", false}, {"t3", "own.t1.tenant", false}, {"system", "own.t1.tenant", false},
		{"t3", "", false},
	} {
		if got := g.ours(c.tenant, c.class); got != c.want {
			t.Errorf("%s names the class %q: %v", c.tenant, c.class, got)
		}
	}
}

// TestRemovalTakesGatewaysBack: with --disable ingress nobody is told that a Gateway is served.
func TestRemovalTakesGatewaysBack(t *testing.T) {
	w := newGatewayWorld(t)
	w.make(gatewayGVR(resourceClasses), "", "metadata: {name: a4s}\nspec: {controllerName: a4s.io/gateway}")
	w.make(gatewayGVR(resourceClasses), "", "metadata: {name: other}\nspec: {controllerName: example.com/other}")
	status := "\nstatus: {addresses: [{value: 192.0.2.1}], " +
		"conditions: [{type: Programmed, status: 'True', reason: x}]}"
	w.make(gatewayGVR(resourceGateways), "default.t1", "metadata: {name: mine}\nspec: {gatewayClassName: a4s}"+status)
	w.make(gatewayGVR(resourceGateways), "default", "metadata: {name: other}\nspec: {gatewayClassName: other}"+status)
	for _, resource := range []string{resourceRoutes, resourceGRPCRoutes, resourceTLSRoutes} {
		w.make(gatewayGVR(resource), "default", "metadata: {name: both}\nspec: {}\n"+
			"status: {parents: [{controllerName: a4s.io/gateway}, {controllerName: example.com/other}]}")
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := Removal(Options{Client: w.cluster, Objects: w.objects}).Run(ctx, cancel); err != nil {
		t.Fatal(err)
	}
	if got, want := w.said(resourceGateways, "default.t1", "mine"),
		"Accepted=Unknown:Pending Programmed=Unknown:Pending"; got != want {
		t.Errorf("the Gateway says %s", got)
	}
	if got := w.said(resourceGateways, "default", "other"); got != "Programmed=True:x" {
		t.Errorf("the Gateway of another class says %s", got)
	}
	for _, resource := range []string{resourceRoutes, resourceGRPCRoutes, resourceTLSRoutes} {
		route, err := w.objects.Resource(gatewayGVR(resource)).Namespace("default").Get(t.Context(), "both",
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents"); len(parents) != 1 {
			t.Errorf("the route of %s has the parents %v", resource, parents)
		}
	}
	classes, err := w.objects.Resource(gatewayGVR(resourceClasses)).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(classes.Items) != 1 || classes.Items[0].GetName() != "other" {
		t.Errorf("there are the classes %v, %v", classes, err)
	}
}

// TestMatchesThatOneRequestIsComparedWithAreBounded: those of its path, and of all that it begins with.
func TestMatchesThatOneRequestIsComparedWithAreBounded(t *testing.T) {
	r := &resolver{view: view{tenant: "t1"}, paths: map[string]map[string]bool{"a.x": {}}, alike: map[string]int{},
		result: &result{hosts: map[string]*joinapi.IngressHost{}, served: map[string]bool{},
			problems: map[string][]problem{}}}
	for i := range mostAlike + 10 {
		for _, path := range []string{"/a", "/a/b", "/c"} {
			if path != "/a/b" || i < mostAlike {
				r.path(source{key: path}, "a.x", joinapi.IngressPath{Path: path, Method: fmt.Sprint(i)},
					func(*joinapi.IngressPath) {})
			}
		}
	}
	r.path(source{key: "plain"}, "a.x", joinapi.IngressPath{Path: "/a/b"}, func(*joinapi.IngressPath) {})
	got := map[string]int{}
	for _, p := range r.hosts["a.x"].Paths {
		got[p.Path]++
	}
	if got["/a"] != mostAlike || got["/c"] != mostAlike || got["/a/b"] != mostAlike/2+1 {
		t.Errorf("there are %v", got)
	}
	if len(r.problems["/a"]) != 1 || len(r.problems["/a/b"]) != 1 || len(r.problems["plain"]) != 0 {
		t.Errorf("%v is said", r.problems)
	}
}
