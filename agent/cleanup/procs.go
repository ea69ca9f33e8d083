package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/problem"
)

// How long a process may take to follow a signal.
const (
	serverGrace     = 60 * time.Second
	containerdGrace = 10 * time.Second
	killGrace       = 10 * time.Second
)

// process is what is needed of one entry of /proc.
type process struct {
	pid, ppid int
	start     string // start time; tells a reused pid from the old one
	zombie    bool
	exe       string
	args      []string
	cgroups   []string // paths in all hierarchies
	dir       string   // its directory in /proc
}

// procfs is where /proc is.
type procfs string

// processes reads all. Processes that end meanwhile are left out.
func (proc procfs) processes() ([]process, error) {
	entries, err := os.ReadDir(string(proc))
	if err != nil {
		return nil, err
	}
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := proc.read(pid); err == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

func (proc procfs) read(pid int) (process, error) {
	dir := filepath.Join(string(proc), strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, err
	}
	// The name in parentheses may hold anything, so fields count from its end.
	text := string(stat)
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 20 {
		return process{}, fmt.Errorf("%s/stat: %d fields after the name", dir, len(f))
	}
	p := process{pid: pid, start: f[19], zombie: f[0] == "Z", dir: dir}
	if p.ppid, err = strconv.Atoi(f[1]); err != nil {
		return process{}, fmt.Errorf("%s/stat: %w", dir, err)
	}
	// Kernel threads have no executable; a replaced one is marked.
	if exe, err := os.Readlink(filepath.Join(dir, "exe")); err == nil {
		p.exe = strings.TrimSuffix(exe, " (deleted)")
	}
	if data, err := os.ReadFile(filepath.Join(dir, "cgroup")); err == nil {
		for line := range strings.Lines(string(data)) {
			if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 {
				p.cgroups = append(p.cgroups, parts[2])
			}
		}
	}
	if !instance.Elsewhere(dir, "/") { // else its arguments say nothing
		p.args, _ = instance.Arguments(dir) // none if it is about to end
	}
	return p, nil
}

// owner returns the a4s that last used the run directory; nil if none did.
func (k *killer) owner() (*instance.Info, error) {
	info, err := instance.Read(k.RunDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &info, err
}

// checkOwner refuses a run directory that another a4s wrote.
func (k *killer) checkOwner() error {
	file, err := k.owner()
	if err != nil || file == nil || file.DataDir == "" {
		return nil // stopServer reports an unreadable one
	}
	dir := filepath.Clean(file.DataDir)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if dir == k.DataDir {
		return nil
	}
	return &problem.Input{Source: "--data-dir", Value: k.DataDir,
		Want: fmt.Sprintf("%s, which is what %s was run with", file.DataDir, k.RunDir)}
}

// stopServer ends the a4s that the pid file names.
func (k *killer) stopServer(ctx context.Context) error {
	file, err := k.owner()
	if err != nil || file == nil {
		return err
	}
	p, err := procfs(k.Proc).read(file.PID)
	if err != nil || p.zombie || !isServer(p) || p.pid == os.Getpid() {
		return nil // a leftover of one that was killed
	}
	if unit := serviceUnit(p); unit != "" {
		// systemd would start it again after a signal.
		out, err := exec.CommandContext(ctx, "systemctl", "stop", unit).CombinedOutput()
		if err != nil {
			return fmt.Errorf("systemctl stop %s: %w: %s", unit, err, strings.TrimSpace(string(out)))
		}
		k.report(1, "stopped %s", unit)
		return nil
	}
	if err := procfs(k.Proc).terminate(ctx, []process{p}, serverGrace); err != nil {
		return err
	}
	k.report(1, "stopped a4s, process %d", p.pid)
	return nil
}

// isServer tells a running a4s from a process that got its pid by chance.
func isServer(p process) bool {
	if len(p.args) < 2 {
		return false
	}
	if self, err := os.Executable(); err == nil && p.exe == self {
		return true
	}
	return strings.HasPrefix(filepath.Base(p.exe), "a4s") || strings.HasPrefix(filepath.Base(p.args[0]), "a4s")
}

// serviceUnit returns the systemd unit that the process is, if it is one.
func serviceUnit(p process) string {
	for _, c := range p.cgroups {
		base := filepath.Base(c)
		if strings.HasPrefix(base, "a4s") && strings.HasSuffix(base, ".service") {
			return base
		}
	}
	return ""
}

// stopContainerd ends the containerd of the data directory, which outlives an
// a4s that was killed.
func (k *killer) stopContainerd(ctx context.Context) error {
	all, err := procfs(k.Proc).processes()
	if err != nil {
		return err
	}
	var found []process
	for _, p := range all {
		if k.isContainerd(p) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil
	}
	if err := procfs(k.Proc).terminate(ctx, found, containerdGrace); err != nil {
		return err
	}
	k.report(len(found), "stopped containerd")
	return nil
}

func (k *killer) isContainerd(p process) bool {
	if p.zombie || len(p.args) < 2 || filepath.Base(p.args[0]) != "containerd" {
		return false
	}
	named := slices.ContainsFunc(p.args[1:], func(a string) bool {
		if _, value, ok := strings.Cut(a, "="); ok && strings.HasPrefix(a, "-") {
			a = value
		}
		return below(a, k.DataDir) || below(a, k.RunDir)
	})
	return named && !instance.Elsewhere(p.dir, k.DataDir)
}

// killPods ends all shims of the data directory and everything that runs in
// its pods. Processes start others while they are killed, so it looks again
// until nothing is left.
func (k *killer) killPods(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, killGrace)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	shims, others := map[int]bool{}, map[int]bool{}
	defer func() {
		k.report(len(shims)+len(others), "killed %d containerd shims and %d processes in pods",
			len(shims), len(others))
	}()
	for {
		all, err := procfs(k.Proc).processes()
		if err != nil {
			return err
		}
		victims := k.pods.processes(all)
		if len(victims) == 0 {
			return nil
		}
		for _, p := range victims {
			if k.pods.isShim(p) {
				shims[p.pid] = true
			} else {
				others[p.pid] = true
			}
			if err := procfs(k.Proc).signal(p, unix.SIGKILL); err != nil {
				return fmt.Errorf("killing process %d (%s): %w", p.pid, p.exe, err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d processes survive SIGKILL, the first is %d (%s)", len(victims),
				victims[0].pid, victims[0].exe)
		}
	}
}

// ownPods are the pods of a data directory.
type ownPods struct {
	dataDir string
	uids    []string // those that its kubelet knows
}

// processes picks the shims of the data directory, all that descends from
// them, and what lost its shim but sits in the cgroup of one of its pods.
func (o *ownPods) processes(all []process) []process {
	children := map[int][]process{}
	for _, p := range all {
		children[p.ppid] = append(children[p.ppid], p)
	}
	picked := map[int]process{}
	var take func(p process)
	take = func(p process) {
		if _, done := picked[p.pid]; done || p.pid == os.Getpid() {
			return
		}
		picked[p.pid] = p
		for _, c := range children[p.pid] {
			take(c)
		}
	}
	for _, p := range all {
		if o.isShim(p) || o.has(p) {
			take(p)
		}
	}
	out := make([]process, 0, len(picked))
	for _, p := range picked {
		if !p.zombie { // its parent is about to reap it, or goes too
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b process) int { return a.pid - b.pid })
	return out
}

func (o *ownPods) isShim(p process) bool {
	return filepath.Base(p.exe) == "containerd-shim-runc-v2" && below(p.exe, filepath.Join(o.dataDir, "data")) &&
		!instance.Elsewhere(p.dir, o.dataDir)
}

func (o *ownPods) has(p process) bool {
	return slices.ContainsFunc(p.cgroups, func(c string) bool {
		return strings.Contains(c, "kubepods") && slices.ContainsFunc(strings.Split(c, "/"), o.hasCgroup)
	})
}

// hasCgroup reports whether a cgroup directory is that of one of our pods:
// "pod<uid>", or "kubepods-burstable-pod<uid>.slice" with underscores.
func (o *ownPods) hasCgroup(dir string) bool {
	dir = strings.ReplaceAll(strings.TrimSuffix(dir, ".slice"), "_", "-")
	return slices.ContainsFunc(o.uids, func(uid string) bool {
		return dir == "pod"+uid || strings.HasPrefix(dir, "kubepods-") && strings.HasSuffix(dir, "-pod"+uid)
	})
}

// terminate asks processes to end and kills those that did not in time.
func (proc procfs) terminate(ctx context.Context, procs []process, grace time.Duration) error {
	for _, step := range []struct {
		sig  unix.Signal
		wait time.Duration
	}{{unix.SIGTERM, grace}, {unix.SIGKILL, killGrace}} {
		for _, p := range procs {
			if err := proc.signal(p, step.sig); err != nil {
				return fmt.Errorf("signalling process %d (%s): %w", p.pid, p.exe, err)
			}
		}
		if proc.waitGone(ctx, procs, step.wait) {
			return nil
		}
	}
	return fmt.Errorf("process %d (%s) survives SIGKILL", procs[0].pid, procs[0].exe)
}

func (proc procfs) waitGone(ctx context.Context, procs []process, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if !slices.ContainsFunc(procs, proc.alive) {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

func (proc procfs) alive(p process) bool {
	now, err := proc.read(p.pid)
	return err == nil && !now.zombie && now.start == p.start
}

// signal sends sig unless the process is gone or its pid has a new owner.
func (proc procfs) signal(p process, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
		if !proc.alive(p) { // the descriptor cannot change its owner any more
			return nil
		}
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	} else if errors.Is(err, unix.ENOSYS) && proc.alive(p) {
		err = unix.Kill(p.pid, sig)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
