package ownership

import "slices"

// Moves are the tenants that a group holds by the first table and not by the second,
// and those that it holds by the second and not by the first.
func Moves(from, to *Table, group string) (gone, come []Span) {
	los := make([]string, 0, len(from.segments)+len(to.segments))
	for _, t := range []*Table{from, to} {
		for _, p := range t.segments {
			los = append(los, p.lo)
		}
	}
	slices.Sort(los)
	los = slices.Compact(los)
	for i, lo := range los {
		s := Span{Lo: lo, Open: i == len(los)-1}
		if !s.Open {
			s.Hi = los[i+1]
		}
		switch before, after := from.Holds(group, lo), to.Holds(group, lo); {
		case before && !after:
			gone = extend(gone, s)
		case after && !before:
			come = extend(come, s)
		}
	}
	return gone, come
}

// extend adds a span that comes behind all others.
func extend(spans []Span, s Span) []Span {
	if n := len(spans); n > 0 && !spans[n-1].Open && spans[n-1].Hi == s.Lo {
		spans[n-1].Hi, spans[n-1].Open = s.Hi, s.Open
		return spans
	}
	return append(spans, s)
}
