package servicelb

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

// refusedRetry is how soon upstream's controller looks again at a Service that
// got nothing; our own loop does as soon as something changes.
const refusedRetry = 10 * time.Minute

// balancer is a cloud provider with nothing but load balancers.
type balancer struct {
	services corelisters.ServiceLister
	nodes    corelisters.NodeLister
	slices   discoverylisters.EndpointSliceLister
	rules    *Rules
	// partition is that of the Services.
	partition string

	mu      sync.Mutex
	granted map[types.UID][]Port
}

var _ cloudprovider.Interface = &balancer{}
var _ cloudprovider.LoadBalancer = &balancer{}

// decide returns what every Service gets.
func (b *balancer) decide() (map[types.UID]outcome, []*corev1.Service, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	services, err := b.services.List(labels.Everything())
	if err != nil {
		return nil, nil, fmt.Errorf("listing services: %w", err)
	}
	nodes, err := b.nodes.List(labels.Everything())
	if err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	s := state{services: services, partition: b.partition, local: b.local, rules: b.rules, granted: b.granted}
	s.use(nodes)
	out := s.allocate()
	b.granted = make(map[types.UID][]Port, len(out))
	for _, service := range services {
		if o, ok := out[service.UID]; ok && o.refused == "" {
			b.granted[service.UID] = PortsOf(service)
		}
	}
	return out, services, nil
}

// local are the nodes that have ready endpoints of a Service.
func (b *balancer) local(service *corev1.Service) map[string]bool {
	out := map[string]bool{}
	found, err := b.slices.EndpointSlices(service.Namespace).
		List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service.Name}))
	if err != nil {
		return out // the cache has no errors
	}
	for _, slice := range found {
		for _, e := range slice.Endpoints {
			if e.NodeName != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				out[*e.NodeName] = true
			}
		}
	}
	return out
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b *balancer) EnsureLoadBalancer(
	_ context.Context, _ string, service *corev1.Service, _ []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	decided, _, err := b.decide()
	if err != nil {
		return nil, err
	}
	o, ok := decided[service.UID]
	switch {
	case !ok:
		return nil, fmt.Errorf("the Service %s/%s has just changed", service.Namespace, service.Name)
	case o.refused != "":
		return nil, api.NewRetryError(o.refused, refusedRetry)
	}
	return &corev1.LoadBalancerStatus{Ingress: o.ingress}, nil
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer: the component's own
// loop writes what changes with the nodes.
func (b *balancer) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return nil
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (b *balancer) GetLoadBalancer(
	_ context.Context, _ string, service *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	return &service.Status.LoadBalancer, len(service.Status.LoadBalancer.Ingress) > 0, nil
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer: with the
// status, all of it is gone.
func (b *balancer) EnsureLoadBalancerDeleted(context.Context, string, *corev1.Service) error {
	return nil
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (b *balancer) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// LoadBalancer implements cloudprovider.Interface.
func (b *balancer) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return b, true }

// Initialize implements cloudprovider.Interface.
func (b *balancer) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// Instances implements cloudprovider.Interface.
func (b *balancer) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 implements cloudprovider.Interface.
func (b *balancer) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// Zones implements cloudprovider.Interface.
func (b *balancer) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters implements cloudprovider.Interface.
func (b *balancer) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes implements cloudprovider.Interface.
func (b *balancer) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName implements cloudprovider.Interface.
func (b *balancer) ProviderName() string { return Name }

// HasClusterID implements cloudprovider.Interface.
func (b *balancer) HasClusterID() bool { return true }
