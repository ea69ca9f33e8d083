package qemu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/a4s-io/a4s/agent/vm/process"
	"github.com/a4s-io/a4s/internal/problem"
)

// ErrGone says that the machine does not run any more. It is process.ErrGone.
var ErrGone = process.ErrGone

const (
	// startTimeout is how long QEMU may take until it answers.
	startTimeout = 30 * time.Second
	// answerTimeout is how long one command may take.
	answerTimeout = 20 * time.Second
	// pollEvery is how often what cannot be waited for is looked at.
	pollEvery = 10 * time.Millisecond
	// quitTimeout is how long QEMU may take to write its disks and end.
	quitTimeout = 10 * time.Second
)

// Machine is a virtual machine that runs, or did. Its methods may be called
// concurrently.
type Machine struct {
	*process.Process
	dir string

	mu      sync.Mutex // guards the connection
	monitor *monitor

	plugging sync.Mutex // one at a time picks a slot

	once    sync.Once
	closing chan struct{} // closed by Close
	closed  sync.WaitGroup

	state   sync.Mutex // guards what events change
	reason  string
	changed chan struct{} // closed and replaced at every event
}

func newMachine(dir string, p *process.Process) *Machine {
	m := &Machine{Process: p, dir: dir, changed: make(chan struct{}), closing: make(chan struct{})}
	m.closed.Go(m.keepConsoleSmall)
	return m
}

// Start starts a machine. It runs when Start returns. If cgroup is not nil,
// the machine is moved there before its first instruction. On an error nothing
// is left but files in the machine's directory.
func Start(ctx context.Context, c Config, cgroup *process.Cgroup) (_ *Machine, err error) {
	args, err := c.Args()
	if err != nil {
		return nil, err
	}
	binary, err := c.binary()
	if err != nil {
		return nil, err
	}
	if c.Kernel == "" && firmware != "" {
		if _, err := os.Stat(firmware); err != nil {
			return nil, &problem.Precondition{What: "the firmware that boots disks of virtual machines", Err: err,
				Fix: "install the package qemu-efi-aarch64"}
		}
	}
	stale := []string{qmpSocket, pidFile, logFile}
	for _, p := range c.Ports {
		stale = append(stale, p.Socket)
	}
	for _, name := range stale {
		if err := os.Remove(filepath.Join(c.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	spec := process.Spec{PIDFile: PIDFile(c.Dir), Path: binary, Args: args, Dir: c.Dir, Log: LogPath(c.Dir)}
	for _, n := range c.NICs {
		spec.Files = append(spec.Files, n.Tap)
	}
	p, err := process.Start(spec)
	if err != nil {
		return nil, err
	}
	m := newMachine(c.Dir, p)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Kill(), m.Close())
		}
	}()
	if cgroup != nil {
		if err := cgroup.Add(p); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := m.waitForSocket(ctx); err != nil {
		return nil, fmt.Errorf("starting QEMU: %w", m.explain(err))
	}
	if err := m.Execute(ctx, "cont", nil, nil); err != nil {
		return nil, fmt.Errorf("starting QEMU: %w", m.explain(err))
	}
	return m, nil
}

func (c Config) binary() (string, error) {
	name := c.Binary
	if name == "" {
		name = DefaultBinary
	}
	return exec.LookPath(name)
}

// Attach finds the machine in dir again, which another process may have
// started. It returns ErrGone if that has ended.
func Attach(ctx context.Context, dir string) (*Machine, error) {
	p, err := process.Open(PIDFile(dir))
	if err != nil {
		return nil, err
	}
	m := newMachine(dir, p)
	if _, err := m.Status(ctx); err != nil {
		// Its socket goes before it does.
		if waitErr := m.waitBriefly(ctx); waitErr == nil {
			err = fmt.Errorf("%w: %w", ErrGone, err)
		}
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Close lets go of the machine; it goes on.
func (m *Machine) Close() error {
	m.once.Do(func() { close(m.closing) })
	m.closed.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	if m.monitor != nil {
		err = m.monitor.close()
		m.monitor = nil
	}
	return errors.Join(err, m.Process.Close())
}

// endTimeout is how long a machine that does not answer may take to end.
const endTimeout = time.Second

func (m *Machine) waitBriefly(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	return m.Wait(ctx)
}

// waitForSocket returns when QEMU listens.
func (m *Machine) waitForSocket(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		conn, err := DialPort(ctx, m.dir, qmpSocket)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-m.Done():
			return ErrGone
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// explain adds what QEMU said about why it does not work.
func (m *Machine) explain(err error) error {
	data, readErr := os.ReadFile(LogPath(m.dir))
	if readErr != nil {
		return err
	}
	const last = 500
	if data = bytes.TrimSpace(data); len(data) > last {
		data = data[len(data)-last:]
	}
	if len(data) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, data)
}

// Execute runs one command of the QEMU Machine Protocol. result may be nil.
func (m *Machine) Execute(ctx context.Context, command string, arguments, result any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	mon, err := m.connection(ctx)
	if err != nil {
		return fmt.Errorf("QEMU: %s: %w", command, err)
	}
	return mon.execute(ctx, command, arguments, result)
}

// connection returns a connection, a new one if the last was lost.
func (m *Machine) connection(ctx context.Context) (*monitor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.monitor != nil {
		select {
		case <-m.monitor.done:
			_ = m.monitor.close() // it is broken already
			m.monitor = nil
		default:
			return m.monitor, nil
		}
	}
	if !m.Alive() {
		return nil, ErrGone
	}
	mon, err := openMonitor(ctx, m.dir, m.onEvent)
	if err != nil {
		return nil, err
	}
	m.monitor = mon
	return mon, nil
}

func (m *Machine) onEvent(e event) {
	m.state.Lock()
	defer m.state.Unlock()
	switch e.Name {
	case "SHUTDOWN":
		var data struct {
			Reason string `json:"reason"`
		}
		if json.Unmarshal(e.Data, &data) == nil && m.reason == "" {
			m.reason = data.Reason
		}
	case "GUEST_PANICKED":
		m.reason = "guest-panic"
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// anyEvent returns a channel that is closed at the next event.
func (m *Machine) anyEvent() <-chan struct{} {
	m.state.Lock()
	defer m.state.Unlock()
	return m.changed
}

// EndReason says why the machine ended, in QEMU's words: "guest-shutdown",
// "guest-reset", "guest-panic", "host-qmp-quit", "host-signal". It is empty if
// that is not known: the machine was killed, or nobody was connected to it.
func (m *Machine) EndReason() string {
	if !m.Alive() {
		m.mu.Lock()
		last := m.monitor
		m.mu.Unlock()
		if last != nil {
			<-last.done // what it said before it ended may still be read
		}
	}
	m.state.Lock()
	defer m.state.Unlock()
	return m.reason
}

// Status is QEMU's run state: "running", "paused", "shutdown",
// "internal-error", "guest-panicked" and others.
func (m *Machine) Status(ctx context.Context) (string, error) {
	var s struct {
		Status string `json:"status"`
	}
	err := m.Execute(ctx, "query-status", nil, &s)
	return s.Status, err
}

// Powerdown presses the power button. The guest decides what that means.
func (m *Machine) Powerdown(ctx context.Context) error {
	return m.Execute(ctx, "system_powerdown", nil, nil)
}

// Stop presses the power button and ends the machine after the grace period.
// It returns when QEMU has ended.
func (m *Machine) Stop(ctx context.Context, grace time.Duration) error {
	if err := m.Powerdown(ctx); err == nil {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-m.Done():
			return nil
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return m.Quit(ctx)
}

// Quit ends the machine at once, with its disks written. It returns when QEMU
// has ended.
func (m *Machine) Quit(ctx context.Context) error {
	if !m.Alive() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, quitTimeout)
	defer cancel()
	// Whatever came of that, it must not run when this returns.
	if err := m.Execute(ctx, "quit", nil, nil); err == nil || errors.Is(err, errClosed) {
		if m.Wait(ctx) == nil {
			return nil
		}
	}
	return m.Kill()
}
