package route

import (
	"context"

	"github.com/a4s-io/a4s/internal/health"
)

// Check tells which tenant partitions this node does not reach. It asks nobody: the node has
// watches of each, which are begun again as long as they fail.
func (r *Router) Check(_ context.Context, h *health.Registry) {
	var names []string
	if t := r.table.Load(); t != nil && !t.alone {
		for _, p := range t.all {
			if err := p.failed(); err != nil {
				names = append(names, p.Name)
				h.Set(health.PartitionUnreachable, p.Name, err.Error())
			}
		}
	}
	h.Keep(health.PartitionUnreachable, names)
}
