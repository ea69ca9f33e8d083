package ingress

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// Resources of the Gateway API that are served here, by CRDs of the system space.
const (
	resourceClasses  = "gatewayclasses"
	resourceGateways = "gateways"
	resourceRoutes   = "httproutes"
	resourceGrants   = "referencegrants"
	// These are served if they are there, and the others do without.
	resourceGRPCRoutes = "grpcroutes"
	resourceTLSRoutes  = "tlsroutes"
)

// isOptional reports whether the others do without a resource.
func isOptional(resource string) bool {
	return resource == resourceGRPCRoutes || resource == resourceTLSRoutes
}

// gatewayVersions are the versions that are read, the better one first.
func gatewayVersions() map[string][]string {
	return map[string][]string{resourceClasses: {"v1"}, resourceGateways: {"v1"}, resourceRoutes: {"v1"},
		resourceGrants: {"v1", "v1beta1"}, resourceGRPCRoutes: {"v1"}, resourceTLSRoutes: {"v1"}}
}

// gatewayAPI is the version in which each resource is served; nil unless all of them are that must be.
type gatewayAPI map[string]string

func (a gatewayAPI) resource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: gatewayv1.GroupName, Version: a[name], Resource: name}
}

// kindsWatch knows which CRDs of the Gateway API there are.
type kindsWatch struct {
	mu      sync.Mutex
	serves  gatewayAPI        // those that are there
	of      map[string]string // the UIDs of their CRDs
	turn    int               // how often that has changed
	changed chan struct{}
}

func newKindsWatch() *kindsWatch {
	return &kindsWatch{serves: gatewayAPI{}, of: map[string]string{}, changed: make(chan struct{})}
}

// kinds is what is served at a time: one CRD in the place of another is another turn.
type kinds struct {
	api  gatewayAPI
	turn int
	// changed is closed when something changes.
	changed <-chan struct{}
}

// current is what is served now.
func (w *kindsWatch) current() kinds {
	w.mu.Lock()
	defer w.mu.Unlock()
	for resource := range gatewayVersions() {
		if !isOptional(resource) && w.serves[resource] == "" {
			return kinds{nil, w.turn, w.changed}
		}
	}
	return kinds{maps.Clone(w.serves), w.turn, w.changed}
}

// await waits until other kinds are served than these, or ctx ends.
func (w *kindsWatch) await(ctx context.Context, these kinds) {
	for now := these; now.turn == these.turn || now.api == nil && these.api == nil; now = w.current() {
		select {
		case <-now.changed:
		case <-ctx.Done():
			return
		}
	}
}

// set takes over in which version the resource of a CRD is served, "" for none.
func (w *kindsWatch) set(resource, version, uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.serves[resource] == version && w.of[resource] == uid {
		return
	}
	if w.serves[resource], w.of[resource] = version, uid; version == "" {
		delete(w.serves, resource)
	}
	w.turn++
	close(w.changed)
	w.changed = make(chan struct{})
}

// watchKinds follows the CRDs until ctx ends, and returns when all that are there were seen; false if ctx
// ended before.
func watchKinds(ctx context.Context, client dynamic.Interface, running *sync.WaitGroup) (*kindsWatch, bool, error) {
	w := newKindsWatch()
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	var synced []cache.InformerSynced
	for resource, versions := range gatewayVersions() {
		informer := dynamicinformer.NewFilteredDynamicInformer(client, crds, "", 0, cache.Indexers{},
			func(o *metav1.ListOptions) {
				o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField,
					resource+"."+gatewayv1.GroupName).String()
			}).Informer()
		err := informer.SetTransform(func(obj any) (any, error) { return trimCRD(obj, versions), nil })
		if err != nil {
			return nil, false, err
		}
		see := func(obj any) {
			if crd, ok := obj.(*metav1.PartialObjectMetadata); ok && crd.Name == resource+"."+gatewayv1.GroupName {
				w.set(resource, crd.Labels[servedVersion], string(crd.UID))
			}
		}
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see,
			UpdateFunc: func(_, obj any) { see(obj) }, DeleteFunc: func(obj any) {
				if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = t.Obj
				}
				if crd, ok := obj.(*metav1.PartialObjectMetadata); ok {
					crd = crd.DeepCopy()
					crd.Labels = nil
					see(crd)
				}
			}})
		if err != nil {
			return nil, false, err
		}
		synced = append(synced, handler.HasSynced)
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	return w, await(ctx, synced), nil
}

// servedVersion is the label with the version that is read, of what trimCRD returns.
const servedVersion = "version"

// trimCRD keeps of a CRD its name, and the best of the versions that it serves.
func trimCRD(obj any, versions []string) any {
	crd, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
	}
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: crd.GetName(), UID: crd.GetUID(),
		ResourceVersion: crd.GetResourceVersion()}}
	if crd.GetDeletionTimestamp() != nil || !hasItem(crd, "type", "Established", "status", "True", "status",
		"conditions") {
		return out
	}
	for _, version := range slices.Backward(versions) {
		if hasItem(crd, "name", version, "served", true, "spec", "versions") {
			out.Labels = map[string]string{servedVersion: version}
		}
	}
	return out
}

// hasItem reports whether a list of an object has an item with two values.
func hasItem(in *unstructured.Unstructured, key string, value any, also string, is any, path ...string) bool {
	list, _, _ := unstructured.NestedSlice(in.Object, path...) // nil if it is another thing
	return slices.ContainsFunc(list, func(item any) bool {
		of, _ := item.(map[string]any)
		return of[key] == value && of[also] == is
	})
}

// readAs reads objects of the Gateway API, and keeps of them what keep does. A tenant can have a CRD of its own by
// that name: what is not what it should be is an object that says nothing.
func readAs[T any, P interface {
	*T
	metav1.Object
	runtime.Object
}](pool *interning.Pool, keep func(from, to P)) cache.TransformFunc {
	return func(obj any) (any, error) {
		from, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return obj, nil
		}
		read, kept := P(new(T)), P(new(T))
		if runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, read) == nil {
			keep(read, kept)
		}
		kept.SetAnnotations(map[string]string{sizeAnnotation: strconv.Itoa(measure(from.Object))})
		kept.SetNamespace(from.GetNamespace())
		kept.SetName(from.GetName())
		kept.SetUID(from.GetUID())
		kept.SetResourceVersion(from.GetResourceVersion())
		kept.SetGeneration(from.GetGeneration())
		kept.SetCreationTimestamp(from.GetCreationTimestamp())
		kept.SetDeletionTimestamp(from.GetDeletionTimestamp())
		return pool.Transform(kept)
	}
}

// gatewayInformers are those of the Gateway API.
type gatewayInformers map[string]cache.SharedIndexInformer

func newGatewayInformers(client dynamic.Interface, api gatewayAPI, pool *interning.Pool) (gatewayInformers, error) {
	out := gatewayInformers{}
	for resource, transform := range map[string]cache.TransformFunc{
		resourceClasses: readAs(pool, func(from, to *gatewayv1.GatewayClass) {
			to.Spec.ControllerName, to.Spec.ParametersRef = from.Spec.ControllerName, from.Spec.ParametersRef
			to.Status = from.Status
		}),
		resourceGateways: readAs(pool, func(from, to *gatewayv1.Gateway) {
			to.Spec, to.Status = from.Spec, from.Status
		}),
		resourceRoutes: readAs(pool, func(from, to *gatewayv1.HTTPRoute) {
			to.Spec, to.Status = from.Spec, from.Status
		}),
		resourceGrants: readAs(pool, func(from, to *gatewayv1.ReferenceGrant) { to.Spec = from.Spec }),
		resourceGRPCRoutes: readAs(pool, func(from, to *gatewayv1.GRPCRoute) {
			to.Spec, to.Status = from.Spec, from.Status
		}),
		resourceTLSRoutes: readAs(pool, func(from, to *gatewayv1.TLSRoute) {
			to.Spec, to.Status = from.Spec, from.Status
		}),
	} {
		if api[resource] == "" {
			continue
		}
		informer := dynamicinformer.NewFilteredDynamicInformer(client, api.resource(resource), "", 0,
			cache.Indexers{}, nil).Informer()
		if err := informer.SetTransform(transform); err != nil {
			return nil, err
		}
		out[resource] = informer
	}
	return out, nil
}
