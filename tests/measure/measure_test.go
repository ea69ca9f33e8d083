package measure

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func TestRatioIsOfRounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "rounds.json")
	var all Rounds
	// The machine gets ever slower, for both sides; in one round it hiccups.
	for _, v := range [][2]float64{{10, 20}, {20, 40}, {40, 80}, {80, 160}, {1000, 10}, {160, 320},
		{320, 640}, {640, 1280}} {
		round := Round{}
		round.Set("gets", "a", v[0])
		round.Set("gets", "b", v[1])
		var err error
		if all, err = Append(path, round); err != nil {
			t.Fatal(err)
		}
	}
	read, err := Read(path)
	if err != nil || len(read) != len(all) {
		t.Fatalf("read %d of %d rounds: %v", len(read), len(all), err)
	}
	if got, want := read.Ratio("gets", "a", "b"), (Estimate{0.5, 0.5, 100}); got != want {
		t.Errorf("the ratio is %v, want %v", got, want)
	}
	if got := read.Of("gets", "a").Median; got != 120 {
		t.Errorf("the median is %v, want 120", got)
	}
	if got := read.Ratio("gets", "a", "nobody"); !math.IsNaN(got.Median) {
		t.Errorf("the ratio to nobody is %v", got)
	}
}

func TestEstimateBounds(t *testing.T) {
	for n, want := range map[int]Estimate{
		1:  {1, 1, 1},
		5:  {1, 3, 5},
		6:  {1, 3.5, 6}, // 0.5^6 on either side is 3 % together
		9:  {2, 5, 8},   // 10 of 512 lie outside on each side
		20: {6, 10.5, 15},
	} {
		var values []float64
		for i := range n {
			values = append(values, float64(n-i))
		}
		if got := estimate(values); got != want {
			t.Errorf("of 1 to %d: %v, want %v", n, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{1, 2, 3, 4, 5}
	for part, want := range map[float64]float64{0: 1, 0.5: 3, 0.875: 4.5, 1: 5} {
		if got := Quantile(values, part); got != want {
			t.Errorf("%v: %v, want %v", part, got, want)
		}
	}
}

func TestChartIsXML(t *testing.T) {
	c := Chart{Title: "a < b", Unit: "s", Line: 1, Groups: []Group{
		{Name: "start", Bars: []Bar{{"a", Estimate{1, 2, 3}}, {"b", Estimate{4, 5, 6}}}},
		{Name: "again", Bars: []Bar{{"a", Estimate{1, 1, 1}}}},
	}}
	var s strings.Builder
	if err := c.SVG(&s); err != nil {
		t.Fatal(err)
	}
	rects := 0
	for d := xml.NewDecoder(strings.NewReader(s.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, s.String())
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			rects++
		}
	}
	if rects != 1+2+3 { // background, legend, bars
		t.Errorf("%d rectangles in\n%s", rects, s.String())
	}
}

func TestTable(t *testing.T) {
	one, two := Round{}, Round{}
	for side, v := range map[string][2]float64{"a": {100, 200}, "b": {50, 110}} {
		one.Set("gets", side, v[0])
		two.Set("gets", side, v[1])
	}
	one.Set("kept", "b", 1234.5)
	const want = `| | a | b | ratio |
|---|---|---|---|
| gets | 150 | 80 | 0.53 (0.50–0.55) |
| kept |  | 1234 | |
`
	if got := (Rounds{one, two}).Table([]string{"gets", "lists", "kept"}, []string{"a", "b"}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
