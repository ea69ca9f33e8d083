package reach

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/reach/endpoints"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
)

// Tunnel connects to a port of a pod through its node, for a server that is not in
// the pod network. asked is false if the node cannot be asked.
type Tunnel interface {
	Connect(ctx context.Context, node *corev1.Node, pod *corev1.Pod, port string) (c net.Conn, asked bool, err error)
}

// ofTenant tells the pods of a tenant.
func ofTenant(tenant string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		of, _ := space.SplitNamespace(pod.Namespace)
		return of == tenant
	}
}

// Dial connects as the system does, which nobody judges.
func (r *Rules) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return directly(ctx, network, address) // a name, which no pod has
	}
	return r.connect(ctx, nil, func(*corev1.Pod) bool { return true }, network, ip.Unmap(), port)
}

// directly connects by the network of the machine.
func directly(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext(ctx, network, address)
}

// connect connects to an address that was judged, by inner or, if that is nil, as
// usual. Where there is a tunnel it ends at the pod that has the address, among
// those of whom it is asked; only if the node of that cannot be asked the network
// of the machine may still know the way.
func (r *Rules) connect(
	ctx context.Context, inner Dial, of func(*corev1.Pod) bool, network string, ip netip.Addr, port string,
) (net.Conn, error) {
	pod, node, err := r.behindNode(of, ip)
	if err != nil {
		return nil, err
	}
	if pod != nil {
		conn, asked, err := r.tunnel.Connect(ctx, node, pod, port)
		switch {
		case err == nil:
			return conn, nil
		case asked || ctx.Err() != nil:
			return nil, fmt.Errorf("connecting to the pod at %s: %w", ip, err)
		}
	}
	if inner == nil {
		inner = directly
	}
	return inner(ctx, network, net.JoinHostPort(ip.String(), port))
}

// behindNode finds the pod that has an address, and its node; the pod is nil where
// there is none, or no node to ask.
func (r *Rules) behindNode(of func(*corev1.Pod) bool, ip netip.Addr) (*corev1.Pod, *corev1.Node, error) {
	if r.tunnel == nil {
		return nil, nil, nil
	}
	found, err := r.pods.ByIndex(byAddress, inside.Plain(ip).String())
	if err != nil {
		return nil, nil, fmt.Errorf("looking for the pod at %s: %w", ip, err)
	}
	var last *corev1.Pod // one before it may still drain
	for _, obj := range found {
		pod, ok := obj.(*corev1.Pod)
		if ok && endpoints.Running(pod) && of(pod) &&
			(last == nil || last.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			last = pod
		}
	}
	if last == nil {
		return nil, nil, nil
	}
	obj, ok, err := r.nodes.GetByKey(last.Spec.NodeName)
	if err != nil {
		return nil, nil, fmt.Errorf("looking for the node of the pod at %s: %w", ip, err)
	}
	if node, isNode := obj.(*corev1.Node); ok && isNode {
		return last, node, nil
	}
	return nil, nil, nil
}
