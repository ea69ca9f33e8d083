package measure

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Round has what one round measured: values by side by quantity.
type Round map[string]map[string]float64

// Set keeps a value.
func (r Round) Set(quantity, side string, value float64) {
	if r[quantity] == nil {
		r[quantity] = map[string]float64{}
	}
	r[quantity][side] = value
}

// Rounds are all rounds of a benchmark.
type Rounds []Round

// Append adds a round to those in a file, which need not exist, and returns all
// of them.
func Append(path string, round Round) (Rounds, error) {
	all, err := Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all = append(all, round)
	data, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return all, os.WriteFile(path, append(data, '\n'), 0o644)
}

// Read returns the rounds in a file.
func Read(path string) (Rounds, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all Rounds
	return all, json.Unmarshal(data, &all)
}

// Estimate is a median, and between what it lies with a confidence of 95 % or,
// of fewer than six values, the smallest and the largest.
type Estimate struct{ Low, Median, High float64 }

// Of returns what was measured of a quantity on a side.
func (r Rounds) Of(quantity, side string) Estimate {
	var values []float64
	for _, round := range r {
		if v, ok := round[quantity][side]; ok {
			values = append(values, v)
		}
	}
	return estimate(values)
}

// Ratio returns by how much of a quantity a side has more than another.
func (r Rounds) Ratio(quantity, side, to string) Estimate {
	var ratios []float64
	for _, round := range r {
		a, ok := round[quantity][side]
		b, too := round[quantity][to]
		if ok && too && b != 0 {
			ratios = append(ratios, a/b)
		}
	}
	return estimate(ratios)
}

func estimate(values []float64) Estimate {
	if len(values) == 0 {
		return Estimate{math.NaN(), math.NaN(), math.NaN()}
	}
	slices.Sort(values)
	n := len(values)
	// The ranks between which the median lies, by the binomial distribution.
	low, below := 0, 0.0
	for k := 0; k <= n/2; k++ {
		if below += choose(n, k) * math.Pow(0.5, float64(n)); below > 0.025 {
			break
		}
		low = k
	}
	return Estimate{values[low], Quantile(values, 0.5), values[n-1-low]}
}

func choose(n, k int) float64 {
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return c
}

// Quantile returns the value below which a part of the values lies. They have
// to be in order.
func Quantile(values []float64, part float64) float64 {
	at := part * float64(len(values)-1)
	i := int(at)
	if i+1 >= len(values) {
		return values[len(values)-1]
	}
	return values[i] + (at-float64(i))*(values[i+1]-values[i])
}
