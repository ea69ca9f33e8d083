package etcd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// probeSize is about what etcd's write-ahead log writes for one change.
	probeSize = 2 << 10
	// probes is how often, unless that takes longer than probeTime: then it
	// is fewer times, but not fewer than minProbes.
	probes    = 100
	minProbes = 5
	probeTime = 300 * time.Millisecond
	// goodDisk is what etcd asks of a disk, and slowDisk what its own defaults
	// still work with.
	goodDisk = 10 * time.Millisecond
	slowDisk = 100 * time.Millisecond
)

// Timing is when members of an etcd give each other up.
type Timing struct {
	Heartbeat, Election time.Duration
}

// timingFor is the timing for a disk that needs p99 for nearly every durable
// write. A leader whose disk is busy is late with its heartbeats, so those who
// wait for them have to be patient: ten such writes, up to what etcd takes at
// most. The heartbeat itself stays below the shortest patience of others, whose
// disks may be better.
func timingFor(p99 time.Duration) Timing {
	const (
		normal, rarest       = 100 * time.Millisecond, 500 * time.Millisecond
		patient, mostPatient = time.Second, 50 * time.Second
	)
	p99 = p99.Round(10 * time.Millisecond)
	return Timing{Heartbeat: min(max(p99, normal), rarest), Election: min(max(10*p99, patient), mostPatient)}
}

// isTiming says that an argument of the user is one of the times of a Timing.
func isTiming(arg string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return name == "heartbeat-interval" || name == "election-timeout"
}

// disk is a file whose writes can be made durable.
type disk interface {
	Write([]byte) (int, error)
	Sync() error
}

// measure writes durably a number of times, and returns the 99th percentile of
// how long that took.
func measure(d disk, now func() time.Time) (p99 time.Duration, n int, err error) {
	data := make([]byte, probeSize)
	var took []time.Duration
	for began := now(); len(took) < probes && (len(took) < minProbes || now().Sub(began) < probeTime); {
		start := now()
		if _, err := d.Write(data); err != nil {
			return 0, 0, err
		}
		if err := d.Sync(); err != nil {
			return 0, 0, err
		}
		took = append(took, now().Sub(start))
	}
	slices.Sort(took)
	return took[(len(took)*99+99)/100-1], len(took), nil
}

// dataFile is made durable as etcd's write-ahead log is.
type dataFile struct{ *os.File }

func (f dataFile) Sync() error { return unix.Fdatasync(int(f.Fd())) }

// tune measures the disk of the data directory and gives etcd the time that it
// needs there. A disk that cannot be measured is left to etcd.
func (s *Server) tune() {
	path := filepath.Join(s.opts.Dir, "latency.tmp")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		s.opts.Log.WithError(err).Debug("the disk was not measured")
		return
	}
	// The write-ahead log has its space beforehand, too. Not every file
	// system can do that.
	_ = unix.Fallocate(int(f.Fd()), 0, 0, probes*probeSize)
	s.tuneFor(dataFile{f}, time.Now)
	_ = f.Close()
	_ = os.Remove(path)
}

func (s *Server) tuneFor(d disk, now func() time.Time) {
	p99, n, err := measure(d, now)
	if err != nil {
		s.opts.Log.WithError(err).Debug("the disk was not measured")
		return
	}
	what := fmt.Sprintf("A durable write to %s takes up to %s (2 KiB, 99th percentile of %d)", s.opts.Dir,
		p99.Round(10*time.Microsecond), n)
	if p99 <= slowDisk {
		if p99 > goodDisk {
			what += ", and etcd wants no more than " + goodDisk.String()
		}
		s.opts.Log.Debug(what)
		return
	}
	what += ": every change in the cluster waits that long, and etcd wants no more than " + goodDisk.String()
	if slices.ContainsFunc(s.opts.Args, isTiming) {
		s.opts.Log.Warn(what + "; its timeouts are those of --etcd-arg. A faster disk helps")
		return
	}
	t := timingFor(p99)
	// Members of several servers are patient to begin with.
	t.Heartbeat, t.Election = max(t.Heartbeat, time.Duration(s.cfg.TickMs)*time.Millisecond),
		max(t.Election, time.Duration(s.cfg.ElectionMs)*time.Millisecond)
	s.cfg.TickMs, s.cfg.ElectionMs = uint(t.Heartbeat.Milliseconds()), uint(t.Election.Milliseconds())
	s.opts.Log.Warnf("%s; its heartbeat interval is %s and its election timeout %s now. A faster disk helps", what,
		t.Heartbeat, t.Election)
}
