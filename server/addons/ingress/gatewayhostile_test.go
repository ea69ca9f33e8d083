package ingress

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/server/addons/gateway"
)

// TestObjectsOfAnotherScopeAreNobodys: a tenant's own CRD can have the other scope. Its objects have no namespace
// then, as if they were the system's, or have one, and are no class of this name.
func TestObjectsOfAnotherScopeAreNobodys(t *testing.T) {
	w := newGatewayWorld(t, node("n1", nil, "192.0.2.1"), svc("default/web", "http:80"))
	w.install()
	told := w.start()
	w.gateway("default", "web")
	w.route("default", "shop", "web", "shop.example.com")
	w.await("the route is served", func() bool { return told()["host shop.example.com"] != nil })
	w.make(gatewayGVR(resourceClasses), "default.evil",
		"metadata: {name: a4s}\nspec: {controllerName: example.com/none}")
	w.make(gatewayGVR(resourceGateways), "", "metadata: {name: own.evil.tenant}\n"+
		"spec: {gatewayClassName: a4s, listeners: [{name: http, protocol: HTTP, port: 80}]}")
	w.make(gatewayGVR(resourceRoutes), "", "metadata: {name: grab.evil.tenant}\n"+
		"spec: {parentRefs: [{name: web, namespace: default}, {name: own.evil.tenant}], "+
		"hostnames: [bank.example.com]}")
	w.route("default", "later", "web", "later.example.com")
	w.await("a later route is served", func() bool { return told()["host later.example.com"] != nil })
	if told()["host shop.example.com"] == nil || told()["host bank.example.com"] != nil {
		t.Errorf("nodes are told %v", sortedKeys(told()))
	}
	if got := w.claims(); got != "system:later.example.com system:shop.example.com" {
		t.Errorf("the claims are %s", got)
	}
	w.remove(gatewayGVR(resourceClasses), "default.evil", "a4s")
	w.route("default", "last", "web", "last.example.com")
	w.await("the last route is served", func() bool { return told()["host last.example.com"] != nil })
}

// TestIngressesDoNotWaitForGateways: the objects of a CRD cannot be listed while its webhook does not answer.
func TestIngressesDoNotWaitForGateways(t *testing.T) {
	w := newGatewayWorld(t, node("n1", nil, "192.0.2.1"), ourClass(), svc("default.t1/web", "http:80"),
		ing("default.t1/a", 1, rule("ingress.example.com", "Prefix / web:80")))
	w.install()
	w.gateway("default.t1", "web")
	w.route("default.t1", "shop", "web", "shop.example.com")
	// Somebody else waits for the host of the route, which is written down.
	if _, err := w.CoreV1().ConfigMaps(claimsNamespace).Create(t.Context(),
		claims{"shop.example.com": time.Unix(1, 0)}.stored("t1", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var broken atomic.Bool
	broken.Store(true)
	w.objects.PrependReactor("list", resourceRoutes, func(clienttesting.Action) (bool, runtime.Object, error) {
		return broken.Load(), nil, apierrors.NewInternalError(errors.ErrUnsupported)
	})
	told := w.start()
	w.await("the Ingress is served", func() bool { return told()["host ingress.example.com"] != nil })
	w.await("the host of the route stays", func() bool {
		return w.claims() == "t1:ingress.example.com t1:shop.example.com"
	})
	broken.Store(false)
	w.await("the route is served", func() bool { return told()["host shop.example.com"] != nil })
	w.await("it is accepted", func() bool { return w.said(resourceRoutes, "default.t1", "shop") == routeServed })
}

// TestAClassOfATenantIsItsOwn: what it does with it costs nobody else a round.
func TestAClassOfATenantIsItsOwn(t *testing.T) {
	c := still()
	o := observer{c}
	seen := func(name, controller string, deleted bool) []string {
		c.dirty = map[string]bool{}
		class := &gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(controller)}}
		class.Spec.ControllerName = gatewayv1.GatewayController(controller)
		o.seeGatewayClass(class, deleted)
		return sortedKeys(c.dirty)
	}
	for _, tenant := range []string{"t1", "t2"} {
		gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default." + tenant, Name: "web"}}
		o.seeGateway(gw, false)
	}
	for _, c := range []struct {
		name, controller string
		deleted          bool
		want             string
	}{
		{"own.t1.tenant", gateway.ControllerName, false, "[t1]"},
		{"own.t1.tenant", gateway.ControllerName, true, "[t1]"},
		{"other", "example.com/other", false, "[]"}, {"other", "example.com/other", true, "[]"},
		{"a4s", gateway.ControllerName, false, "[t1 t2]"}, {"a4s", "example.com/other", false, "[t1 t2]"},
	} {
		if got := fmt.Sprint(seen(c.name, c.controller, c.deleted)); got != c.want {
			t.Errorf("class %s of %s, deleted: %v: %s are resolved again, want %s", c.name, c.controller, c.deleted,
				got, c.want)
		}
	}
}

// TestTheClassComesAgainWithTheCRDs, but not when somebody deleted it.
func TestTheClassComesAgainWithTheCRDs(t *testing.T) {
	w := newGatewayWorld(t, node("n1", nil, "192.0.2.1"))
	w.start()
	has := func() bool {
		_, err := w.objects.Resource(gatewayGVR(resourceClasses)).
			Get(t.Context(), gateway.ClassName, metav1.GetOptions{})
		return err == nil
	}
	w.install()
	w.await("there is a class", has)
	w.remove(gatewayGVR(resourceClasses), "", gateway.ClassName)
	w.gateway("default", "web")
	w.await("the Gateway is looked at", func() bool { return !has() })
	for _, resource := range []string{resourceClasses, resourceGateways, resourceRoutes, resourceGrants} {
		w.remove(crdGVR(), "", resource+".gateway.networking.k8s.io")
	}
	w.install()
	w.await("there is a class again", has)
}

// TestWritingStatusIsBounded: it writes whole objects, which a tenant makes as large as it likes.
func TestWritingStatusIsBounded(t *testing.T) {
	l := &Leader{budgets: map[string]*budget{}}
	written := func(tenant string, size int) (n int) {
		for b := l.budget(tenant); n < 5000 && b.spend(size); n++ {
		}
		return n
	}
	if n := written("t1", 1<<20); n != budgetBytes>>20 {
		t.Errorf("%d objects of a megabyte are written", n)
	}
	if n, b := written("t1", 1<<20), l.budget("t1"); n != 0 || b.spend(1<<20) || b.wait <= 0 {
		t.Errorf("%d more are written at once, and the wait is %v", n, b.wait)
	}
	if n := written("t2", 10); n != budgetWrites {
		t.Errorf("%d small objects are written", n)
	}
	if n := written("system", 1<<20); n != 5000 {
		t.Errorf("%d objects of the system are written", n)
	}
	of := map[string]any{"a": strings.Repeat("x", 1000), "b": []any{strings.Repeat("x", 1000), int64(1)}}
	if n := measure(of); n < 2000 || n > 2100 {
		t.Errorf("it is %d bytes long", n)
	}
}

// TestAStatusIsWrittenOnce: a look that finds the same writes nothing, whatever else is in the status.
func TestAStatusIsWrittenOnce(t *testing.T) {
	ref := gatewayv1.ParentReference{Name: "web"}
	of := func(controller string) gatewayv1.RouteParentStatus {
		return gatewayv1.RouteParentStatus{ParentRef: ref, ControllerName: gatewayv1.GatewayController(controller)}
	}
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t1", Name: "r", Generation: 3}}
	name := types.NamespacedName{Namespace: "default.t1", Name: "r"}
	r := &result{gateway: &gateway.Result{Routes: map[types.NamespacedName][]gatewayv1.RouteParentStatus{
		name: {of(gateway.ControllerName)}}},
		problems: map[string][]problem{routeSource(gateway.KindHTTP, name).key: {{reasonBounds, "too many"}}}}
	route.Status.Parents = []gatewayv1.RouteParentStatus{of("example.com/other")}
	first := r.parents(gateway.KindHTTP, route, route.Status.Parents)
	if len(first) != 2 || first[1].Conditions[0].Reason != reasonBounds {
		t.Fatalf("the parents are %+v", first)
	}
	long := metav1.NewTime(time.Unix(1000, 0))
	first[1].Conditions[0].LastTransitionTime = long
	if again := r.parents(gateway.KindHTTP, route, first); !again[1].Conditions[0].LastTransitionTime.Equal(&long) {
		t.Errorf("the time of transition is another: %+v", again)
	}
	for range 40 {
		first = append(first, of("example.com/other"))
	}
	if all := r.parents(gateway.KindHTTP, route, first); len(all) != mostParents {
		t.Errorf("there are %d parents", len(all))
	}

	// What others write into a Gateway stays.
	gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t1", Name: "r"}}
	gw.Status.Conditions = []metav1.Condition{{Type: "Example"}, {Type: "Accepted", Status: "Unknown"}}
	r.gateway.Gateways = map[types.NamespacedName]*gatewayv1.GatewayStatus{name: {
		Conditions: []metav1.Condition{{Type: "Accepted", Status: "True"}, {Type: "Old"}}}}
	if got := fmt.Sprint(r.gatewayStatus(gw).Conditions); strings.Contains(got, "Old") ||
		!strings.Contains(got, "Example") || strings.Contains(got, "Unknown") {
		t.Errorf("the conditions are %s", got)
	}
}

// TestErrorsOfATenantAreNotTheClusters: a tenant can make objects whose status cannot be written.
func TestErrorsOfATenantAreNotTheClusters(t *testing.T) {
	w := newGatewayWorld(t, node("n1", nil, "192.0.2.1"), svc("default.t1/web", "http:80"))
	w.install()
	var refused atomic.Int64
	w.objects.PrependReactor("patch", resourceRoutes, func(a clienttesting.Action) (bool, runtime.Object, error) {
		if patch, ok := a.(clienttesting.PatchAction); !ok || patch.GetName() != "large" {
			return false, nil, nil
		}
		refused.Add(1)
		return true, nil, apierrors.NewRequestEntityTooLargeError("too large")
	})
	told := w.start()
	w.gateway("default.t1", "web")
	w.route("default.t1", "large", "web", "large.example.com")
	w.route("default.t1", "small", "web", "small.example.com")
	w.await("the other route is accepted", func() bool {
		return w.said(resourceRoutes, "default.t1", "small") == routeServed && told()["host large.example.com"] != nil
	})
	w.await("it is tried again", func() bool { return refused.Load() > 1 })
	of := &statusWriter{Leader: &Leader{writer: writer{nil, w.controller().Log}}, errs: []error{errors.ErrUnsupported}}
	if err := of.err("t1"); !errors.Is(err, errLater) {
		t.Errorf("the error of a tenant is %v", err)
	}
	of.raced = true
	if err := of.err("system"); errors.Is(err, errLater) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the error of the system is %v", err)
	}
}

// caught is an informer whose handler a test calls.
type caught struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

func (c *caught) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	c.handler = handler
	return nil, nil
}

// TestWhatComesTooLateIsNotSeen: an informer can still hand over what it had for the run before.
func TestWhatComesTooLateIsNotSeen(t *testing.T) {
	c, informer := still(), &caught{}
	if _, err := handles(c, observer{c}.seeGateway)(informer); err != nil {
		t.Fatal(err)
	}
	gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	informer.handler.OnAdd(gw, false)
	if len(c.gateways.spaces) != 1 {
		t.Fatal("the Gateway is not seen")
	}
	c.reset(nil)
	informer.handler.OnUpdate(gw, gw)
	if len(c.gateways.spaces) != 0 {
		t.Error("the Gateway is seen in the next run")
	}
}
