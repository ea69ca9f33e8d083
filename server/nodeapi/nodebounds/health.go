package nodebounds

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/server/controlplane/noderanges"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

// Check tells the registry which nodes have ranges that they cannot have.
func (b *Bounds) Check(_ context.Context, r *health.Registry) {
	if b.known() != nil {
		return
	}
	all, err := b.nodes.List(labels.Everything())
	if err != nil {
		return // a lister does not fail
	}
	own := func(yield func(*corev1.Node) bool) {
		for _, n := range all {
			if _, copied := n.Labels[nodecopies.Label]; !copied && !yield(n) {
				return
			}
		}
	}
	unfit := noderanges.Unfit(own, b.o.Ranges)
	for name, why := range unfit {
		r.Set(health.NodeRangeUnfit, name, why.Error())
	}
	r.Keep(health.NodeRangeUnfit, slices.Collect(maps.Keys(unfit)))
}
