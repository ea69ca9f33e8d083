package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
)

const (
	// recently is for how long a restart or a jump of the clock is shown.
	recently = 10 * time.Minute
	// failures are how many ends in a row tell that a component does not start: the second
	// start comes half a second after the first end, the third one a second later.
	failures = 3
	// jump is by how much the clock must have been set to be noticed.
	jump = 5 * time.Second
	// fullBelow is the free space below which the datastore cannot go on for
	// long: its log is made in files of 64 MiB.
	fullBelow = 128 << 20
	// almostBelow is the part of a disk below which the kubelet evicts pods.
	almostBelow = 0.10
	// enough is free space that is enough whatever part of a disk it is.
	enough = 20 << 30
)

// Components checks components. Those in explained have a condition of their own,
// which they set when they are not ready.
func Components(states func() []component.State, explained map[string]Code) Check {
	type seen struct {
		restarts int
		at       time.Time
	}
	var mu sync.Mutex
	last := map[string]seen{}
	return func(_ context.Context, r *Registry) {
		mu.Lock()
		defer mu.Unlock()
		now := r.now()
		there := map[string]bool{}
		for _, s := range states() {
			there[s.Name] = true
			detail := s.LastError
			if detail == "" {
				detail = "it is starting"
			}
			own := explained[s.Name]
			failing := own == "" && !s.Ready && s.Failures >= failures
			r.Report(!s.Ready && !failing, cmp.Or(own, ComponentNotReady), s.Name, firstLine(detail))
			r.Report(failing, ComponentFailing, s.Name,
				fmt.Sprintf("%d times in a row, the last time because: %s", s.Failures, firstLine(s.LastError)))
			l, known := last[s.Name]
			if !known {
				last[s.Name] = l
			}
			if s.Restarts != l.restarts { // fewer than before if it is in another process now
				l = seen{s.Restarts, now}
				last[s.Name] = l
			}
			r.Report(!failing && l.restarts > 0 && now.Sub(l.at) < recently, ComponentRestarting, s.Name,
				fmt.Sprintf("%d times so far, the last time because: %s", s.Restarts, firstLine(s.LastError)))
		}
		for name := range last {
			if !there[name] { // it is in another process, which has ended
				r.Clear(cmp.Or(explained[name], ComponentNotReady), name)
				r.Clear(ComponentFailing, name)
				r.Clear(ComponentRestarting, name)
				delete(last, name)
			}
		}
	}
}

// Disk checks the file system of a directory.
func Disk(dir string) Check {
	return func(_ context.Context, r *Registry) {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return
		}
		disk(r, dir, st.Bavail*uint64(st.Bsize), st.Blocks*uint64(st.Bsize),
			st.Flags&unix.ST_RDONLY != 0 || emergency(dir))
	}
}

// emergency says whether ext4 refuses to write after an error of the disk:
// newer kernels tell that only in the list of mounts.
func emergency(dir string) bool {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return false
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	return emergencyIn(string(mounts), fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
}

func emergencyIn(mounts, device string) bool {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[2] == device &&
			slices.Contains(strings.Split(fields[len(fields)-1], ","), "emergency_ro") {
			return true
		}
	}
	return false
}

func disk(r *Registry, dir string, free, total uint64, readOnly bool) {
	detail := fmt.Sprintf("%d MiB of %d MiB are free", free>>20, total>>20)
	r.Report(readOnly, DiskReadOnly, dir, "")
	r.Report(free < fullBelow, DiskFull, dir, detail)
	r.Report(free < enough && float64(free) < almostBelow*float64(total), DiskAlmost, dir, detail)
}

// Clock notices when the clock is set.
func Clock() Check {
	return clock(func() (time.Time, time.Duration) {
		var ts unix.Timespec
		// It goes on while the machine is suspended, as the clock does.
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			return time.Time{}, 0
		}
		return time.Now().Round(0), time.Duration(ts.Nano())
	})
}

func clock(read func() (wall time.Time, running time.Duration)) Check {
	var mu sync.Mutex
	var wall time.Time
	var running, shown time.Duration
	var detail string
	return func(_ context.Context, r *Registry) {
		mu.Lock()
		defer mu.Unlock()
		w, m := read()
		if !wall.IsZero() && !w.IsZero() {
			if by := w.Sub(wall) - (m - running); by.Abs() > jump {
				shown, detail = m, fmt.Sprintf("by %s, to %s", by.Round(time.Second), w.UTC().Format(time.RFC3339))
			}
		}
		wall, running = w, m
		r.Report(detail != "" && m-shown < recently, ClockJumped, "", detail)
	}
}

// Certificates checks when certificates expire.
func Certificates(uses func() []pki.Use) Check {
	return func(_ context.Context, r *Registry) {
		now := r.now()
		for _, u := range uses() {
			cert, err := pki.ReadCert(u.File)
			if errors.Is(err, fs.ErrNotExist) && u.CA {
				continue // a node that has not joined
			}
			r.Report(err != nil, CertificateUnreadable, u.File, fmt.Sprint(err))
			if err != nil {
				continue
			}
			detail := fmt.Sprintf("it is that of %s and ends at %s", u.User, cert.NotAfter.UTC().Format(time.RFC3339))
			r.Report(!now.Before(cert.NotAfter), CertificateExpired, u.File, detail)
			r.Report(!now.Before(u.WarnAt(cert)), CertificateExpiring, u.File, detail)
		}
	}
}

// CertificateMetrics tell for how long certificates are valid.
func CertificateMetrics(uses func() []pki.Use) Metrics {
	return func(add func(name, help string, value float64, labels map[string]string)) {
		for _, u := range uses() {
			if cert, err := pki.ReadCert(u.File); err == nil {
				add("certificate_expiration_seconds", "Seconds until a certificate expires.",
					time.Until(cert.NotAfter).Seconds(), map[string]string{"file": u.File, "user": u.User})
			}
		}
	}
}

// ComponentMetrics tell of components.
func ComponentMetrics(states func() []component.State) Metrics {
	return func(add func(name, help string, value float64, labels map[string]string)) {
		for _, s := range states() {
			ready := 0.0
			if s.Ready {
				ready = 1
			}
			add("component_ready", "Whether a component is ready.", ready, map[string]string{"name": s.Name})
			add("component_restarts", "How often a component was started again.", float64(s.Restarts),
				map[string]string{"name": s.Name})
		}
	}
}
