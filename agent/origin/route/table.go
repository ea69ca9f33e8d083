package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/agent/origin/merge"
	"github.com/a4s-io/a4s/internal/space"
)

// partition is one that requests are sent to.
type partition struct {
	origin.Partition
	*guard
	stop context.CancelFunc // ends its probes
}

// qualifier is the name of the partition in qualified names, empty for home.
func (p *partition) qualifier() string {
	if p.Home {
		return ""
	}
	return p.Name
}

func (p *partition) close() {
	p.mu.Lock() // nobody begins to probe from now on
	p.stop()
	p.mu.Unlock()
	p.probes.Wait()
}

// table has the partitions of one moment. It never changes.
type table struct {
	all    []*partition // home first, then by name
	home   *partition
	byName map[string]*partition
	// alone says that there is one partition and nothing to be merged.
	alone bool

	node        *partition // the resource partition, nil if it is home
	nodeName    string
	self        *ownNode
	collections *merge.Collections
}

// partitions are all of them, by the ways that are watched over.
func (t *table) partitions() []origin.Partition {
	var out []origin.Partition
	for _, p := range t.all {
		out = append(out, p.Partition)
	}
	return out
}

// resourcePartition is the one that has the node.
func (t *table) resourcePartition() *partition {
	if t.node != nil {
		return t.node
	}
	return t.home
}

// check says what is wrong with a list of partitions.
func check(all []origin.Partition) error {
	homes := 0
	seen := map[string]bool{}
	var errs []error
	for _, p := range all {
		if err := space.ValidatePartition(p.Name); err != nil {
			errs = append(errs, err)
		}
		if seen[p.Name] {
			errs = append(errs, fmt.Errorf("there are two partitions %q", p.Name))
		}
		seen[p.Name] = true
		if p.Transport == nil {
			errs = append(errs, fmt.Errorf("there is no way to partition %q", p.Name))
		}
		if p.Home {
			homes++
		}
	}
	if homes != 1 {
		errs = append(errs, fmt.Errorf("of %d partitions %d are the home partition", len(all), homes))
	}
	return errors.Join(errs...)
}

// newTable makes the table of a list, with the partitions of the one before that are
// still there.
func (r *Router) newTable(old *table, all []origin.Partition) (*table, error) {
	if err := check(all); err != nil {
		return nil, err
	}
	t := &table{byName: map[string]*partition{}, node: r.node, nodeName: r.o.NodeName, self: &r.self,
		collections: r.collections}
	for _, p := range all {
		if old == nil || old.byName[p.Name] == nil {
			continue
		}
		was := old.byName[p.Name]
		switch {
		case was.Home != p.Home:
			return nil, fmt.Errorf("another partition than %q is the home partition", old.home.Name)
		case !was.Same(p):
		case was.Identity == "" && p.Identity != "":
			known := *was
			known.Identity = p.Identity
			t.byName[p.Name] = &known
		default:
			t.byName[p.Name] = was
		}
	}
	if old != nil && t.byName[old.home.Name] == nil {
		return nil, fmt.Errorf("the home partition %q is missing", old.home.Name)
	}
	for _, p := range all {
		if t.byName[p.Name] == nil {
			t.byName[p.Name] = r.newPartition(p)
		}
		t.all = append(t.all, t.byName[p.Name])
		if p.Home {
			t.home = t.byName[p.Name]
		}
		switch {
		case p.Node && p.Home:
			t.node = nil
		case p.Node:
			t.node = t.byName[p.Name]
		}
	}
	slices.SortFunc(t.all, func(a, b *partition) int {
		switch {
		case a.Home:
			return -1
		case b.Home:
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	t.alone = len(all) == 1 && t.node == nil && (old == nil || old.alone)
	return t, nil
}

func (r *Router) newPartition(p origin.Partition) *partition {
	ctx, stop := context.WithCancel(r.ctx)
	g := &guard{ctx: ctx, name: p.Name, rt: p.Transport, limit: r.o.Limit, every: r.o.ProbeEvery, log: r.o.Log}
	p.Transport = g // the merged collections are followed by it, too
	return &partition{Partition: p, guard: g, stop: stop}
}

// owner returns the partition of a namespace, and what the namespace is called there.
// It is nil if that is not known.
func (t *table) owner(namespace string) (p *partition, composite string) {
	if name, composite := space.UnqualifyNamespace(namespace); name != "" {
		if p := t.byName[name]; p != nil && !p.Home {
			return p, composite
		}
		return nil, namespace
	}
	tenant, _ := space.SplitNamespace(namespace)
	return t.ofTenant(tenant), namespace
}

// Partition returns the partition of a namespace, as an option of the transport of the
// kubelet.
func (r *Router) Partition(namespace string) (origin.Partition, bool) {
	t := r.table.Load()
	if t == nil {
		return origin.Partition{}, false
	}
	p, _ := t.owner(namespace)
	if p == nil {
		return origin.Partition{}, false
	}
	return p.Partition, true
}

// ofTenant returns the partition of a tenant or of the system space, nil if it is not
// known.
func (t *table) ofTenant(tenant string) *partition {
	if space.IsSystem(tenant) || len(t.all) == 1 {
		return t.home
	}
	name, ok := t.collections.Placement().Of(tenant)
	if !ok {
		return nil
	}
	return t.byName[name]
}
