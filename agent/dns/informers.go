package dns

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
)

// Names of the indices.
const (
	byAddress = "address"
	byService = "service"
	bySharing = "sharing" // shared Services by their namespace
)

// informerStore is the Store over the informers of one API server. It answers
// from their indices, so a change is visible as soon as it is delivered.
type informerStore struct {
	factory                      informers.SharedInformerFactory
	namespaces, services, slices cache.SharedIndexInformer
	sources                      *sourceTable
}

func newInformerStore(client kubernetes.Interface, sources *sourceTable) (*informerStore, error) {
	f := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	s := &informerStore{
		factory:    f,
		namespaces: f.Core().V1().Namespaces().Informer(),
		services:   f.Core().V1().Services().Informer(),
		slices:     f.Discovery().V1().EndpointSlices().Informer(),
		sources:    sources,
	}
	if err := s.services.AddIndexers(cache.Indexers{byAddress: serviceAddresses,
		bySharing: serviceSharing}); err != nil {
		return nil, err
	}
	err := s.slices.AddIndexers(cache.Indexers{byAddress: sliceAddresses, byService: sliceService})
	return s, err
}

// start runs the informers until ctx ends; stop waits for their end.
func (s *informerStore) start(ctx context.Context) { s.factory.Start(ctx.Done()) }
func (s *informerStore) stop()                     { s.factory.Shutdown() }

// waitSynced blocks until the store is synced, and reports false if ctx ended
// first.
func (s *informerStore) waitSynced(ctx context.Context) bool {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for !s.Synced() {
		select {
		case <-t.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Synced implements Store.
func (s *informerStore) Synced() bool {
	return s.namespaces.HasSynced() && s.services.HasSynced() && s.slices.HasSynced()
}

// View implements Store. The informers' own names are the system's view.
func (s *informerStore) View(source netip.Addr) (Records, bool) {
	tenant, known := s.sources.tenant(source)
	switch {
	case !known:
		return nil, false
	case space.IsSystem(tenant):
		return s, true
	}
	return tenantView{s, tenant}, true
}

// Namespace implements Records.
func (s *informerStore) Namespace(name string) bool {
	_, ok, err := s.namespaces.GetIndexer().GetByKey(name)
	return ok && err == nil
}

// Service implements Records.
func (s *informerStore) Service(namespace, name string) (Service, bool) {
	obj, ok, err := s.services.GetIndexer().GetByKey(namespace + "/" + name)
	if !ok || err != nil {
		return Service{}, false
	}
	return toService(obj.(*corev1.Service)), true
}

// Endpoints implements Records.
func (s *informerStore) Endpoints(namespace, name string) []Endpoint {
	var out []Endpoint
	for _, sl := range s.slicesBy(byService, namespace+"/"+name) {
		out = appendReady(out, sl)
	}
	return sortEndpoints(out)
}

// ServicesAt implements Records.
func (s *informerStore) ServicesAt(addr netip.Addr) []Service {
	objs, err := s.services.GetIndexer().ByIndex(byAddress, addr.String())
	if err != nil {
		return nil
	}
	out := make([]Service, 0, len(objs))
	for _, o := range objs {
		out = append(out, toService(o.(*corev1.Service)))
	}
	return out
}

// EndpointsAt implements Records.
func (s *informerStore) EndpointsAt(addr netip.Addr) []ServiceEndpoint {
	var out []ServiceEndpoint
	for _, sl := range s.slicesBy(byAddress, addr.String()) {
		name := sl.Labels[discoveryv1.LabelServiceName]
		if svc, ok := s.Service(sl.Namespace, name); !ok || !svc.Headless {
			continue
		}
		for _, e := range appendReady(nil, sl) {
			if e.Addr == addr {
				out = append(out, ServiceEndpoint{Namespace: sl.Namespace, Service: name, Endpoint: e})
			}
		}
	}
	return out
}

func (s *informerStore) slicesBy(index, key string) []*discoveryv1.EndpointSlice {
	objs, err := s.slices.GetIndexer().ByIndex(index, key)
	if err != nil {
		return nil
	}
	out := make([]*discoveryv1.EndpointSlice, 0, len(objs))
	for _, o := range objs {
		out = append(out, o.(*discoveryv1.EndpointSlice))
	}
	return out
}

func toService(s *corev1.Service) Service {
	out := Service{Namespace: s.Namespace, Name: s.Name, Shared: isShared(s)}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		out.ExternalName = s.Spec.ExternalName
		return out
	}
	out.Headless = s.Spec.ClusterIP == corev1.ClusterIPNone
	out.ClusterIPs = clusterIPs(s)
	for _, p := range s.Spec.Ports {
		out.Ports = append(out.Ports,
			Port{Name: strings.ToLower(p.Name), Protocol: strings.ToLower(string(p.Protocol)), Number: uint16(p.Port)})
	}
	return out
}

func clusterIPs(s *corev1.Service) []netip.Addr {
	ips := s.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{s.Spec.ClusterIP}
	}
	var out []netip.Addr
	for _, ip := range ips {
		if a, err := netip.ParseAddr(ip); err == nil { // "None" and "" are none
			out = append(out, a)
		}
	}
	return out
}

// appendReady appends the ready endpoints of sl. The condition is true for
// every endpoint of a service with publishNotReadyAddresses: whoever writes
// the slice honours that field.
func appendReady(out []Endpoint, sl *discoveryv1.EndpointSlice) []Endpoint {
	var ports []Port
	for _, p := range sl.Ports {
		if p.Port == nil {
			continue
		}
		port := Port{Number: uint16(*p.Port), Protocol: "tcp"}
		if p.Name != nil {
			port.Name = strings.ToLower(*p.Name)
		}
		if p.Protocol != nil {
			port.Protocol = strings.ToLower(string(*p.Protocol))
		}
		ports = append(ports, port)
	}
	for _, e := range sl.Endpoints {
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		for _, text := range e.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil {
				continue // an FQDN slice has no address records
			}
			ep := Endpoint{Addr: a, Ports: ports}
			if e.Hostname != nil {
				ep.Hostname = *e.Hostname
			}
			out = append(out, ep)
		}
	}
	return out
}

// sortEndpoints also merges an endpoint that is in two slices at once, as
// happens while its controller moves it.
func sortEndpoints(eps []Endpoint) []Endpoint {
	slices.SortStableFunc(eps, func(a, b Endpoint) int {
		return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Hostname, b.Hostname))
	})
	out := eps[:0]
	for _, e := range eps {
		if n := len(out); n > 0 && out[n-1].Addr == e.Addr && out[n-1].Hostname == e.Hostname {
			for _, p := range e.Ports {
				if !slices.Contains(out[n-1].Ports, p) {
					out[n-1].Ports = append(slices.Clip(out[n-1].Ports), p)
				}
			}
			continue
		}
		out = append(out, e)
	}
	return out
}

// Index functions.

func serviceAddresses(obj any) ([]string, error) {
	s, ok := obj.(*corev1.Service)
	if !ok {
		return nil, nil
	}
	var keys []string
	for _, a := range clusterIPs(s) {
		keys = append(keys, a.String())
	}
	return keys, nil
}

func serviceSharing(obj any) ([]string, error) {
	if s, ok := obj.(*corev1.Service); ok && isShared(s) {
		return []string{s.Namespace}, nil
	}
	return nil, nil
}

func isShared(s *corev1.Service) bool {
	tenant, _ := space.SplitNamespace(s.Namespace)
	return space.IsSystem(tenant) && s.Annotations[space.Shared] == "true"
}

func sliceAddresses(obj any) ([]string, error) {
	sl, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, nil
	}
	var keys []string
	for _, e := range appendReady(nil, sl) {
		keys = append(keys, e.Addr.String())
	}
	return keys, nil
}

func sliceService(obj any) ([]string, error) {
	sl, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok || sl.Labels[discoveryv1.LabelServiceName] == "" {
		return nil, nil
	}
	return []string{sl.Namespace + "/" + sl.Labels[discoveryv1.LabelServiceName]}, nil
}

// trim drops what DNS never reads: every node holds every service.
func trim(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil {
		var kept map[string]string
		if m.GetAnnotations()[space.Shared] == "true" {
			kept = map[string]string{space.Shared: "true"}
		}
		m.SetManagedFields(nil)
		m.SetAnnotations(kept)
		m.SetOwnerReferences(nil)
	}
	if sl, ok := obj.(*discoveryv1.EndpointSlice); ok {
		for i := range sl.Endpoints {
			e := &sl.Endpoints[i]
			e.TargetRef, e.NodeName, e.Zone, e.Hints, e.DeprecatedTopology = nil, nil, nil, nil, nil
		}
	}
	return obj, nil
}
