package upstream

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/tests/measure"
)

const (
	// settle is how long sides are left alone before they are weighed: a4s
	// gives memory back after an idle minute that follows a busy one.
	settle = 150 * time.Second
	// weighings are taken over a minute.
	weighings, between = 7, 10 * time.Second
	// tick is the unit of processor time in /proc, on every Linux that Go runs on.
	tick = 10 * time.Millisecond
)

// BenchmarkIdle weighs sides that have nothing to do: control plane and node
// without a pod, all sides at the same time.
func BenchmarkIdle(b *testing.B) {
	for b.Loop() {
		round := measure.Round{}
		var all []*cluster
		for _, side := range []string{sideUpstream, sideA4s, sidePlain} {
			c := newCluster(b, side)
			c.start()
			c.awaitNode(b, time.Time{})
			all = append(all, c)
		}
		time.Sleep(settle) // what is measured is doing nothing
		weigh(b, round, "idle", all)
		for _, c := range all {
			c.close()
		}
		keep(b, "idle", round)
	}
}

// weigh sets the memory of all programs of sides, the median of several
// looks, and their processor time meanwhile.
func weigh(b *testing.B, round measure.Round, what string, all []*cluster) {
	b.Helper()
	values := map[string]map[string][]float64{}
	used := map[*cluster]time.Duration{}
	began := time.Now()
	for i := range weighings {
		if i > 0 {
			time.Sleep(between)
		}
		for _, c := range all {
			programs, err := c.programs()
			if err != nil {
				b.Fatal(err)
			}
			sums := map[string]float64{}
			cpu := time.Duration(0)
			for _, p := range programs {
				sums["RSS, MiB"] += p.rss
				sums["PSS, MiB"] += p.pss
				sums["own pages, MiB"] += p.anon
				sums["PSS of "+p.name+", MiB"] += p.pss
				cpu += p.cpu
			}
			if i == 0 {
				used[c] = cpu
			}
			sums["processor, % of one"] = 100 * (cpu - used[c]).Seconds() / time.Since(began).Seconds()
			for quantity, v := range sums {
				if values[quantity] == nil {
					values[quantity] = map[string][]float64{}
				}
				values[quantity][c.name] = append(values[quantity][c.name], v)
			}
		}
	}
	for quantity, sides := range values {
		for side, v := range sides {
			if strings.HasPrefix(quantity, "processor") {
				round.Set(what+": "+quantity, side, v[len(v)-1])
				continue
			}
			slices.Sort(v)
			round.Set(what+": "+quantity, side, measure.Quantile(v, 0.5))
		}
	}
}

// usage is what one process of a side has.
type usage struct {
	name string
	// In MiB: resident, with its share of shared pages, not of a file.
	rss, pss, anon float64
	cpu            time.Duration
}

// programs returns all processes of the side's host but its first.
func (c *cluster) programs() ([]usage, error) {
	c.mu.Lock()
	var own string
	for _, p := range c.procs {
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.PID())); err == nil {
			own = link
		}
	}
	c.mu.Unlock()
	if own == "" {
		return nil, fmt.Errorf("nothing of %s runs", c.name)
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var all []usage
	for _, dir := range dirs {
		if link, err := os.Readlink(dir + "/ns/pid"); err != nil || link != own {
			continue
		}
		status, err := os.ReadFile(dir + "/status")
		if err != nil {
			continue // it has ended
		}
		if strings.HasSuffix(field(status, "NSpid:"), "\t1") {
			continue
		}
		rollup, err := os.ReadFile(dir + "/smaps_rollup")
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		mib := func(name string) float64 {
			kib, _ := strconv.ParseFloat(strings.TrimSuffix(field(rollup, name), " kB"), 64)
			return kib / 1024
		}
		// After the name, which may have spaces, come state, parent and so on.
		numbers := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		user, err := strconv.Atoi(numbers[11])
		if err != nil {
			return nil, err
		}
		system, err := strconv.Atoi(numbers[12])
		if err != nil {
			return nil, err
		}
		all = append(all, usage{
			name: processName(dir), rss: mib("Rss:"), pss: mib("Pss:"), anon: mib("Pss_Anon:"), cpu: time.Duration(user+system) * tick,
		})
	}
	return all, nil
}

// processName is what the process was called as.
func processName(dir string) string {
	line, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return "?"
	}
	name, _, _ := strings.Cut(string(line), "\x00")
	return filepath.Base(name)
}

// field returns the value behind a name at the beginning of a line.
func field(text []byte, name string) string {
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// cpu is the processor time of all processes of the side.
func (c *cluster) cpu(b *testing.B) time.Duration {
	b.Helper()
	programs, err := c.programs()
	if err != nil {
		b.Fatal(err)
	}
	sum := time.Duration(0)
	for _, p := range programs {
		sum += p.cpu
	}
	return sum
}
