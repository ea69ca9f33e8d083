package ingress

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/addons/servicelb"
)

// mostAddresses is how many a status has: each Ingress has them, and is written when they change.
const mostAddresses = 64

// takers are the nodes that take requests: those that are for Services of type LoadBalancer.
type takers struct {
	all map[string]*corev1.Node
	// pool are those that take requests, by name.
	pool map[string]*corev1.Node
	// taken are the addresses whose requests a Service gets, by the Service.
	taken map[string][]string
	// tenants say which nodes are for some of them alone; it was version when nodes were told last.
	tenants Tenants
	version uint64
}

func newTakers(tenants Tenants) takers {
	return takers{all: map[string]*corev1.Node{}, pool: map[string]*corev1.Node{}, taken: map[string][]string{},
		tenants: tenants}
}

// takes reports whether a node takes requests for a space: not if it is for other tenants alone, whom what it is told
// would be open to.
func (t *takers) takes(node *corev1.Node, tenant string) bool {
	return t.tenants == nil || !t.tenants.KeptFrom(tenant, node.Labels)
}

// checkKept has nodes told what they are to know, and addresses written, when tenants have other nodes for themselves.
func (c *Controller) checkKept() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Tenants.KeptVersion()
	if now == c.nodes.version {
		return
	}
	c.nodes.version = now
	all := map[string]bool{}
	for name := range c.nodes.all {
		all[name] = true
	}
	c.told.look(all)
	c.addressesChanged()
}

// set takes over a node, and reports whether it is news.
func (t *takers) set(node *corev1.Node, deleted bool) bool {
	was := t.all[node.Name]
	if deleted {
		delete(t.all, node.Name)
		return was != nil
	}
	t.all[node.Name] = node
	return was == nil || !reflect.DeepEqual(was.Labels, node.Labels) || !reflect.DeepEqual(was.Status, node.Status) ||
		(was.DeletionTimestamp == nil) != (node.DeletionTimestamp == nil)
}

// choose finds out which of them take requests for a partition, and returns those that did not or do no more.
func (t *takers) choose(partition string) (changed map[string]bool) {
	was := t.pool
	all := make([]*corev1.Node, 0, len(t.all))
	for _, node := range t.all {
		all = append(all, node)
	}
	t.pool = map[string]*corev1.Node{}
	for _, node := range servicelb.Nodes(all, partition) {
		t.pool[node.Name] = node
	}
	changed = map[string]bool{}
	for name := range t.all {
		if (was[name] == nil) != (t.pool[name] == nil) {
			changed[name] = true
		}
	}
	for name := range was {
		if t.pool[name] == nil {
			changed[name] = true
		}
	}
	return changed
}

// take takes over the addresses whose requests a Service gets, and reports whether that is news.
func (t *takers) take(service string, addresses []string) bool {
	if slices.Equal(t.taken[service], addresses) {
		return false
	}
	if t.taken[service] = addresses; len(addresses) == 0 {
		delete(t.taken, service)
	}
	return true
}

// has reports whether there are addresses in a status, and all of them are of nodes.
func (t *takers) has(status []networkingv1.IngressLoadBalancerIngress) bool {
	ofNode := func(at networkingv1.IngressLoadBalancerIngress) bool {
		for _, node := range t.all {
			for _, a := range node.Status.Addresses {
				if a.Address == at.IP {
					return true
				}
			}
		}
		return false
	}
	if len(status) == 0 || len(status) > mostAddresses {
		return false
	}
	for _, at := range status {
		if !ofNode(at) {
			return false
		}
	}
	return true
}

// portless reports whether a node says that something else has its ports. It is told of hosts even so, else it would
// not try again.
func portless(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == joinapi.NodeTakesIngress && c.Status == corev1.ConditionFalse
	})
}

// addresses are those at which requests for a space are taken now.
func (t *takers) addresses(tenant string) []corev1.LoadBalancerIngress {
	var out []corev1.LoadBalancerIngress
	pool := map[string]*corev1.Node{}
	for name, node := range t.pool {
		if t.takes(node, tenant) && !portless(node) {
			pool[name] = node
		}
	}
	for _, at := range servicelb.AddressesOf(pool) {
		of := func(addresses []string) bool { return slices.Contains(addresses, at.IP) }
		free := true
		for _, addresses := range t.taken {
			free = free && !of(addresses)
		}
		if free {
			out = append(out, at)
		}
	}
	return out[:min(len(out), mostAddresses)]
}

// spelled are the addresses as text.
func (t *takers) spelled(tenant string) (out []string) {
	for _, at := range t.addresses(tenant) {
		out = append(out, at.IP)
	}
	return out
}
