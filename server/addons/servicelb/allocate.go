package servicelb

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

const (
	// EnableLabel is the label of nodes, "true", that are for Services. As
	// long as no node has it, all are.
	EnableLabel = "a4s.io/enable-lb"
	// PoolLabel is the label of nodes, and the label or annotation of
	// Services, by which a Service gets some of the nodes only.
	PoolLabel = "a4s.io/lb-pool"
	// What k3s calls these labels, which are understood.
	enableLabelOfK3s = "svccontroller.k3s.cattle.io/enablelb"
	poolLabelOfK3s   = "svccontroller.k3s.cattle.io/lbpool"
	// PartitionLabel is the label of nodes that are for the Services of the tenant partition
	// that it names, and no other. Without it a node is for those of its own partition.
	PartitionLabel = "a4s.io/lb-partition"
)

// state is what there is to decide on.
type state struct {
	services []*corev1.Service
	// partition is that of the Services.
	partition string
	// nodes are those of the cluster that are for its Services.
	nodes []*corev1.Node
	// withheld says that there are nodes, and all are for those of others.
	withheld bool
	// local are the nodes that have ready endpoints of a Service.
	local func(*corev1.Service) map[string]bool
	rules *Rules
	// granted are the ports that Services got before.
	granted map[types.UID][]Port
}

// use keeps those of the nodes of the cluster that are for Services of the partition. One that
// is for several could have a port twice: each decides by itself.
func (s *state) use(all []*corev1.Node) {
	s.nodes = slices.DeleteFunc(slices.Clone(all), func(node *corev1.Node) bool {
		if of, ok := node.Labels[PartitionLabel]; ok {
			return of != s.partition
		}
		_, elsewhere := node.Labels[partitionapi.ResourcePartitionLabel]
		return elsewhere
	})
	s.withheld = len(s.nodes) == 0 && len(all) > 0
}

// outcome is what a Service gets.
type outcome struct {
	ingress []corev1.LoadBalancerIngress
	// refused says why it gets nothing, in words for who may see the Service.
	refused string
}

// slot is a port of a node.
type slot struct {
	node string
	port Port
}

// allocate decides for all Services that want a load balancer. Those that
// have their ports keep them; others get theirs in the order of their age.
func (s *state) allocate() map[types.UID]outcome {
	wanted := slices.DeleteFunc(slices.Clone(s.services), func(svc *corev1.Service) bool { return !Wanted(svc) })
	slices.SortFunc(wanted, func(a, b *corev1.Service) int {
		return cmp.Or(
			cmp.Compare(s.rank(a), s.rank(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
		)
	})
	taken := map[slot]*corev1.Service{}
	out := make(map[types.UID]outcome, len(wanted))
	for _, service := range wanted {
		nodes, ports := s.pool(service), PortsOf(service)
		if refused := s.refuse(service, nodes, ports, taken); refused != "" {
			out[service.UID] = outcome{refused: refused}
			continue
		}
		// A node that is not ready or has no endpoints may be so again: its
		// ports stay with the Service.
		for _, node := range nodes {
			for _, port := range ports {
				taken[slot{node.Name, port}] = service
			}
		}
		out[service.UID] = outcome{ingress: s.ingress(service, nodes)}
	}
	return out
}

// rank puts those first that have their ports: for sure, or as it seems after
// a restart.
func (s *state) rank(service *corev1.Service) int {
	granted := s.granted[service.UID]
	missing := slices.ContainsFunc(PortsOf(service), func(p Port) bool { return !slices.Contains(granted, p) })
	switch {
	case len(granted) > 0 && !missing:
		return 0
	case len(service.Status.LoadBalancer.Ingress) > 0:
		return 1
	}
	return 2
}

func (s *state) refuse(
	service *corev1.Service, nodes []*corev1.Node, ports []Port, taken map[slot]*corev1.Service,
) string {
	if s.withheld {
		if tenant, _ := space.SplitNamespace(service.Namespace); !space.IsSystem(tenant) {
			return "no node is for Services of this type; the administrators of the cluster decide which are"
		}
		return fmt.Sprintf("no node is for Services of partition %s: label some with %s=%s", s.partition,
			PartitionLabel, s.partition)
	}
	for _, port := range ports {
		if why := s.rules.Refuse(port.Number); why != "" {
			return why
		}
		for _, node := range nodes {
			if holder := taken[slot{node.Name, port}]; holder != nil && holder != service {
				return fmt.Sprintf("port %s of the nodes is taken by %s", port, describe(holder, service))
			}
		}
	}
	return ""
}

// describe names holder as far as who looks at service may know of it.
func describe(holder, service *corev1.Service) string {
	of, ns := space.SplitNamespace(holder.Namespace)
	viewer, _ := space.SplitNamespace(service.Namespace)
	switch {
	case space.IsSystem(viewer):
		return "Service " + holder.Namespace + "/" + holder.Name
	case viewer == of:
		return "Service " + ns + "/" + holder.Name
	}
	return "a Service outside of this space"
}

func isEnabled(node *corev1.Node) bool {
	return cmp.Or(node.Labels[EnableLabel], node.Labels[enableLabelOfK3s]) == "true"
}

// LabelsOfTraffic are the labels of nodes by which these take requests from outside, or do not.
func LabelsOfTraffic() []string {
	return []string{corev1.LabelNodeExcludeBalancers, EnableLabel, enableLabelOfK3s, PoolLabel, poolLabelOfK3s,
		PartitionLabel}
}

// pool are the nodes that a Service may have.
func (s *state) pool(service *corev1.Service) []*corev1.Node {
	enabled := slices.ContainsFunc(s.nodes, isEnabled)
	pool := cmp.Or(service.Labels[PoolLabel], service.Annotations[PoolLabel], service.Labels[poolLabelOfK3s])
	var out []*corev1.Node
	for _, node := range s.nodes {
		exclude, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
		if no, err := strconv.ParseBool(exclude); excluded && (err != nil || no) {
			continue
		}
		if enabled && !isEnabled(node) ||
			pool != "" && cmp.Or(node.Labels[PoolLabel], node.Labels[poolLabelOfK3s]) != pool {
			continue
		}
		out = append(out, node)
	}
	slices.SortFunc(out, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// ingress are the addresses of those nodes that pass traffic on now.
func (s *state) ingress(service *corev1.Service, nodes []*corev1.Node) []corev1.LoadBalancerIngress {
	var local map[string]bool
	if service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		local = s.local(service)
	}
	mode := corev1.LoadBalancerIPModeVIP
	var out []corev1.LoadBalancerIngress
	for _, node := range nodes {
		if !isReady(node) || local != nil && !local[node.Name] {
			continue
		}
		for _, ip := range addresses(node, service.Spec.IPFamilies) {
			out = append(out, corev1.LoadBalancerIngress{IP: ip, IPMode: &mode})
		}
	}
	return out
}

func isReady(node *corev1.Node) bool {
	return node.DeletionTimestamp == nil &&
		slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
}

// addresses are those by which a node is reached, external ones first. The
// internal ones are what packets to external ones have after a translation
// on their way.
func addresses(node *corev1.Node, families []corev1.IPFamily) []string {
	var out []string
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for _, a := range node.Status.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			if err != nil || a.Type != kind || slices.Contains(out, ip.String()) {
				continue
			}
			family := corev1.IPv4Protocol
			if ip.Is6() {
				family = corev1.IPv6Protocol
			}
			if slices.Contains(families, family) {
				out = append(out, ip.String())
			}
		}
	}
	return out
}
