package limits

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"
)

// most is what one object costs at most of anything.
const most = 1 << 50

// charged are the resources whose objects cost more than their keys say.
func charged(r schema.GroupResource) bool {
	switch r {
	case schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "services"},
		schema.GroupResource{Resource: "persistentvolumeclaims"},
		schema.GroupResource{Group: resourceapi.GroupName, Resource: "resourceclaims"}:
		return true
	}
	return false
}

func chargeOf(obj runtime.Object) charge {
	switch o := obj.(type) {
	case *core.Pod:
		if ended(o) {
			return charge{}
		}
		return charge{pods: 1, cpu: podRequest(o, core.ResourceCPU), memory: podRequest(o, core.ResourceMemory)}
	case *core.Service:
		c := charge{services: 1, nodePorts: nodePortsOf(o)}
		if o.Spec.Type == core.ServiceTypeLoadBalancer {
			c.loadBalancers, c.balancerPorts = 1, int64(len(o.Spec.Ports))
		}
		return c
	case *resourceapi.ResourceClaim:
		return charge{claim: claimOf(o)}
	case *core.PersistentVolumeClaim:
		// What a larger volume has is not given back when less is asked for.
		return charge{volumes: max(amount(core.ResourceStorage, o.Spec.Resources.Requests),
			amount(core.ResourceStorage, o.Status.AllocatedResources))}
	}
	return charge{}
}

// nodePortsOf is how many ports of the nodes a Service has: what is stored has those
// that it was given. A number for TCP and UDP is one of the range.
func nodePortsOf(s *core.Service) int64 {
	ports := map[int32]bool{}
	for _, p := range s.Spec.Ports {
		ports[p.NodePort] = true
	}
	ports[s.Spec.HealthCheckNodePort] = true
	delete(ports, 0)
	return int64(len(ports))
}

// ended pods run nothing any more. Admission sees to it that only the system
// says so.
func ended(p *core.Pod) bool {
	return p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed
}

// amount is that of a resource, cpu in thousandths.
func amount(of core.ResourceName, list core.ResourceList) int64 {
	return counted(list[of], of == core.ResourceCPU)
}

// counted is a quantity as a number, in thousandths or rounded up.
func counted(q resource.Quantity, milli bool) int64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case q.Cmp(*resource.NewQuantity(most, resource.DecimalSI)) > 0,
		milli && q.Cmp(*resource.NewQuantity(most/1000, resource.DecimalSI)) > 0:
		return most
	case milli:
		return q.MilliValue()
	}
	return q.Value()
}

// wanted is what requirements ask for, or are bounded by if they ask nothing.
func wanted(of core.ResourceName, r core.ResourceRequirements) int64 {
	if _, ok := r.Requests[of]; ok {
		return amount(of, r.Requests)
	}
	return amount(of, r.Limits)
}

// podRequest is what a pod needs at most at any time, as the scheduler reckons:
// its containers and sidecars together, or one that initializes with the
// sidecars before it, and the overhead.
func podRequest(p *core.Pod, of core.ResourceName) int64 {
	allocated := map[string]int64{}
	for _, statuses := range [][]core.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for _, s := range statuses {
			allocated[s.Name] = amount(of, s.AllocatedResources)
		}
	}
	// What a node has set aside counts until it takes it back.
	one := func(c *core.Container) int64 { return max(wanted(of, c.Resources), allocated[c.Name]) }
	var together, sidecars, first int64
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == core.ContainerRestartPolicyAlways {
			sidecars = min(sidecars+one(c), most)
			first = max(first, sidecars)
			continue
		}
		first = max(first, min(sidecars+one(c), most))
	}
	for i := range p.Spec.Containers {
		together = min(together+one(&p.Spec.Containers[i]), most)
	}
	sum := max(first, min(together+sidecars, most))
	if r := p.Spec.Resources; r != nil {
		if whole := wanted(of, *r); whole > 0 {
			sum = max(whole, amount(of, p.Status.AllocatedResources))
		}
	}
	return min(sum+amount(of, p.Spec.Overhead), most)
}
