package ingress

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
)

// observer takes over what is there and what changes.
type observer struct{ *Controller }

// restFactories are those of what Ingresses depend on.
type restFactories struct {
	all     informers.SharedInformerFactory
	secrets informers.SharedInformerFactory
	claims  informers.SharedInformerFactory
}

func (f *restFactories) each(do func(informers.SharedInformerFactory)) {
	for _, one := range []informers.SharedInformerFactory{f.all, f.secrets, f.claims} {
		do(one)
	}
}

func (f *restFactories) start(ctx context.Context) {
	f.each(func(one informers.SharedInformerFactory) { one.StartWithContext(ctx) })
}

func (f *restFactories) shutdown() {
	f.each(func(one informers.SharedInformerFactory) { one.Shutdown() })
}

func factories(c Options) (informers.SharedInformerFactory, *restFactories) {
	transform := informers.WithTransform(trimmer(c.Pool))
	options := func(tweak func(*metav1.ListOptions)) informers.SharedInformerOption {
		return informers.WithTweakListOptions(tweak)
	}
	return informers.NewSharedInformerFactoryWithOptions(c.Client, 0, transform), &restFactories{
		all: informers.NewSharedInformerFactoryWithOptions(c.Client, 0, transform),
		secrets: informers.NewSharedInformerFactoryWithOptions(c.Client, 0, transform,
			options(func(o *metav1.ListOptions) { o.FieldSelector = "type=" + string(corev1.SecretTypeTLS) })),
		claims: informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithNamespace(claimsNamespace),
			options(func(o *metav1.ListOptions) { o.LabelSelector = claimsLabel })),
	}
}

// await waits until all that is there was seen.
func await(ctx context.Context, synced []cache.InformerSynced) bool {
	return cache.WaitForCacheSync(ctx.Done(), synced...)
}

// observe calls see for what is there and what changes, with deleted for what goes, while c.mu is held.
func observe[T any](c *Controller, informer cache.SharedIndexInformer, see func(obj T, deleted bool)) (
	cache.InformerSynced, error,
) {
	handler, err := handles(c, see)(informer)
	if err != nil {
		return nil, err
	}
	return handler.HasSynced, nil
}

// handles adds what observe does to an informer.
func handles[T any](
	c *Controller, see func(obj T, deleted bool),
) func(cache.SharedIndexInformer) (cache.ResourceEventHandlerRegistration, error) {
	c.mu.Lock()
	run := c.runs
	c.mu.Unlock()
	call := func(obj any, deleted bool) {
		if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = t.Obj
		}
		if o, ok := obj.(T); ok {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.runs == run {
				see(o, deleted)
			}
		}
	}
	return func(informer cache.SharedIndexInformer) (cache.ResourceEventHandlerRegistration, error) {
		return informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { call(obj, false) },
			UpdateFunc: func(_, obj any) { call(obj, false) },
			DeleteFunc: func(obj any) { call(obj, true) },
		})
	}
}

func (c observer) observeIngresses(f informers.SharedInformerFactory) ([]cache.InformerSynced, error) {
	classes, err := observe(c.Controller, f.Networking().V1().IngressClasses().Informer(), c.seeClass)
	if err != nil {
		return nil, err
	}
	ingresses, err := observe(c.Controller, f.Networking().V1().Ingresses().Informer(), c.seeIngress)
	return []cache.InformerSynced{classes, ingresses}, err
}

func (c observer) seeClass(class *networkingv1.IngressClass, deleted bool) {
	ours := !deleted && class.Spec.Controller == ControllerName
	if c.classes[class.Name] == ours {
		return
	}
	c.classes[class.Name] = ours
	for tenant := range c.spaces {
		c.dirty[tenant] = true
	}
	for tenant := range c.holders.by { // of which there may be no Ingress any more
		c.dirty[tenant] = true
	}
	c.mark()
}

func (c observer) seeIngress(ingress *networkingv1.Ingress, deleted bool) {
	tenant := space.OfNamespace(ingress.Namespace)
	of := c.spaces[tenant]
	if of == nil {
		of = &contents{}
		c.spaces[tenant] = of
	}
	key := ingressKey(ingress)
	before := (*of)[key]
	if (*of)[key] = ingress; deleted {
		delete(*of, key)
	}
	if len(*of) == 0 {
		delete(c.spaces, tenant)
	}
	was := before != nil && isOf(c.classes, before)
	if !was && !isOf(c.classes, ingress) || was && !deleted && same(before, ingress) && isOf(c.classes, ingress) {
		return
	}
	c.dirty[tenant] = true
	c.mark()
}

// same reports whether two Ingresses say the same, whatever their status.
func same(a, b *networkingv1.Ingress) bool {
	return a.UID == b.UID && reflect.DeepEqual(a.Spec, b.Spec)
}

func (c observer) observeRest(f *restFactories) (synced []cache.InformerSynced, err error) {
	slices := f.all.Discovery().V1().EndpointSlices().Informer()
	if err = slices.AddIndexers(cache.Indexers{bySlice: serviceOf}); err != nil {
		return nil, err
	}
	for _, add := range []func() (cache.InformerSynced, error){
		func() (cache.InformerSynced, error) {
			return observe(c.Controller, f.all.Core().V1().Services().Informer(), c.seeService)
		},
		func() (cache.InformerSynced, error) { return c.observeSlices(slices) },
		func() (cache.InformerSynced, error) {
			return observe(c.Controller, f.secrets.Core().V1().Secrets().Informer(), func(s *corev1.Secret, _ bool) {
				c.uses(object{kindSecret, s.Namespace, s.Name})
			})
		},
		func() (cache.InformerSynced, error) {
			return observe(c.Controller, f.all.Core().V1().Nodes().Informer(), c.seeNode)
		},
		func() (cache.InformerSynced, error) {
			return observe(c.Controller, f.claims.Core().V1().ConfigMaps().Informer(), c.seeClaims)
		},
	} {
		one, err := add()
		if err != nil {
			return nil, err
		}
		synced = append(synced, one)
	}
	if c.gateways.api == nil {
		return synced, nil
	}
	namespaces, err := observe(c.Controller, f.all.Core().V1().Namespaces().Informer(), c.seeNamespace)
	return append(synced, namespaces), err
}

// observeSlices looks at what a slice was, too: one that is another Service's now has left the first.
func (c observer) observeSlices(informer cache.SharedIndexInformer) (cache.InformerSynced, error) {
	see := func(obj any) {
		if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = t.Obj
		}
		if s, ok := obj.(*discoveryv1.EndpointSlice); ok {
			c.uses(object{kindService, s.Namespace, s.Labels[discoveryv1.LabelServiceName]})
		}
	}
	call := func(objects ...any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, obj := range objects {
			see(obj)
		}
	}
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { call(obj) },
		UpdateFunc: func(was, now any) { call(was, now) }, DeleteFunc: func(obj any) { call(obj) }})
	if err != nil {
		return nil, err
	}
	return handler.HasSynced, nil
}

// uses has the space of an object resolved again if Ingresses depend on it.
func (c observer) uses(o object) {
	tenant := space.OfNamespace(o.namespace)
	// What is being resolved may have been read already.
	if r := c.results[tenant]; c.now != tenant && (r == nil || !r.uses[o]) {
		return
	}
	c.dirty[tenant] = true
	c.mark()
}

func (c observer) seeService(service *corev1.Service, deleted bool) {
	c.uses(object{kindService, service.Namespace, service.Name})
	var taken []string
	if !deleted {
		for _, at := range service.Status.LoadBalancer.Ingress {
			taken = append(taken, at.IP)
		}
	}
	if c.nodes.take(service.Namespace+"/"+service.Name, taken) {
		c.addressesChanged()
	}
}

func (c observer) seeNode(node *corev1.Node, deleted bool) {
	if c.nodes.set(node, deleted) {
		changed := c.nodes.choose(c.Partition)
		changed[node.Name] = true // its labels say for whom it is
		c.told.look(changed)
		c.addressesChanged()
	}
}

// seeClaims takes over which hosts a space has.
func (c observer) seeClaims(stored *corev1.ConfigMap, deleted bool) {
	tenant, now := claimsIn(stored)
	if tenant == "" {
		return
	}
	if deleted {
		now = nil
	}
	if freed := c.holders.set(tenant, now); len(freed) > 0 {
		c.contested(freed)
	}
	c.dirty[tenant] = true
	c.mark()
}

// contested has the spaces resolved again that wanted one of the hosts, which was another's.
func (c observer) contested(freed []string) {
	for tenant, r := range c.results {
		if r.waitsFor(freed) {
			c.dirty[tenant] = true
		}
	}
	c.mark()
}

// hosts takes over what spec.hosts of a tenant says. It can decide on what others have, too.
func (c observer) hosts(tenant string, hosts []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.policy.set(tenant, hosts) {
		return
	}
	for other := range c.results {
		c.dirty[other] = true
	}
	c.dirty[tenant] = true
	c.mark()
}

// objects are those that Ingresses name.
type objects struct{ services, slices, secrets cache.Indexer }

func (f *restFactories) namespaces() cache.Indexer {
	return f.all.Core().V1().Namespaces().Informer().GetIndexer()
}

func (f *restFactories) objects() objects {
	return objects{f.all.Core().V1().Services().Informer().GetIndexer(),
		f.all.Discovery().V1().EndpointSlices().Informer().GetIndexer(),
		f.secrets.Core().V1().Secrets().Informer().GetIndexer()}
}

func find[T any](from cache.Indexer, namespace, name string) *T {
	if from == nil {
		return nil
	}
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	obj, ok, err := from.GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	out, _ := obj.(*T)
	return out
}

func (o objects) service(namespace, name string) *corev1.Service {
	return find[corev1.Service](o.services, namespace, name)
}

func (o objects) endpoints(namespace, service string) (out []*discoveryv1.EndpointSlice) {
	if o.slices == nil {
		return nil
	}
	found, err := o.slices.ByIndex(bySlice, namespace+"/"+service)
	if err != nil {
		return nil // there is such an index
	}
	for _, obj := range found {
		if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
			out = append(out, slice)
		}
	}
	return out
}

func (o objects) secret(namespace, name string) *corev1.Secret {
	return find[corev1.Secret](o.secrets, namespace, name)
}
