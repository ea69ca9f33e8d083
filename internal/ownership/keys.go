package ownership

import (
	"slices"
	"strings"

	"github.com/a4s-io/a4s/internal/space"
)

// Range is the keys from From up to To, without To.
type Range struct{ From, To string }

// Has reports whether a key is in the range.
func (r Range) Has(key string) bool { return key >= r.From && key < r.To }

// Cut is what two ranges have in common; ok is false for nothing.
func (r Range) Cut(o Range) (_ Range, ok bool) {
	c := Range{max(r.From, o.From), min(r.To, o.To)}
	return c, c.From < c.To
}

// below is the keys that begin with dir, which ends in a slash.
func below(dir string) Range { return Range{dir, dir[:len(dir)-1] + "0"} }

// Ranges are the keys below prefix, which ends in a slash, where the objects of a
// group's tenants and of these namespaces of the system are: ordered, not empty and
// without touching each other. It is for namespaced resources, whose keys are
// tenant/namespace/name and namespace/name. A namespace of the system brings along the
// tenant of its name, which Foreign distinguishes.
//
// Tenants are in the order of their names, and keys in that of names with a slash
// behind, which differ where one name begins with the other: "a" < "a-b", but
// "a-b/" < "a/".
func (t *Table) Ranges(group, prefix string, namespaces []string) []Range {
	var all []Range
	for _, s := range t.Spans(group) {
		all = append(all, s.ranges(prefix)...)
	}
	for _, ns := range namespaces {
		all = append(all, below(prefix+ns+"/"))
	}
	return union(all)
}

// RangesOf are the keys below prefix of the tenants in some spans, ordered, not empty and
// without touching each other. Keys of the system may come along.
func RangesOf(spans []Span, prefix string) []Range {
	var all []Range
	for _, s := range spans {
		all = append(all, s.ranges(prefix)...)
	}
	return union(all)
}

// ranges are the keys of the tenants in a span.
func (s Span) ranges(prefix string) []Range {
	if !s.Open && s.Hi == after(s.Lo) {
		return []Range{below(prefix + s.Lo + "/")} // one tenant
	}
	main := Range{prefix + s.Lo, below(prefix).To}
	if !s.Open {
		main.To = prefix + s.Hi
	}
	var all []Range
	// Names that Lo begins with are before it, and their keys behind.
	for _, e := range shorter(s.Lo) {
		dir := below(prefix + e + "/")
		if dir.From < main.From || dir.From >= main.To {
			continue
		}
		all = append(all, Range{main.From, dir.From})
		main.From = dir.To
	}
	all = append(all, main)
	// Names that Hi begins with are before it, and their keys behind, too.
	if !s.Open {
		for _, e := range shorter(s.Hi) {
			if e >= s.Lo {
				all = append(all, below(prefix+e+"/"))
			}
		}
	}
	return all
}

// shorter are the names that name begins with and whose keys come after those of it,
// in the order of their keys.
func shorter(name string) []string {
	var out []string
	for i := len(name) - 1; i > 0; i-- {
		if name[i] < '/' {
			out = append(out, name[:i])
		}
	}
	return out
}

// union is what is in any of the ranges.
func union(all []Range) []Range {
	all = slices.DeleteFunc(all, func(r Range) bool { return r.From >= r.To })
	slices.SortFunc(all, func(a, b Range) int { return strings.Compare(a.From, b.From) })
	var out []Range
	for _, r := range all {
		if n := len(out); n > 0 && r.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out
}

// TenantOf is the tenant that owns a stored key; rest is what the key has behind the
// prefix of its resource.
func TenantOf(layout space.Layout, rest string) string {
	slashes := 1
	if layout == space.Namespaced {
		slashes = 2
	}
	if strings.Count(rest, "/") < slashes {
		return space.System
	}
	tenant, _, _ := strings.Cut(rest, "/")
	return tenant
}

// Foreign reports whether a stored key is one of a tenant that a group does not hold.
func (t *Table) Foreign(group string, layout space.Layout, rest string) bool {
	tenant := TenantOf(layout, rest)
	return tenant != space.System && !t.Holds(group, tenant)
}
