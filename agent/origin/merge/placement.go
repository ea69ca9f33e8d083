package merge

import "sync"

// Placement says in which partition a tenant is, by what the partitions show of it.
// A tenant is in one; if two show the same, the first counts while it has anything.
type Placement struct {
	mu      sync.Mutex
	tenants map[string]*tenantPlace
	gone    []string // tenants of which nothing was left, the last ones
}

// maxGone is how many tenants are remembered of whom nothing is left.
const maxGone = 1024

func newPlacement() *Placement { return &Placement{tenants: map[string]*tenantPlace{}} }

type tenantPlace struct {
	partition string
	objects   map[string]int // by partition
}

// Of returns the partition of a tenant. It is remembered when nothing of the tenant
// is left, as the kubelet has last words about a pod.
func (p *Placement) Of(tenant string) (partition string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	place, ok := p.tenants[tenant]
	if !ok {
		return "", false
	}
	return place.partition, true
}

// add counts objects of a tenant. It reports whether this is the first of a partition
// while another one has the tenant.
func (p *Placement) add(tenant, partition string, n int) (elsewhere bool) {
	if tenant == "" {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	place := p.tenants[tenant]
	if place == nil {
		place = &tenantPlace{partition: partition, objects: map[string]int{}}
		p.tenants[tenant] = place
	}
	first := n > 0 && place.objects[partition] == 0
	place.objects[partition] += n
	if place.objects[partition] <= 0 {
		delete(place.objects, partition)
	}
	if place.objects[place.partition] == 0 {
		for other := range place.objects {
			place.partition = other
		}
	}
	if len(place.objects) == 0 {
		p.remember(tenant)
	}
	return first && place.partition != partition
}

// remember keeps a tenant of whom nothing is left, and forgets one of whom nothing
// came for long.
func (p *Placement) remember(tenant string) {
	p.gone = append(p.gone, tenant)
	if len(p.gone) <= maxGone {
		return
	}
	oldest := p.gone[0]
	p.gone = p.gone[1:]
	if place := p.tenants[oldest]; place != nil && len(place.objects) == 0 {
		delete(p.tenants, oldest)
	}
}

// forget is called when a partition has left and nothing of it is counted.
func (p *Placement) forget(partition string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for tenant, place := range p.tenants {
		if place.partition == partition && len(place.objects) == 0 {
			delete(p.tenants, tenant)
		}
	}
}
