package reach

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/server/tenancy/reach/endpoints"
)

// podIPs is the index of pods by address.
const podIPs = "a4s.io/pod-ip"

// apiService is the Service of the API itself, and the slice of its endpoints:
// the addresses of all servers.
const apiService = metav1.NamespaceDefault + "/kubernetes"

// Rules know the addresses of the cluster.
type Rules struct {
	ranges  []netip.Prefix
	pods    cache.Indexer
	nodes   cache.Store
	servers cache.Store
	synced  []cache.InformerSynced
	// own are the addresses of this machine.
	own func() ([]net.Addr, error)
}

// New makes rules for a cluster with these ranges of pods and Services. It has
// to be called before the informers start.
func New(f informers.SharedInformerFactory, ranges []netip.Prefix) (*Rules, error) {
	pods := f.Core().V1().Pods().Informer()
	if _, ok := pods.GetIndexer().GetIndexers()[podIPs]; !ok {
		if err := pods.AddIndexers(cache.Indexers{podIPs: addressesOf}); err != nil {
			return nil, fmt.Errorf("indexing pods by address: %w", err)
		}
	}
	nodes, servers := f.Core().V1().Nodes().Informer(), f.Discovery().V1().EndpointSlices().Informer()
	return &Rules{
		ranges: ranges, pods: pods.GetIndexer(), nodes: nodes.GetStore(), servers: servers.GetStore(),
		synced: []cache.InformerSynced{pods.HasSynced, nodes.HasSynced, servers.HasSynced},
		own:    net.InterfaceAddrs,
	}, nil
}

// addressesOf are the addresses that are a pod's alone.
func addressesOf(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	return endpoints.Addresses(pod), nil
}

// Inside tells addresses of pods and Services.
func (r *Rules) Inside(ip netip.Addr) bool {
	ip = ip.Unmap()
	return slices.ContainsFunc(r.ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// OfPod reports whether an address is that of a pod of tenant. A pod that has
// ended keeps its address in its status while another gets it; where two claim
// it nobody can say whose it is.
func (r *Rules) OfPod(tenant string, ip netip.Addr) (bool, error) {
	return r.held(tenant, ip, endpoints.Running)
}

// KeptByPod is OfPod for what outlasts a connection: a pod that is being deleted
// does not count.
func (r *Rules) KeptByPod(tenant string, ip netip.Addr) (bool, error) {
	return r.held(tenant, ip, endpoints.Living)
}

func (r *Rules) held(tenant string, ip netip.Addr, counts func(*corev1.Pod) bool) (bool, error) {
	return endpoints.Held(tenant, r.pods, podIPs, ip.Unmap().String(), counts)
}

// allows reports whether a webhook of tenant may be called at an address.
func (r *Rules) allows(tenant string, ip netip.Addr) (bool, error) {
	ip = ip.Unmap()
	if v4, ok := translated(ip); ok {
		return r.allows(tenant, v4)
	}
	if special(ip) {
		return false, nil
	}
	for _, synced := range r.synced {
		if !synced() {
			return false, errUnknown
		}
	}
	if r.Inside(ip) {
		return r.OfPod(tenant, ip)
	}
	machines, err := r.ofMachine(ip)
	return !machines && err == nil, err
}

// ofMachine tells the addresses of this machine, of all nodes and of all
// servers.
func (r *Rules) ofMachine(ip netip.Addr) (bool, error) {
	own, err := r.own()
	if err != nil {
		return false, fmt.Errorf("listing the addresses of the machine: %w", err)
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip.AsSlice()) {
			return true, nil
		}
	}
	is := func(text string) bool {
		other, err := netip.ParseAddr(text)
		return err == nil && other.Unmap() == ip
	}
	for _, obj := range r.nodes.List() {
		if node, ok := obj.(*corev1.Node); ok {
			for _, a := range node.Status.Addresses {
				if is(a.Address) {
					return true, nil
				}
			}
		}
	}
	obj, _, err := r.servers.GetByKey(apiService)
	if err != nil {
		return false, fmt.Errorf("looking for the servers: %w", err)
	}
	if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
		for _, e := range slice.Endpoints {
			for _, a := range e.Addresses {
				if is(a) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// refused are ranges in which there is nothing outside: this machine, its link,
// what is reserved, and forms of IPv6 in which every IPv4 address can be said.
var refused = func() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range []string{"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/96", "::ffff:0:0:0/96",
		"64:ff9b:1::/48", "2002::/16", "fd00:ec2::254/128"} {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}()

func special(ip netip.Addr) bool {
	if !ip.IsValid() || ip.Zone() != "" || !ip.IsGlobalUnicast() {
		return true
	}
	for _, p := range refused {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// nat64 are the addresses by which a network of IPv6 alone reaches those of IPv4.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func translated(ip netip.Addr) (netip.Addr, bool) {
	if !nat64.Contains(ip) {
		return netip.Addr{}, false
	}
	raw := ip.As16()
	return netip.AddrFrom4([4]byte(raw[12:])), true
}
