package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a program that runs in a host.
type Process struct {
	// Log is the file that holds its standard output and standard error.
	Log string

	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts a program in the host. Its output goes to a file of its own.
func (h *Host) Start(path string, args ...string) (*Process, error) {
	h.mu.Lock()
	log := filepath.Join(h.dir, fmt.Sprintf("%d-%s.log", len(h.logs), filepath.Base(path)))
	h.logs = append(h.logs, log)
	h.mu.Unlock()
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &Process{Log: log, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := h.startInside(p.cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID returns the process id as the test sees it.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running says whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ExitCode waits for the end of the process and returns its exit code, or -1
// when a signal ended it.
func (p *Process) ExitCode(timeout time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(timeout):
		return 0, fmt.Errorf("still running after %s", timeout)
	}
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop asks the process to end with SIGTERM and waits for that.
func (p *Process) Stop(timeout time.Duration) error {
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if _, err := p.ExitCode(timeout); err != nil {
		return fmt.Errorf("SIGTERM: %w", err)
	}
	return nil
}

// Output returns all that the process wrote so far.
func (p *Process) Output() string {
	b, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Result is what a finished program left.
type Result struct {
	Stdout, Stderr string
	ExitCode       int
}

// Run runs a program in the host to its end. An exit code that is not zero is
// no error here.
func (h *Host) Run(ctx context.Context, path string, args ...string) (Result, error) {
	cmd := exec.Command(path, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := h.startInside(cmd); err != nil {
		return Result{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	err := cmd.Wait()
	r := Result{Stdout: out.String(), Stderr: errs.String(), ExitCode: cmd.ProcessState.ExitCode()}
	if ctx.Err() != nil {
		return r, fmt.Errorf("%s %s: %w\n%s%s", path, strings.Join(args, " "), ctx.Err(), r.Stdout, r.Stderr)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return r, err
}

// LastLines returns the last n lines of a file. Log lines that say the same one
// after the other count as one.
func LastLines(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, line := range slices.Backward(strings.Split(strings.TrimRight(string(b), "\n"), "\n")) {
		if len(out) > 0 && strings.HasPrefix(line, "time=") && said(line) == said(out[len(out)-1]) {
			out[len(out)-1] = line
			continue
		}
		if len(out) == n {
			break
		}
		out = append(out, line)
	}
	slices.Reverse(out)
	return strings.Join(out, "\n")
}

// said is a line of a log without its time.
func said(line string) string {
	_, rest, _ := strings.Cut(line, " ")
	return rest
}

// tail collects what a process says.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.buf.String())
}
