package noderanges

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Range is one of the cluster, and the size of those of nodes in it.
type Range struct {
	Cluster netip.Prefix
	Bits    int
}

// Read reads the ranges of a node and returns why it cannot have them.
func Read(cidrs []string, in []Range) ([]netip.Prefix, error) {
	if len(cidrs) > len(in) {
		return nil, fmt.Errorf("a node of this cluster has %d, not %d", len(in), len(cidrs))
	}
	var out []netip.Prefix
	for i, text := range cidrs {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Masked() != p || p.Bits() != in[i].Bits || !in[i].Cluster.Contains(p.Addr()) {
			return nil, fmt.Errorf("%q is not a range of /%d in %s, as all nodes of this cluster have",
				text, in[i].Bits, in[i].Cluster)
		}
		out = append(out, p)
	}
	return out, nil
}

// Stored are ranges as they are, without those that are none.
func Stored(cidrs []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range cidrs {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// Overlap reports whether one of the ranges has a part of one of the others.
func Overlap(a, b []netip.Prefix) bool {
	return slices.ContainsFunc(a, func(p netip.Prefix) bool { return slices.ContainsFunc(b, p.Overlaps) })
}

// Unfit are the nodes with ranges that no server would store today, and why: they are of a time
// before that was looked at, or before the range of the cluster was another. Of nodes with the same
// range all but the first are.
func Unfit(nodes iter.Seq[*corev1.Node], in []Range) map[string]error {
	out := map[string]error{}
	if len(in) == 0 {
		return out
	}
	// All have the same size, so two that overlap are the same.
	first := map[netip.Prefix]string{}
	for n := range nodes {
		of, err := Read(n.Spec.PodCIDRs, in)
		if err != nil {
			out[n.Name] = err
			continue
		}
		for _, p := range of {
			if owner, taken := first[p]; taken {
				out[n.Name] = fmt.Errorf("the range %s is that of node %s, too", p, owner)
			} else {
				first[p] = n.Name
			}
		}
	}
	return out
}
