package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

func start(t *testing.T, script string, change ...func(*Spec)) (*Process, Spec) {
	t.Helper()
	dir := t.TempDir()
	s := Spec{PIDFile: filepath.Join(dir, "pid"), Path: "/bin/sh", Args: []string{"-c", script}, Dir: dir,
		Log: filepath.Join(dir, "log")}
	for _, f := range change {
		f(&s)
	}
	p, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Kill(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	return p, s
}

func wait(t *testing.T, p *Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestProcessIsFoundAgain(t *testing.T) {
	p, s := start(t, "exec sleep 100")
	again, err := Open(s.PIDFile)
	if err != nil || again.PID() != p.PID() || !again.Alive() {
		t.Fatalf("found %v, %v", again, err)
	}
	if sid, err := unix.Getsid(p.PID()); err != nil || sid != p.PID() {
		t.Errorf("session %d, %v", sid, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := again.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting: %v", err)
	}
	if u, err := again.Usage(); err != nil || u.Memory == 0 {
		t.Errorf("usage %+v, %v", u, err)
	}
	if err := again.Kill(); err != nil {
		t.Fatal(err)
	}
	wait(t, p) // both see the end
	if again.Alive() || p.Alive() {
		t.Error("alive after its end")
	}
	if err := again.Signal(unix.SIGTERM); err != nil {
		t.Errorf("signal after the end: %v", err)
	}
	if _, err := p.Usage(); !errors.Is(err, ErrGone) {
		t.Errorf("usage after the end: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(s.PIDFile); !errors.Is(err, ErrGone) {
		t.Errorf("found after its end: %v", err)
	}
}

// TestProcessesOfADirectory finds what nobody wrote down.
func TestProcessesOfADirectory(t *testing.T) {
	p, s := start(t, "exec sleep 100")
	start(t, "exec sleep 100") // of another directory
	start(t, "exec sleep 100", func(o *Spec) { o.Dir = s.Dir + "-longer"; mkdir(t, o.Dir) })
	if err := os.Remove(s.PIDFile); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{s.Dir, filepath.Dir(s.Dir)} {
		found, err := In(dir)
		if err != nil {
			t.Fatal(err)
		}
		pids := map[int]bool{}
		for _, f := range found {
			pids[f.PID()] = true
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		if !pids[p.PID()] || dir == s.Dir && len(pids) != 1 {
			t.Errorf("in %s: %v, want %d", dir, pids, p.PID())
		}
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestProcessOfAnotherParent watches one that this process did not start.
func TestProcessOfAnotherParent(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", "setsid sleep 100 >/dev/null 2>&1 & echo $!")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	ident, err := identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pid")
	if err := os.WriteFile(file, []byte(ident.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenTakesNoStranger(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	later, otherBoot := self, self
	later.start++
	otherBoot.boot = "00000000-0000-0000-0000-000000000000"
	for name, content := range map[string]string{
		"same id, later start": later.String(), "another boot": otherBoot.String(),
		"no such process": fmt.Sprintf("%d 1 x", 1<<30),
	} {
		file := filepath.Join(t.TempDir(), "pid")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(file); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrGone) {
		t.Errorf("no file: %v", err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("a broken file: %v", err)
	}
}

func TestProcessInheritsNothing(t *testing.T) {
	t.Setenv("SECRET", "x")
	given, err := os.CreateTemp(t.TempDir(), "given")
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	// What this process was given by a careless parent of its own.
	kept, err := unix.Open("/dev/zero", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Close(kept); err != nil {
			t.Error(err)
		}
	}()
	p, s := start(t, `echo "$SECRET"; exec ls -l /proc/self/fd`, func(s *Spec) { s.Files = []*os.File{given} })
	wait(t, p)
	log, err := os.ReadFile(s.Log)
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for line := range strings.Lines(string(log)) {
		if _, target, ok := strings.Cut(strings.TrimSpace(line), " -> "); ok {
			targets = append(targets, target)
		}
	}
	// The last one is the directory that is listed.
	if len(targets) != 5 || targets[0] != "/dev/null" || targets[1] != s.Log || targets[2] != s.Log ||
		targets[3] != given.Name() {
		t.Errorf("the process has %q", targets)
	}
	if !strings.HasPrefix(string(log), "\n") {
		t.Errorf("the process has an environment: %q", log)
	}
}

func TestStop(t *testing.T) {
	p, s := start(t, `trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done`)
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if log, _ := os.ReadFile(s.Log); strings.Contains(string(log), "up") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not start")
		}
	}
	if err := p.Stop(t.Context(), 500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if log, err := os.ReadFile(s.Log); p.Alive() || !strings.Contains(string(log), "asked") {
		t.Errorf("alive: %v, log %q, %v", p.Alive(), log, err)
	}
	polite, _ := start(t, "exec sleep 100")
	begin := time.Now()
	if err := polite.Stop(t.Context(), time.Minute); err != nil || time.Since(begin) > 30*time.Second {
		t.Errorf("after %s: %v", time.Since(begin), err)
	}
}

func TestStartFails(t *testing.T) {
	s := Spec{PIDFile: filepath.Join(t.TempDir(), "no", "pid"), Path: "/bin/sleep", Args: []string{"4711"}}
	if _, err := Start(s); err == nil {
		t.Fatal("started without its pid file")
	}
	if out, err := exec.Command("pgrep", "-x", "-f", "/bin/sleep 4711").Output(); err == nil {
		t.Errorf("it runs: %s", out)
	}
	if _, err := Start(Spec{PIDFile: s.PIDFile, Path: "/no/such"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
}

func TestCgroupTakesChildrenToo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for control groups")
	}
	p, s := start(t, `sleep 100 & echo up; wait`)
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if log, _ := os.ReadFile(s.Log); strings.Contains(string(log), "up") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not start")
		}
	}
	c, err := NewCgroup("/", "a4s-test-"+strconv.Itoa(os.Getpid()), false, Limits{CPUQuota: 50000, CPUPeriod: 100000,
		Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pids, err := c.PIDs()
		for _, pid := range pids {
			err = errors.Join(err, unix.Kill(pid, unix.SIGKILL))
		}
		for deadline := time.Now().Add(2 * time.Minute); ; {
			if left, _ := c.PIDs(); len(left) == 0 || time.Now().After(deadline) {
				break
			}
		}
		if err := errors.Join(err, c.Remove()); err != nil {
			t.Error(err)
		}
	})
	if pids, err := c.PIDs(); err != nil || len(pids) != 0 {
		t.Errorf("before: %v, %v", pids, err)
	}
	for range 2 { // in it already
		if err := c.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if pids, err := c.PIDs(); err != nil || len(pids) != 2 {
		t.Errorf("in the control group: %v, %v", pids, err)
	}
	if set := limitOfCPU(t, c); set != "50000" {
		t.Errorf("its processes may use %q microseconds in each period", set)
	}
	file := filepath.Join(c.m.Path("memory"), "memory.limit_in_bytes")
	if cgroups.IsCgroup2UnifiedMode() {
		file = filepath.Join(c.m.Path(""), "memory.max")
	}
	if data, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(data)) != strconv.Itoa(64<<20) {
		t.Errorf("its processes may take %q bytes, %v", data, err)
	}
}

// limitOfCPU is the quota that the kernel has for the control group.
func limitOfCPU(t *testing.T, c *Cgroup) string {
	t.Helper()
	file := filepath.Join(c.m.Path("cpu"), "cpu.cfs_quota_us")
	if cgroups.IsCgroup2UnifiedMode() {
		file = filepath.Join(c.m.Path(""), "cpu.max")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(data))[0]
}
