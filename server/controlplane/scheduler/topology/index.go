package topology

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/a4s-io/a4s/internal/space"
)

// index says which nodes of a snapshot have pods of a namespace, which have any of a tenant, and which have pods whose
// terms of affinity can mean those of a tenant. It has no lock: there is one scheduling cycle at a time.
type index struct {
	rows       []row
	namespaces places
	tenants    places
	affine     places
	// cycle is that in which the snapshot was read. It does not change until the next one.
	cycle fwk.CycleState
	nodes []fwk.NodeInfo
}

// places are positions of nodes in the snapshot, by a name.
type places map[string]positions

type positions map[int]struct{}

func (p places) add(name string, at int) {
	if p[name] == nil {
		p[name] = positions{}
	}
	p[name][at] = struct{}{}
}

func (p places) remove(name string, at int) {
	delete(p[name], at)
	if len(p[name]) == 0 {
		delete(p, name)
	}
}

// move has the node at a position have these names instead of those.
func (p places) move(at int, from, to []string) {
	if slices.Equal(from, to) {
		return
	}
	for _, name := range from {
		p.remove(name, at)
	}
	for _, name := range to {
		p.add(name, at)
	}
}

// row is what is known of the node at a position. A generation is never given out twice, so a node with the same one
// has the same pods, also if it is a copy.
type row struct {
	generation                  int64
	namespaces, tenants, affine []string
}

func newIndex() *index { return &index{namespaces: places{}, tenants: places{}, affine: places{}} }

// read takes in what has changed since the last cycle. It looks at the generation of each node, which is a few
// nanoseconds, and at the pods of those that changed.
func (x *index) read(cycle fwk.CycleState, nodes []fwk.NodeInfo) {
	if cycle == x.cycle && sameList(nodes, x.nodes) {
		return
	}
	x.cycle, x.nodes = cycle, nodes
	for at := len(nodes); at < len(x.rows); at++ {
		x.set(at, row{})
	}
	x.rows = slices.Grow(x.rows[:min(len(x.rows), len(nodes))], len(nodes))[:len(nodes)]
	for at, node := range nodes {
		if generation := node.GetGeneration(); generation != x.rows[at].generation {
			x.set(at, rowOf(node, generation))
		}
	}
}

func (x *index) set(at int, now row) {
	was := &x.rows[at]
	x.namespaces.move(at, was.namespaces, now.namespaces)
	x.tenants.move(at, was.tenants, now.tenants)
	x.affine.move(at, was.affine, now.affine)
	*was = now
}

func rowOf(node fwk.NodeInfo, generation int64) row {
	r := row{generation: generation, namespaces: namespacesOf(node.GetPods())}
	r.tenants = tenantsOf(r.namespaces)
	for _, p := range node.GetPodsWithAffinity() {
		r.affine = append(r.affine, reachOf(p.GetPod()))
	}
	slices.Sort(r.affine)
	r.affine = slices.Compact(r.affine)
	return r
}

// namespacesOf are the namespaces of pods, sorted.
func namespacesOf(pods []fwk.PodInfo) []string {
	var names []string
	last := ""
	for _, p := range pods {
		if name := p.GetPod().Namespace; name != last {
			names, last = append(names, name), name
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func tenantsOf(namespaces []string) []string {
	var names []string
	for _, n := range namespaces {
		names = append(names, space.OfNamespace(n))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nodesIn returns the nodes at any of the positions.
func (x *index) nodesIn(sets ...positions) []fwk.NodeInfo {
	n := 0
	for _, set := range sets {
		n += len(set)
	}
	if n >= len(x.nodes) {
		return x.nodes // no more work than upstream's, whatever a pod names how often
	}
	found := positions{}
	if len(sets) == 1 {
		found = sets[0]
	} else {
		for _, set := range sets {
			maps.Copy(found, set)
		}
	}
	nodes := make([]fwk.NodeInfo, 0, len(found))
	for at := range found {
		nodes = append(nodes, x.nodes[at])
	}
	return nodes
}

// affineTo is where pods can be whose terms of affinity mean a pod: those that mean its space, and that mean all.
func (x *index) affineTo(pod *corev1.Pod) []positions {
	return []positions{x.affine[space.OfNamespace(pod.Namespace)], x.affine[space.All]}
}

// meant returns the nodes with pods that terms of a pod can mean, and those at other positions, or all if the terms
// can mean pods of any tenant.
func (x *index) meant(
	pod *corev1.Pod, terms []corev1.PodAffinityTerm, all []fwk.NodeInfo, others ...positions,
) []fwk.NodeInfo {
	sets := slices.Clone(others)
	for _, t := range terms {
		for _, namespace := range t.Namespaces {
			sets = append(sets, x.namespaces[namespace])
		}
		switch {
		case t.NamespaceSelector == nil && len(t.Namespaces) == 0:
			sets = append(sets, x.namespaces[pod.Namespace])
		case t.NamespaceSelector == nil:
		case t.NamespaceSelector.MatchLabels[space.Label] == "":
			return all
		default:
			sets = append(sets, x.tenants[t.NamespaceSelector.MatchLabels[space.Label]])
		}
	}
	return x.nodesIn(sets...)
}

// sameList reports whether two lists are one.
func sameList(a, b []fwk.NodeInfo) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// reachOf is the tenant whose pods the terms of a pod can mean, space.All for those of all.
func reachOf(pod *corev1.Pod) string {
	tenant := space.OfNamespace(pod.Namespace)
	for _, t := range slices.Concat(requiredTerms(pod), preferredTerms(pod)) {
		if s := t.NamespaceSelector; s != nil && s.MatchLabels[space.Label] != tenant {
			return space.All
		}
		if slices.ContainsFunc(t.Namespaces, func(n string) bool { return space.OfNamespace(n) != tenant }) {
			return space.All
		}
	}
	return tenant
}
