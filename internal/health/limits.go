package health

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// nearly is the part of a limit from which on it is shown.
	nearly = 0.8
	// filesEvery is how often the open files of all processes are looked at.
	filesEvery = time.Minute
	// filesWithin bounds one look; the next one goes on where it ended. It is far more than
	// the files of a machine with hundreds of pods take.
	filesWithin = 2 * time.Second
	// filesOfProcess bounds how many files of one process are looked at. Few have so many; a
	// pod may have a million, and would have the rest wait for it.
	filesOfProcess = 1 << 14
	// filesAtOnce is how many names are in memory.
	filesAtOnce = 256
)

// use is how much of a limit of the kernel is taken.
type use struct {
	sysctl    string
	used, max uint64
	what      string // of whom, if not of all
}

// KernelLimits checks the limits of the kernel that all pods share, where the
// kernel tells how much of them is taken. proc is /proc.
func KernelLimits(proc string) Check {
	l := kernelLimits{proc: proc, seen: map[string]instances{}}
	return func(ctx context.Context, r *Registry) {
		l.mu.Lock()
		defer l.mu.Unlock()
		var near []string
		for _, u := range l.uses(ctx, r.now()) {
			if u.max == 0 || float64(u.used) < nearly*float64(u.max) {
				continue
			}
			subject := strings.TrimSpace(u.sysctl + " " + u.what)
			near = append(near, subject)
			r.Set(KernelLimit, subject,
				fmt.Sprintf("%d of %d are taken: sysctl -w %s=%d", u.used, u.max, u.sysctl, 2*u.max))
		}
		r.Keep(KernelLimit, near)
	}
}

type kernelLimits struct {
	proc string

	mu     sync.Mutex
	seen   map[string]instances // by process
	next   string               // where a look that was cut short goes on
	looked time.Time
}

// instances are the inotify instances of a process.
type instances struct {
	user uint32
	n    uint64
}

// uses leaves out what this kernel does not tell.
func (l *kernelLimits) uses(ctx context.Context, now time.Time) []use {
	out := []use{
		{sysctl: "fs.aio-max-nr", used: l.number("sys/fs/aio-nr"), max: l.number("sys/fs/aio-max-nr")},
		{sysctl: "fs.file-max", used: l.number("sys/fs/file-nr"), max: l.number("sys/fs/file-max")},
		{sysctl: "kernel.pty.max", used: l.number("sys/kernel/pty/nr"), max: l.number("sys/kernel/pty/max")},
	}
	threads := l.threads()
	out = append(out,
		use{sysctl: "kernel.pid_max", used: threads, max: l.number("sys/kernel/pid_max")},
		use{sysctl: "kernel.threads-max", used: threads, max: l.number("sys/kernel/threads-max")})
	out = append(out, l.keys()...)
	if now.Sub(l.looked) >= filesEvery {
		short, cancel := context.WithTimeout(ctx, filesWithin)
		l.look(short)
		cancel()
		l.looked = now
	}
	most := l.number("sys/fs/inotify/max_user_instances")
	for user, n := range l.watched() {
		out = append(out, use{sysctl: "fs.inotify.max_user_instances", used: n, max: most,
			what: fmt.Sprintf("of user %d", user)})
	}
	return out
}

// number is the first one of a file, 0 if there is none.
func (l *kernelLimits) number(file string) uint64 {
	data, err := os.ReadFile(filepath.Join(l.proc, file))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\t")
	n, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// threads counts those of the whole machine: "0.20 0.18 0.12 1/80 11206".
func (l *kernelLimits) threads() uint64 {
	data, err := os.ReadFile(filepath.Join(l.proc, "loadavg"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 4 {
		return 0
	}
	_, all, _ := strings.Cut(fields[3], "/")
	n, err := strconv.ParseUint(all, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// keys are those of each user: "1000: 5 5/5 3/200 57/20000", the last two being
// keys and bytes.
func (l *kernelLimits) keys() []use {
	data, err := os.ReadFile(filepath.Join(l.proc, "key-users"))
	if err != nil {
		return nil
	}
	var out []use
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 5 {
			continue
		}
		user, prefix := strings.TrimSuffix(fields[0], ":"), "kernel.keys."
		if user == "0" {
			prefix += "root_"
		}
		for i, name := range []string{"maxkeys", "maxbytes"} {
			used, most, _ := strings.Cut(fields[3+i], "/")
			n, errUsed := strconv.ParseUint(used, 10, 64)
			m, errMost := strconv.ParseUint(most, 10, 64)
			if errUsed == nil && errMost == nil {
				out = append(out, use{sysctl: prefix + name, used: n, max: m, what: "of user " + user})
			}
		}
	}
	return out
}

// look counts the inotify instances of processes by their open files, since the kernel tells
// nothing else of them. It ends with ctx. What it did not come to keeps its last count, and is
// first the next time.
func (l *kernelLimits) look(ctx context.Context) {
	processes, err := filepath.Glob(filepath.Join(l.proc, "[0-9]*"))
	if err != nil {
		return
	}
	maps.DeleteFunc(l.seen, func(p string, _ instances) bool {
		_, lives := slices.BinarySearch(processes, p) // Glob sorts
		return !lives
	})
	first, _ := slices.BinarySearch(processes, l.next)
	for _, p := range slices.Concat(processes[first:], processes[:first]) {
		if ctx.Err() != nil {
			l.next = p
			return
		}
		if found, ok := instancesOf(p); ok {
			l.seen[p] = found
		} else {
			delete(l.seen, p)
		}
	}
	l.next = ""
}

// watched are the instances of each user. One that processes share counts once for each.
func (l *kernelLimits) watched() map[uint32]uint64 {
	out := map[uint32]uint64{}
	for _, i := range l.seen {
		if i.n > 0 {
			out[i.user] += i.n
		}
	}
	return out
}

// instancesOf counts those of the process whose directory is dir, false if it has ended.
func instancesOf(dir string) (instances, bool) {
	info, err := os.Stat(dir)
	if err != nil {
		return instances{}, false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return instances{}, false
	}
	fds := filepath.Join(dir, "fd")
	files, err := os.Open(fds)
	if err != nil {
		return instances{}, false
	}
	defer files.Close() //nolint:errcheck // nothing was written
	out := instances{user: owner.Uid}
	for read := 0; read < filesOfProcess; {
		names, err := files.Readdirnames(filesAtOnce)
		for _, name := range names {
			// Newer kernels write anon_inode:[inotify].
			if target, err := os.Readlink(filepath.Join(fds, name)); err == nil &&
				strings.HasPrefix(target, "anon_inode:") && strings.Contains(target, "inotify") {
				out.n++
			}
		}
		if read += len(names); err != nil {
			break // the end of them, or of the process
		}
	}
	return out, true
}
