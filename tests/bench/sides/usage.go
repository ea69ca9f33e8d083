package sides

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc, on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// Usage is what one process of a side has.
type Usage struct {
	Name string
	// In MiB: resident, with its share of shared pages, not of a file, and
	// the most that was ever resident.
	RSS, PSS, Anon, Peak float64
	CPU                  time.Duration
}

// processes returns the directories in /proc of all processes of the side's
// host but its first.
func (s *Side) processes() ([]string, error) {
	s.mu.Lock()
	var own string
	for _, p := range s.procs {
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.PID())); err == nil {
			own = link
		}
	}
	s.mu.Unlock()
	if own == "" {
		return nil, fmt.Errorf("nothing of %s runs", s.Host.Name)
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, dir := range dirs {
		if link, err := os.Readlink(dir + "/ns/pid"); err != nil || link != own {
			continue
		}
		status, err := os.ReadFile(dir + "/status")
		if err != nil || strings.HasSuffix(field(status, "NSpid:"), "\t1") {
			continue // it has ended, or is the first
		}
		all = append(all, dir)
	}
	return all, nil
}

// Programs returns what each process of the side uses.
func (s *Side) Programs() ([]Usage, error) {
	dirs, err := s.processes()
	if err != nil {
		return nil, err
	}
	var all []Usage
	for _, dir := range dirs {
		status, err := os.ReadFile(dir + "/status")
		if err != nil {
			continue // it has ended
		}
		rollup, err := os.ReadFile(dir + "/smaps_rollup")
		if err != nil {
			continue
		}
		cpu, err := cpuOf(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Usage{
			Name: processName(dir), CPU: cpu, Peak: mib(status, "VmHWM:"),
			RSS: mib(rollup, "Rss:"), PSS: mib(rollup, "Pss:"), Anon: mib(rollup, "Pss_Anon:"),
		})
	}
	return all, nil
}

// CPU is the processor time of all processes of the side. It costs less to ask
// than Programs does.
func (s *Side) CPU() (time.Duration, error) {
	dirs, err := s.processes()
	if err != nil {
		return 0, err
	}
	sum := time.Duration(0)
	for _, dir := range dirs {
		cpu, err := cpuOf(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		sum += cpu
	}
	return sum, nil
}

func cpuOf(dir string) (time.Duration, error) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0, err
	}
	// After the name, which may have spaces, come state, parent and so on.
	numbers := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, err := strconv.Atoi(numbers[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(numbers[12])
	return time.Duration(user+system) * tick, err
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

// mib is a number of kB behind a name, in MiB.
func mib(text []byte, name string) float64 {
	number := strings.TrimSuffix(field(text, name), " kB")
	kib, _ := strconv.ParseFloat(number, 64) //nolint:errcheck // what is missing is 0
	return kib / 1024
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
