package measure

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Chart is a drawing of horizontal bars.
type Chart struct {
	Title string
	// Unit is what is along the axis.
	Unit   string
	Groups []Group
	// Line is where a line is drawn, such as 1 for ratios; 0 is none.
	Line float64
}

// Group is bars under one name.
type Group struct {
	Name string
	Bars []Bar
}

// Bar is one value and its bounds. Bars of one name have one colour.
type Bar struct {
	Name string
	Estimate
}

// Sizes in pixels.
const (
	width, left, right = 760, 170, 90
	barHeight, gap     = 16, 12
	head, foot         = 64, 40
)

// SVG draws the chart.
func (c Chart) SVG(w io.Writer) error {
	colours := []string{"#2b6cb0", "#90cdf4", "#c05621", "#fbd38d", "#718096"}
	var names []string
	colour := map[string]string{}
	most, height := c.Line, head+foot
	for _, g := range c.Groups {
		height += len(g.Bars)*barHeight + gap
		for _, b := range g.Bars {
			most = max(most, b.Median, b.High)
			if colour[b.Name] == "" {
				colour[b.Name] = colours[len(names)%len(colours)]
				names = append(names, b.Name)
			}
		}
	}
	if most <= 0 {
		most = 1
	}
	step := tick(most)
	x := func(v float64) float64 { return left + v/most*(width-left-right) }

	var s strings.Builder
	text := func(x, y float64, anchor, value string) {
		fmt.Fprintf(&s, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor,
			html.EscapeString(value))
	}
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" `+
		`font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(10, 20, "start", c.Title)
	at := 10.0
	for _, name := range names {
		fmt.Fprintf(&s, `<rect x="%.0f" y="32" width="12" height="12" fill="%s"/>`+"\n", at, colour[name])
		text(at+17, 42, "start", name)
		at += 40 + 7*float64(len(name))
	}
	bottom := float64(height - foot)
	for i := range int(most/step) + 1 {
		v := float64(i) * step
		fmt.Fprintf(&s, `<line x1="%.1f" y1="%d" x2="%.1[1]f" y2="%.0[3]f" stroke="#ddd"/>`+"\n", x(v), head-8, bottom)
		text(x(v), bottom+15, "middle", fmt.Sprintf("%.4g", v))
	}
	text(x(0), bottom+31, "start", c.Unit)
	y := float64(head)
	for _, g := range c.Groups {
		text(left-8, y+float64(len(g.Bars)*barHeight)/2+4, "end", g.Name)
		for _, b := range g.Bars {
			fmt.Fprintf(&s, `<rect x="%d" y="%.1f" width="%.1f" height="%d" fill="%s"/>`+"\n", left, y,
				x(b.Median)-left, barHeight-3, colour[b.Name])
			middle := y + (barHeight-3)/2.0
			fmt.Fprintf(&s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1[2]f" stroke="#000"/>`+"\n",
				x(b.Low), middle, x(b.High))
			text(max(x(b.High), x(b.Median))+5, y+11, "start", fmt.Sprintf("%.3g", b.Median))
			y += barHeight
		}
		y += gap
	}
	if c.Line > 0 {
		fmt.Fprintf(&s, `<line x1="%.1f" y1="%d" x2="%.1[1]f" y2="%.0[3]f" stroke="#e53e3e" stroke-dasharray="4 3"/>`+
			"\n", x(c.Line), head-8, bottom)
	}
	s.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.String())
	return err
}

// tick is a round distance that fits some five times into most.
func tick(most float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(most/5)))
	for _, m := range []float64{1, 2, 5} {
		if most/(m*unit) <= 6 {
			return m * unit
		}
	}
	return 10 * unit
}
