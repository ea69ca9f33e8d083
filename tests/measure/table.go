package measure

import (
	"fmt"
	"math"
	"strings"
)

// Table is what was measured in Markdown: a line for each quantity, with medians
// and, of all sides but the first, the ratios to that one. Quantities that no
// side has are left out.
func (r Rounds) Table(quantities, sides []string) string {
	base, others := sides[0], sides[1:]
	var s strings.Builder
	fmt.Fprintf(&s, "| | %s |", base)
	for _, side := range others {
		fmt.Fprintf(&s, " %s | ratio |", side)
	}
	s.WriteString("\n|---|---|" + strings.Repeat("---|---|", len(others)) + "\n")
	for _, quantity := range quantities {
		line, empty := r.line(quantity, base, others)
		if !empty {
			fmt.Fprintf(&s, "| %s |%s\n", quantity, line)
		}
	}
	return s.String()
}

func (r Rounds) line(quantity, base string, others []string) (_ string, empty bool) {
	first := r.Of(quantity, base).Median
	empty = math.IsNaN(first)
	var s strings.Builder
	fmt.Fprintf(&s, " %s |", Number(first))
	for _, side := range others {
		value := r.Of(quantity, side).Median
		empty = empty && math.IsNaN(value)
		fmt.Fprintf(&s, " %s |", Number(value))
		ratio := r.Ratio(quantity, side, base)
		if math.IsNaN(ratio.Median) {
			s.WriteString(" |")
			continue
		}
		fmt.Fprintf(&s, " %.2f (%.2f–%.2f) |", ratio.Median, ratio.Low, ratio.High)
	}
	return s.String(), empty
}

// Number has three significant digits; what was not measured is nothing.
func Number(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
