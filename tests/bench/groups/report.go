package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/tests/measure"
)

// The quantities, by the names that they have in results. A server leads if controllers and
// scheduler run in it, which have pods of all tenants; what others have is the mean of all
// that do not lead.
const (
	leadResident = "the server that leads: resident, MiB"
	leadAnon     = "the server that leads: anonymous, MiB"
	leadHeap     = "the server that leads: heap, MiB"
	leadLive     = "the server that leads: live heap, MiB"
	leadIdle     = "the server that leads: idle, cores"
	leadCPU      = "the server that leads: CPU a write, ms"

	otherResident = "each other server: resident, MiB"
	otherAnon     = "each other server: anonymous, MiB"
	otherHeap     = "each other server: heap, MiB"
	otherLive     = "each other server: live heap, MiB"
	otherIdle     = "each other server: idle, cores"
	otherCPU      = "each other server: CPU a write, ms"

	allResident = "all servers: resident, MiB"
	allAnon     = "all servers: anonymous, MiB"
	allLive     = "all servers: live heap, MiB"
	allIdle     = "all servers: idle, cores"
	allCPU      = "all servers: CPU a write, ms"
	allPeak     = "all servers: peak resident, MiB"

	storeResident = "datastore: resident, MiB"
	storeIdle     = "datastore: idle, cores"
	storeCPU      = "datastore: CPU a write, ms"

	rate       = "writes a second that came"
	writeP50   = "write answered, p50, ms"
	writeP99   = "write answered, p99, ms"
	tenantP50  = "write seen by a watch of the tenant, p50, ms"
	tenantP99  = "write seen by a watch of the tenant, p99, ms"
	clusterP50 = "write seen by a watch of everything, p50, ms"
	clusterP99 = "write seen by a watch of everything, p99, ms"
	startTime  = "all servers started and configured, s"
)

// quantities are all, in the order of the report.
func quantities() []string {
	return []string{
		leadResident, leadAnon, leadHeap, leadLive, otherResident, otherAnon, otherHeap, otherLive,
		allResident, allAnon, allLive, allPeak, storeResident,
		leadIdle, otherIdle, allIdle, storeIdle,
		allCPU, leadCPU, otherCPU, storeCPU,
		rate, writeP50, writeP99, tenantP50, tenantP99, clusterP50, clusterP99, startTime,
	}
}

// report prints and keeps the table of all rounds: medians, and ratios to the first
// layout.
func report(rounds measure.Rounds, s *settings) error {
	var names []string
	for _, l := range s.layouts {
		names = append(names, l.String())
	}
	text := s.String() + "\n\n" + rounds.Table(quantities(), names)
	fmt.Printf("\n%s\n", text)
	return os.WriteFile(filepath.Join(s.out, "groups.md"), []byte(text), 0o644)
}
