package dns

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/a4s-io/a4s/internal/space"
)

// Pods tells whose pod is behind an address of this node's pod network.
type Pods interface {
	Tenant(addr netip.Addr) (tenant string, ok bool)
}

// ownAddressesFor is how long the node's own addresses are believed.
const ownAddressesFor = 5 * time.Second

// sourceTable tells which tenant a client is.
type sourceTable struct {
	pods Pods // nil: everybody is the system

	mu   sync.Mutex
	own  map[netip.Addr]bool
	read time.Time
}

// tenant returns the space of the client at addr. The node itself, and pods
// with its network, belong to the system.
func (t *sourceTable) tenant(addr netip.Addr) (string, bool) {
	if t.pods == nil {
		return space.System, true
	}
	if tenant, ok := t.pods.Tenant(addr); ok {
		return tenant, true
	}
	return space.System, addr.IsLoopback() || t.isOwn(addr)
}

func (t *sourceTable) isOwn(addr netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.read) > ownAddressesFor {
		if addrs, err := net.InterfaceAddrs(); err == nil {
			t.own, t.read = map[netip.Addr]bool{}, time.Now()
			for _, a := range addrs {
				if p, err := netip.ParsePrefix(a.String()); err == nil {
					t.own[p.Addr().Unmap()] = true
				}
			}
		}
	}
	return t.own[addr]
}

// Where every client finds the API.
const (
	apiNamespace = "default"
	apiService   = "kubernetes"
)

// tenantView is what a tenant sees: its own names without itself in them.
type tenantView struct {
	*informerStore
	tenant string
}

// owns reports whether the tenant has the namespace.
func (v tenantView) owns(name string) bool {
	// A native namespace has no dot; with one, it would be another tenant's.
	return !strings.Contains(name, ".") && v.informerStore.Namespace(space.Namespace(v.tenant, name))
}

// place returns the namespace inside the cluster that holds the Service which
// this tenant knows as namespace/name.
func (v tenantView) place(namespace, name string) (string, bool) {
	if namespace == apiNamespace && name == apiService {
		return namespace, true
	}
	if strings.Contains(namespace, ".") {
		return "", false
	}
	if v.owns(namespace) {
		return space.Namespace(v.tenant, namespace), true
	}
	svc, ok := v.informerStore.Service(namespace, name)
	return namespace, ok && svc.Shared
}

// native returns the namespace in which this tenant knows a Service, if it
// knows it.
func (v tenantView) native(svc Service) (string, bool) {
	_, namespace := space.SplitNamespace(svc.Namespace)
	place, ok := v.place(namespace, svc.Name)
	return namespace, ok && place == svc.Namespace
}

// Namespace implements Records.
func (v tenantView) Namespace(name string) bool {
	if v.owns(name) {
		return true
	}
	shared, err := v.services.GetIndexer().ByIndex(bySharing, name)
	return err == nil && len(shared) > 0
}

// Service implements Records.
func (v tenantView) Service(namespace, name string) (Service, bool) {
	place, ok := v.place(namespace, name)
	if !ok {
		return Service{}, false
	}
	svc, ok := v.informerStore.Service(place, name)
	svc.Namespace = namespace
	return svc, ok
}

// Endpoints implements Records.
func (v tenantView) Endpoints(namespace, name string) []Endpoint {
	place, ok := v.place(namespace, name)
	if !ok {
		return nil
	}
	return v.informerStore.Endpoints(place, name)
}

// ServicesAt implements Records.
func (v tenantView) ServicesAt(addr netip.Addr) []Service {
	var out []Service
	for _, svc := range v.informerStore.ServicesAt(addr) {
		if native, ok := v.native(svc); ok {
			svc.Namespace = native
			out = append(out, svc)
		}
	}
	return out
}

// EndpointsAt implements Records.
func (v tenantView) EndpointsAt(addr netip.Addr) []ServiceEndpoint {
	var out []ServiceEndpoint
	for _, e := range v.informerStore.EndpointsAt(addr) {
		if native, ok := v.native(Service{Namespace: e.Namespace, Name: e.Service}); ok {
			e.Namespace = native
			out = append(out, e)
		}
	}
	return out
}
