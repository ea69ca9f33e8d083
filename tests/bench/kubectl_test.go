package bench

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// BenchmarkKubectlStart compares what `a4s kubectl` costs before it asks a server anything with what
// upstream's kubectl does, built with the same settings: medians of the time, the processor time and the
// resident memory of two commands that need no server.
func BenchmarkKubectlStart(b *testing.B) {
	binary, programs := os.Getenv("A4S_BINARY"), os.Getenv("A4S_UPSTREAM")
	if binary == "" || programs == "" {
		b.Skip("needs the built binary and upstream's: run it with `make bench-kubectl`")
	}
	upstream := []string{filepath.Join(programs, "kubectl")}
	own := []string{binary, "kubectl"}
	for _, args := range [][]string{{"version", "--client"}, {"get", "--help"}} {
		b.Run(args[0], func(b *testing.B) {
			var theirs, ours []launched
			for b.Loop() { // in turns, so that both meet the same machine
				theirs = append(theirs, start(b, slices.Concat(upstream, args)...))
				ours = append(ours, start(b, slices.Concat(own, args)...))
			}
			for _, of := range []struct {
				name, unit string
				scale      float64
				value      func(launched) int64
			}{
				{"time", "ms", 1e6, func(l launched) int64 { return int64(l.took) }},
				{"user", "ms", 1e6, func(l launched) int64 { return int64(l.user) }},
				{"RSS", "MiB", 1 << 10, func(l launched) int64 { return l.rss }},
			} {
				their, our := medianOf(theirs, of.value), medianOf(ours, of.value)
				b.ReportMetric(their/of.scale, "upstream-"+of.name+"-"+of.unit)
				b.ReportMetric(our/of.scale, "a4s-"+of.name+"-"+of.unit)
				b.ReportMetric(our/their, of.name+"-ratio")
			}
		})
	}
}

func medianOf(all []launched, value func(launched) int64) float64 {
	values := make([]int64, 0, len(all))
	for _, l := range all {
		values = append(values, value(l))
	}
	slices.Sort(values)
	return float64(values[(len(values)-1)/2])
}
