package etcd

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// slowWriter is a disk with a clock of its own, which every write moves on.
type slowWriter struct {
	now    time.Time
	takes  []time.Duration // in turn, the last one for the rest
	writes int
	err    error
}

func (s *slowWriter) Write(p []byte) (int, error) { return len(p), nil }

func (s *slowWriter) Sync() error {
	s.now = s.now.Add(s.takes[min(s.writes, len(s.takes)-1)])
	s.writes++
	return s.err
}

func TestTimingFollowsTheDisk(t *testing.T) {
	const ms = time.Millisecond
	for p99, want := range map[time.Duration]Timing{
		0:                {100 * ms, time.Second},
		5 * ms:           {100 * ms, time.Second},
		100 * ms:         {100 * ms, time.Second},
		155 * ms:         {160 * ms, 1600 * ms},
		400 * ms:         {400 * ms, 4 * time.Second},
		2 * time.Second:  {500 * ms, 20 * time.Second},
		30 * time.Second: {500 * ms, 50 * time.Second},
	} {
		got := timingFor(p99)
		if got != want {
			t.Errorf("%s: %v, want %v", p99, got, want)
		}
		// What etcd itself asks for.
		if got.Election < 5*got.Heartbeat || got.Election > 50*time.Second {
			t.Errorf("%s: etcd refuses %v", p99, got)
		}
	}
}

func TestDiskIsMeasured(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		takes []time.Duration
		p99   time.Duration
		n     int
	}{
		"fast":              {[]time.Duration{ms}, ms, 100},
		"once slow":         {[]time.Duration{90 * ms, ms}, ms, 100},
		"sometimes slow":    {[]time.Duration{40 * ms, 40 * ms, ms}, 40 * ms, 100},
		"slow ends early":   {[]time.Duration{20 * ms}, 20 * ms, 15},
		"very slow as well": {[]time.Duration{2 * time.Second}, 2 * time.Second, 5},
	} {
		w := &slowWriter{takes: c.takes}
		p99, n, err := measure(w, func() time.Time { return w.now })
		if p99 != c.p99 || n != c.n || err != nil {
			t.Errorf("%s: %s of %d, %v, want %s of %d", name, p99, n, err, c.p99, c.n)
		}
	}
}

func TestSlowDiskIsToldAndNotFatal(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		disk           slowWriter
		args           []string
		tick, election uint
		warning        string
	}{
		"fast": {slowWriter{takes: []time.Duration{ms}}, nil, 50, 250, ""},
		"slow": {slowWriter{takes: []time.Duration{300 * ms}}, nil, 300, 3000, "takes up to 300ms"},
		"as one wants": {slowWriter{takes: []time.Duration{300 * ms}}, []string{"election-timeout=7000"}, 100,
			7000, "--etcd-arg"},
		"broken": {slowWriter{takes: []time.Duration{ms}, err: errors.New("I/O")}, nil, 50, 250, ""},
	} {
		logger, hook := logtest.NewNullLogger()
		logger.SetLevel(logrus.DebugLevel)
		s, err := New(Options{Dir: "/d", Name: "n", Args: c.args, Log: logrus.NewEntry(logger)})
		if err != nil {
			t.Fatal(err)
		}
		s.tuneFor(&c.disk, func() time.Time { return c.disk.now })
		if s.cfg.TickMs != c.tick || s.cfg.ElectionMs != c.election {
			t.Errorf("%s: heartbeat %d, election %d, want %d, %d", name, s.cfg.TickMs,
				s.cfg.ElectionMs, c.tick, c.election)
		}
		if err := s.cfg.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		last := hook.LastEntry()
		if last == nil || (last.Level == logrus.WarnLevel) != (c.warning != "") ||
			!strings.Contains(last.Message, c.warning) {
			t.Errorf("%s: the log says %v, want %q", name, last, c.warning)
		}
	}
}

func TestRealDiskIsMeasuredWithoutATrace(t *testing.T) {
	dir := t.TempDir()
	logger, hook := logtest.NewNullLogger()
	logger.SetLevel(logrus.DebugLevel)
	s, err := New(Options{Dir: dir, Name: "n", Log: logrus.NewEntry(logger)})
	if err != nil {
		t.Fatal(err)
	}
	s.tune()
	if last := hook.LastEntry(); last == nil || !strings.Contains(last.Message, "durable write to "+dir) {
		t.Errorf("the log says %v", last)
	}
	if left := filesIn(t, dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
