package nodebounds

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/core"
	nodestore "k8s.io/kubernetes/pkg/registry/core/node/storage"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/controlplane/noderanges"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

// settles is how long a range that was stored is remembered for the informer to learn of it.
const settles = time.Minute

// ranges keep the ranges of nodes apart. What is being stored counts before the informer knows
// of it. Two servers that store the same range within the moment that the informers of both are
// behind are not kept apart: one server alone gives nodes their ranges.
type ranges struct {
	b *Bounds

	mu     sync.Mutex
	stored map[string]held // by the name of the node
	now    func() time.Time
}

// held are ranges that are being stored, or were when at is set.
type held struct {
	of []netip.Prefix
	at time.Time
}

func newRanges(b *Bounds) *ranges { return &ranges{b: b, stored: map[string]held{}, now: time.Now} }

// Store extends upstream's storage of nodes, among others by path, behind what else does.
func (b *Bounds) Store(storage map[string]rest.Storage) error {
	nodes, ok := storage["nodes"].(*nodestore.REST)
	if !ok {
		return fmt.Errorf("nodes are stored as %T, whose ranges cannot be kept apart", storage["nodes"])
	}
	create, update := nodes.BeginCreate, nodes.BeginUpdate
	nodes.BeginCreate = func(
		ctx context.Context, obj runtime.Object, o *metav1.CreateOptions,
	) (genericregistry.FinishFunc, error) {
		first := nothing
		if create != nil {
			var err error
			if first, err = create(ctx, obj, o); err != nil {
				return nil, err
			}
		}
		b.stamp(obj)
		return b.ranges.begin(ctx, obj, &core.Node{}, len(o.DryRun) > 0, first)
	}
	nodes.BeginUpdate = func(
		ctx context.Context, obj, old runtime.Object, o *metav1.UpdateOptions,
	) (genericregistry.FinishFunc, error) {
		first := nothing
		if update != nil {
			var err error
			if first, err = update(ctx, obj, old, o); err != nil {
				return nil, err
			}
		}
		return b.ranges.begin(ctx, obj, old, len(o.DryRun) > 0, first)
	}
	return nil
}

// stamp writes on a Node that is made which certificates of its node are good, for other
// partitions to know. Later the record does.
func (b *Bounds) stamp(obj runtime.Object) {
	node, ok := obj.(*core.Node)
	if !ok || b.o.Mark == nil {
		return
	}
	if _, copied := node.Labels[nodecopies.Label]; copied {
		return
	}
	if mark, there := b.o.Mark(node.Name); there {
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[pki.NodeLife] = mark
	}
}

var nothing genericregistry.FinishFunc = func(context.Context, bool) {}

// begin judges the ranges that a Node gets, and holds them until the Node is stored. first ends
// what began before; it ends, too, when the ranges are refused.
func (r *ranges) begin(
	ctx context.Context, obj, old runtime.Object, dryRun bool, first genericregistry.FinishFunc,
) (genericregistry.FinishFunc, error) {
	node, ok := obj.(*core.Node)
	was, ok2 := old.(*core.Node)
	if !ok || !ok2 || len(r.b.o.Ranges) == 0 || slices.Equal(node.Spec.PodCIDRs, was.Spec.PodCIDRs) ||
		len(node.Spec.PodCIDRs) == 0 {
		return first, nil
	}
	if _, copied := node.Labels[nodecopies.Label]; copied {
		return first, nil // the partition that has the node judged it
	}
	if err := r.take(node); err != nil {
		first(ctx, false)
		return nil, err
	}
	return func(ctx context.Context, stored bool) {
		r.settle(node.Name, stored && !dryRun)
		first(ctx, stored)
	}, nil
}

// take holds the ranges of a node.
func (r *ranges) take(node *core.Node) error {
	where := field.NewPath("spec", "podCIDRs")
	invalid := func(err error) error {
		return apierrors.NewInvalid(core.Kind("Node"), node.Name, field.ErrorList{field.Invalid(where,
			strings.Join(node.Spec.PodCIDRs, ","), err.Error())})
	}
	of, err := noderanges.Read(node.Spec.PodCIDRs, r.b.o.Ranges)
	if err != nil {
		return invalid(err)
	}
	if err := r.b.known(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all, err := r.b.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("looking for the ranges of other nodes: %w", err)
	}
	seen := make(map[string]bool, len(all))
	for _, n := range all {
		seen[n.Name] = len(n.Spec.PodCIDRs) > 0
		if n.Name != node.Name && noderanges.Overlap(noderanges.Stored(n.Spec.PodCIDRs), of) {
			return invalid(fmt.Errorf("node %s has it, or a part of it", n.Name))
		}
	}
	for name, h := range r.stored {
		switch {
		case !h.at.IsZero() && (seen[name] || r.now().Sub(h.at) > settles):
			delete(r.stored, name) // the lister remembers it from now on
		case name != node.Name && noderanges.Overlap(h.of, of):
			return invalid(fmt.Errorf("node %s has it, or a part of it", name))
		}
	}
	r.stored[node.Name] = held{of: of}
	return nil
}

// settle says what became of it.
func (r *ranges) settle(node string, stored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.stored[node]
	switch {
	case !ok:
	case stored:
		r.stored[node] = held{of: h.of, at: r.now()}
	case h.at.IsZero():
		delete(r.stored, node)
	}
}

// deleted forgets a node that is gone.
func (r *ranges) deleted(obj any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h, ok := r.stored[name]; ok && !h.at.IsZero() {
		delete(r.stored, name)
	}
}
