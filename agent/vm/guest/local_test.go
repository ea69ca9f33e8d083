package guest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/embedded/guest/link"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

// local is a guest in the test process: the real server on a port like QEMU's,
// and a machine whose containers are ordinary processes.
type local struct {
	listener net.Listener
	machine  *processes

	mu   sync.Mutex
	conn net.Conn
}

func startLocal(t *testing.T) (*local, *guest.Client, context.Context) {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "port"))
	if err != nil {
		t.Fatal(err)
	}
	l := &local{listener: listener, machine: &processes{running: map[string]*exec.Cmd{}}}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	s := server.New(l.machine, t.Logf)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = link.Serve(ctx, l, s.Handle)
	}()
	c := guest.New(l.dial)
	t.Cleanup(func() {
		c.Close()
		cancel()
		listener.Close()
		l.disconnect()
		<-over
		l.machine.killAll()
	})
	return l, c, ctx
}

func (l *local) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", l.listener.Addr().String())
}

// disconnect is what happens to a host that is killed.
func (l *local) disconnect() {
	if c := l.current(); c != nil {
		c.Close()
	}
}

func (l *local) current() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

func (l *local) Read(p []byte) (int, error) {
	if c := l.current(); c != nil {
		if n, err := c.Read(p); err == nil {
			return n, nil
		}
	}
	return 0, io.EOF
}

func (l *local) Write(p []byte) (int, error) { return l.current().Write(p) }

func (l *local) SetWriteDeadline(t time.Time) error {
	if c := l.current(); c != nil {
		_ = c.SetWriteDeadline(t) // closed already
	}
	return nil
}

func (l *local) Await(context.Context) error {
	c, err := l.listener.Accept()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = c
	return nil
}

// processes is a machine without namespaces.
type processes struct {
	mu      sync.Mutex
	running map[string]*exec.Cmd
	off     bool
}

func (p *processes) Info() protocol.Info {
	return protocol.Info{Version: protocol.Version, BootID: "test"}
}
func (p *processes) Setup(context.Context, protocol.Sandbox) error    { return nil }
func (p *processes) Create(context.Context, protocol.Container) error { return nil }
func (p *processes) Remove(string) error                              { return nil }
func (p *processes) Update(string, protocol.Resources) error          { return nil }
func (p *processes) Stats([]string) (protocol.Stats, error)           { return protocol.Stats{}, nil }

func (p *processes) Poweroff() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
	return nil
}

func (p *processes) isOff() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.off
}

func (p *processes) Start(c protocol.Container, stdio server.Stdio) (server.Proc, error) {
	return p.run(c.ID, c.Process, stdio)
}

func (p *processes) Exec(_ protocol.Container, proc protocol.Process, stdio server.Stdio) (server.Proc, error) {
	return p.run("", proc, stdio)
}

func (p *processes) run(id string, proc protocol.Process, stdio server.Stdio) (server.Proc, error) {
	cmd := exec.Command(proc.Args[0], proc.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdio.Stdin, stdio.Stdout, stdio.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return server.Proc{}, server.Errorf(protocol.CodeNoExecutable, "%w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if id == "" {
		id = fmt.Sprint("exec ", cmd.Process.Pid)
	}
	p.running[id] = cmd
	return server.Proc{
		Started: protocol.Started{Pid: cmd.Process.Pid, At: time.Now()},
		Wait: func() protocol.Exit {
			_ = cmd.Wait()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if status.Signaled() {
				return protocol.Exit{Code: 128 + int(status.Signal()), Signal: int(status.Signal()), At: time.Now()}
			}
			return protocol.Exit{Code: status.ExitStatus(), At: time.Now()}
		},
		Signal: func(signal int) error { return cmd.Process.Signal(syscall.Signal(signal)) },
	}, nil
}

func (p *processes) Kill(id string, signal int) error {
	p.mu.Lock()
	cmd := p.running[id]
	p.mu.Unlock()
	if cmd != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.Signal(signal)) // it may have ended
	}
	return nil
}

func (p *processes) killAll() {
	p.mu.Lock()
	ids := make([]string, 0, len(p.running))
	for id := range p.running {
		ids = append(ids, id)
	}
	p.mu.Unlock()
	for _, id := range ids {
		_ = p.Kill(id, int(syscall.SIGKILL))
	}
}
