package directory

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// known is what is known of the partitions at one moment. It never changes.
type known struct {
	// live says that it is a copy of home's list, and not what was known last.
	live bool
	// all are the partitions, by name: those that home lists and forgotten.
	all    []*partitionapi.Partition
	byName map[string]*partitionapi.Partition
	// listed is what home lists.
	listed map[string]*partitionapi.Partition
	// forgotten are those that home does not list, without a record of their removal.
	forgotten []*partitionapi.Partition
	removed   []partitionapi.RemovedPartition
}

// removedName finds the last record of a partition of a name.
func (k *known) removedName(name string) (last partitionapi.RemovedPartition, ok bool) {
	for _, r := range k.removed {
		if r.Name == name {
			last, ok = r, true
		}
	}
	return last, ok
}

// next is what is known after a list of home. A partition goes only when home has recorded
// that it was removed: until then one that home does not list stays as it was, and keeps its
// name.
func (k *known) next(list []*partitionapi.Partition) *known {
	out := &known{live: true, listed: map[string]*partitionapi.Partition{},
		byName: map[string]*partitionapi.Partition{}}
	for _, p := range list {
		out.listed[p.Name] = p
		if p.Name == partitionapi.Home {
			out.removed = p.Spec.Removed
		}
	}
	removed := map[string]bool{}
	for _, r := range out.removed {
		removed[r.Identity] = true
	}
	for _, p := range list {
		if !removed[p.Spec.Identity] {
			out.byName[p.Name] = p
		}
	}
	for _, p := range k.all {
		now := out.listed[p.Name]
		switch {
		case p.Name == partitionapi.Home:
			// It registers itself again, with another identity.
			if now == nil {
				out.byName[p.Name] = p
			}
		case removed[p.Spec.Identity] || now != nil && now.Spec.Identity == p.Spec.Identity:
		default:
			out.byName[p.Name] = p
			out.forgotten = append(out.forgotten, p)
		}
	}
	out.sort()
	return out
}

func (k *known) sort() {
	k.all = slices.SortedFunc(maps.Values(k.byName), func(a, b *partitionapi.Partition) int {
		return cmp.Compare(a.Name, b.Name)
	})
}

// held is what is known now.
type held struct {
	now atomic.Pointer[known]
	// replacing is held while it is replaced.
	replacing sync.Mutex
}

// Partitions are all partitions, in the order of their names.
func (h *held) Partitions() []*partitionapi.Partition { return h.now.Load().all }

// Partition finds a partition, nil when there is none.
func (h *held) Partition(name string) *partitionapi.Partition { return h.now.Load().byName[name] }

// Removed are the partitions that were removed, the latest last.
func (h *held) Removed() []partitionapi.RemovedPartition { return h.now.Load().removed }

// Registered finds a partition in home's list, nil when it has none.
func (h *held) Registered(name string) *partitionapi.Partition { return h.now.Load().listed[name] }

// Forgotten are the partitions that home does not know, and was not told to remove: it was
// restored from a snapshot. Instead of one it may have another of the name.
func (h *held) Forgotten() []*partitionapi.Partition { return h.now.Load().forgotten }

// recall begins with what was known last.
func (h *held) recall(list []*partitionapi.Partition) {
	k := (&known{}).next(list)
	k.live = false
	h.now.Store(k)
}

// learn takes over what home lists, once that is whole.
func (d *Directory) learn() {
	d.replacing.Lock()
	defer d.replacing.Unlock()
	if d.partitions.live() {
		d.now.Store(d.now.Load().next(d.partitions.all()))
	}
}
