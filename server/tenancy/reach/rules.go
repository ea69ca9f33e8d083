package reach

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/server/tenancy/reach/endpoints"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
)

// byAddress is the index of pods, nodes and servers by address.
const byAddress = "a4s.io/address"

// Rules know the addresses of the cluster.
type Rules struct {
	cluster *inside.Cluster
	pods    cache.Indexer
	nodes   cache.Indexer
	servers cache.Indexer
	synced  []cache.InformerSynced
	own     *ownAddresses
	tunnel  Tunnel
}

// New makes rules for a cluster. It has to be called before the informers start.
// tunnel is nil on a server that is a node, which is in the pod network itself.
func New(f informers.SharedInformerFactory, cluster *inside.Cluster, tunnel Tunnel) (*Rules, error) {
	r := &Rules{cluster: cluster, own: &ownAddresses{list: net.InterfaceAddrs}, tunnel: tunnel}
	for _, of := range []struct {
		what     string
		informer cache.SharedIndexInformer
		indexer  *cache.Indexer
		index    cache.IndexFunc
	}{
		{"pods", f.Core().V1().Pods().Informer(), &r.pods, ofPods},
		{"nodes", f.Core().V1().Nodes().Informer(), &r.nodes, endpoints.OfNodes},
		{"servers", f.Discovery().V1().EndpointSlices().Informer(), &r.servers, endpoints.OfServers},
	} {
		if _, ok := of.informer.GetIndexer().GetIndexers()[byAddress]; !ok {
			if err := of.informer.AddIndexers(cache.Indexers{byAddress: of.index}); err != nil {
				return nil, fmt.Errorf("indexing %s by address: %w", of.what, err)
			}
		}
		*of.indexer = of.informer.GetIndexer()
		r.synced = append(r.synced, of.informer.HasSynced)
	}
	return r, nil
}

// ofPods are the addresses that are a pod's alone.
func ofPods(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	return endpoints.Addresses(pod), nil
}

// OfPod reports whether an address is that of a pod of tenant. A pod that has
// ended keeps its address in its status while another gets it; where two claim
// it nobody can say whose it is.
func (r *Rules) OfPod(tenant string, ip netip.Addr) (bool, error) {
	return endpoints.Held(tenant, r.pods, byAddress, ip.Unmap().String(), endpoints.Running)
}

// Endpoint reports whether endpoints of a tenant may have an address: whoever
// resolves them, the API server among it, stands behind the walls. It asks more
// of a pod than a connection does, which endpoints outlast.
func (r *Rules) Endpoint(tenant string, ip netip.Addr) (bool, error) {
	return r.judge(tenant, ip, endpoints.Living)
}

// allows reports whether a webhook of tenant may be called at an address.
func (r *Rules) allows(tenant string, ip netip.Addr) (bool, error) {
	return r.judge(tenant, ip, endpoints.Running)
}

// judge lets a tenant have what is outside of the cluster, and of what is inside
// its own pods that count. What is inside is so in all partitions.
func (r *Rules) judge(tenant string, ip netip.Addr, counts func(*corev1.Pod) bool) (bool, error) {
	ip = inside.Plain(ip)
	if special(ip) {
		return false, nil
	}
	if err := r.known(); err != nil {
		return false, err
	}
	in, err := r.cluster.Range(ip)
	switch {
	case err != nil:
		return false, err
	case in:
		return endpoints.Held(tenant, r.pods, byAddress, ip.String(), counts)
	}
	machines, err := r.ofMachine(ip)
	return !machines && err == nil, err
}

// known returns inside.ErrUnknown until it can be judged.
func (r *Rules) known() error {
	for _, synced := range r.synced {
		if !synced() {
			return inside.ErrUnknown
		}
	}
	return r.cluster.Known()
}

// lookEvery is how often Wait looks.
const lookEvery = 20 * time.Millisecond

// Wait returns when addresses can be judged, or why they cannot until ctx ends.
func (r *Rules) Wait(ctx context.Context) error {
	err := r.known()
	if err == nil {
		return nil
	}
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	for err != nil {
		select {
		case <-ticks.C:
			err = r.known()
		case <-ctx.Done():
			return err
		}
	}
	return nil
}

// ofMachine tells the addresses of this machine, of all nodes and of all
// servers.
func (r *Rules) ofMachine(ip netip.Addr) (bool, error) {
	if own, err := r.own.has(ip); own || err != nil {
		return own, err
	}
	if of, err := r.cluster.Server(ip); of || err != nil {
		return of, err
	}
	for _, indexer := range []cache.Indexer{r.nodes, r.servers} {
		found, err := indexer.IndexKeys(byAddress, ip.String())
		if len(found) > 0 || err != nil {
			return len(found) > 0, err
		}
	}
	return false, nil
}

// ownFor is how long the addresses of the machine are believed: one write can
// have thousands to judge.
const ownFor = time.Second

// ownAddresses are those of this machine.
type ownAddresses struct {
	list func() ([]net.Addr, error)

	mu  sync.Mutex
	at  time.Time
	all map[netip.Addr]bool
}

func (o *ownAddresses) has(ip netip.Addr) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil || time.Since(o.at) > ownFor {
		found, err := o.list()
		if err != nil {
			return false, fmt.Errorf("listing the addresses of the machine: %w", err)
		}
		o.all, o.at = map[netip.Addr]bool{}, time.Now()
		for _, a := range found {
			if n, ok := a.(*net.IPNet); ok {
				if addr, ok := netip.AddrFromSlice(n.IP); ok {
					o.all[addr.Unmap()] = true
				}
			}
		}
	}
	return o.all[ip], nil
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
