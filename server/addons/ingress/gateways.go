package ingress

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/addons/gateway"
)

// gateways is what there is of the Gateway API, guarded by Controller.mu.
type gateways struct {
	api gatewayAPI // nil while it is not served
	// pending says that it is served, and what there is of it is not known yet.
	pending    bool
	classes    map[string]*gatewayv1.GatewayClass
	spaces     map[string]*gatewayContents
	namespaces cache.Indexer // nil while there is no Gateway
}

// gatewayContents is what one space has, by namespace and name.
type gatewayContents struct {
	gateways   map[string]*gatewayv1.Gateway
	routes     map[string]*gatewayv1.HTTPRoute
	grpcRoutes map[string]*gatewayv1.GRPCRoute
	tlsRoutes  map[string]*gatewayv1.TLSRoute
	grants     map[string]*gatewayv1.ReferenceGrant
}

func newGateways(from *gatewaySource) gateways {
	var api gatewayAPI
	if from != nil {
		api = from.api
	}
	return gateways{api: api, classes: map[string]*gatewayv1.GatewayClass{}, spaces: map[string]*gatewayContents{}}
}

// of is what a space has, made if need be.
func (g *gateways) of(tenant string) *gatewayContents {
	out := g.spaces[tenant]
	if out == nil {
		out = &gatewayContents{map[string]*gatewayv1.Gateway{}, map[string]*gatewayv1.HTTPRoute{},
			map[string]*gatewayv1.GRPCRoute{}, map[string]*gatewayv1.TLSRoute{},
			map[string]*gatewayv1.ReferenceGrant{}}
		g.spaces[tenant] = out
	}
	return out
}

// tidy forgets a space that has nothing.
func (g *gateways) tidy(tenant string) {
	of := g.spaces[tenant]
	if of != nil && len(of.gateways)+len(of.routes)+len(of.grpcRoutes)+len(of.tlsRoutes)+len(of.grants) == 0 {
		delete(g.spaces, tenant)
	}
}

// ours reports whether a class is of this controller: one of the space itself, or else one of the system.
func (g *gateways) ours(tenant, class string) bool {
	if owner, _ := space.SplitClusterName(class); !space.IsSystem(owner) {
		return false // what it spells is another space's
	}
	found := g.classes[space.ClusterName(tenant, class)]
	if found == nil {
		found = g.classes[class]
	}
	return found != nil && found.DeletionTimestamp == nil && isOurs(found)
}

// any reports whether there is a Gateway of this controller.
func (g *gateways) any() bool {
	for tenant, of := range g.spaces {
		for _, one := range of.gateways {
			if g.ours(tenant, string(one.Spec.GatewayClassName)) {
				return true
			}
		}
	}
	return false
}

// labels are those of a namespace.
func (g *gateways) labels(name string) (map[string]string, bool) {
	found := find[corev1.Namespace](g.namespaces, "", name)
	if found == nil {
		return nil, false
	}
	return found.Labels, true
}

// view is what a space is resolved from, besides its Ingresses. What it asks later is guarded by mu.
func (g *gateways) view(tenant string, mu sync.Locker) (out routes) {
	out.ours = func(class string) bool {
		mu.Lock()
		defer mu.Unlock()
		return g.ours(tenant, class)
	}
	out.labels = func(namespace string) (map[string]string, bool) {
		mu.Lock()
		defer mu.Unlock()
		return g.labels(namespace)
	}
	of := g.spaces[tenant]
	if of == nil {
		return out
	}
	out.gateways = slices.Collect(maps.Values(of.gateways))
	out.routes = slices.Collect(maps.Values(of.routes))
	out.grpcRoutes = slices.Collect(maps.Values(of.grpcRoutes))
	out.tlsRoutes = slices.Collect(maps.Values(of.tlsRoutes))
	out.grants = slices.Collect(maps.Values(of.grants))
	return out
}

// observeGateways takes over what a source has, and what changes there until stop is called.
func (c observer) observeGateways(from *gatewaySource) (synced []cache.InformerSynced, stop func(), err error) {
	var taken []func()
	stop = func() {
		for _, end := range taken {
			end()
		}
	}
	if from == nil {
		return nil, stop, nil
	}
	take := func(
		resource string, add func(cache.SharedIndexInformer) (cache.ResourceEventHandlerRegistration, error),
	) {
		informer := from.informers[resource]
		if informer == nil || err != nil {
			return
		}
		var handler cache.ResourceEventHandlerRegistration
		if handler, err = add(informer); err == nil {
			synced = append(synced, handler.HasSynced)
			taken = append(taken, func() { informer.RemoveEventHandler(handler) }) //nolint:errcheck // it ends
		}
	}
	take(resourceClasses, handles(c.Controller, c.seeGatewayClass))
	take(resourceGateways, handles(c.Controller, c.seeGateway))
	take(resourceRoutes, handles(c.Controller, c.seeRoute))
	take(resourceGRPCRoutes, handles(c.Controller, c.seeGRPCRoute))
	take(resourceTLSRoutes, handles(c.Controller, c.seeTLSRoute))
	take(resourceGrants, handles(c.Controller, c.seeGrant))
	return synced, stop, err
}

func (c observer) seeGatewayClass(class *gatewayv1.GatewayClass, deleted bool) {
	if class.Namespace != "" {
		return // of a tenant's own CRD of the other scope: it is no class of this name
	}
	was := c.gateways.classes[class.Name]
	if c.gateways.classes[class.Name] = class; deleted {
		delete(c.gateways.classes, class.Name)
	}
	if was != nil && !deleted && was.UID == class.UID && reflect.DeepEqual(was.Spec, class.Spec) &&
		(was.DeletionTimestamp == nil) == (class.DeletionTimestamp == nil) {
		return
	}
	owner, _ := space.SplitClusterName(class.Name)
	if c.leader != nil {
		c.leader.look(owner)
	}
	if !space.IsSystem(owner) { // it is for the Gateways of this space only
		c.dirty[owner] = true
		c.mark()
		return
	}
	if !isOurs(was) && !isOurs(class) {
		return
	}
	for tenant := range c.gateways.spaces {
		c.dirty[tenant] = true
	}
	for tenant := range c.holders.by {
		c.dirty[tenant] = true
	}
	c.mark()
}

func isOurs(class *gatewayv1.GatewayClass) bool {
	return class != nil && class.Spec.ControllerName == gateway.ControllerName
}

// see takes over an object of a space, and has the space resolved again if it says something else than before.
func see[T any, P interface {
	*T
	metav1.Object
}](c observer, in func(*gatewayContents) map[string]P, spec func(P) any, obj P, deleted bool) {
	if obj.GetNamespace() == "" {
		return // of a tenant's own CRD of the other scope: without a namespace it would seem the system's
	}
	tenant := space.OfNamespace(obj.GetNamespace())
	all, key := in(c.gateways.of(tenant)), obj.GetNamespace()+"/"+obj.GetName()
	was := all[key]
	if all[key] = obj; deleted {
		delete(all, key)
		c.gateways.tidy(tenant)
	} else if was != nil && was.GetUID() == obj.GetUID() && was.GetGeneration() == obj.GetGeneration() &&
		(was.GetDeletionTimestamp() == nil) == (obj.GetDeletionTimestamp() == nil) &&
		reflect.DeepEqual(spec(was), spec(obj)) {
		return
	}
	c.dirty[tenant] = true
	c.mark()
}

func (c observer) seeGateway(gw *gatewayv1.Gateway, deleted bool) {
	see(c, func(of *gatewayContents) map[string]*gatewayv1.Gateway { return of.gateways },
		func(o *gatewayv1.Gateway) any { return o.Spec }, gw, deleted)
}

func (c observer) seeRoute(route *gatewayv1.HTTPRoute, deleted bool) {
	see(c, func(of *gatewayContents) map[string]*gatewayv1.HTTPRoute { return of.routes },
		func(o *gatewayv1.HTTPRoute) any { return o.Spec }, route, deleted)
}

func (c observer) seeGRPCRoute(route *gatewayv1.GRPCRoute, deleted bool) {
	see(c, func(of *gatewayContents) map[string]*gatewayv1.GRPCRoute { return of.grpcRoutes },
		func(o *gatewayv1.GRPCRoute) any { return o.Spec }, route, deleted)
}

func (c observer) seeTLSRoute(route *gatewayv1.TLSRoute, deleted bool) {
	see(c, func(of *gatewayContents) map[string]*gatewayv1.TLSRoute { return of.tlsRoutes },
		func(o *gatewayv1.TLSRoute) any { return o.Spec }, route, deleted)
}

func (c observer) seeGrant(grant *gatewayv1.ReferenceGrant, deleted bool) {
	see(c, func(of *gatewayContents) map[string]*gatewayv1.ReferenceGrant { return of.grants },
		func(o *gatewayv1.ReferenceGrant) any { return o.Spec }, grant, deleted)
}

// seeNamespace looks at labels: listeners can select namespaces by them.
func (c observer) seeNamespace(namespace *corev1.Namespace, _ bool) {
	tenant := space.OfNamespace(namespace.Name)
	if of := c.gateways.spaces[tenant]; of != nil && len(of.gateways) > 0 {
		c.dirty[tenant] = true
		c.mark()
	}
}
