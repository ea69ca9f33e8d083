package server

import (
	"os"
	"sync"
	"syscall"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// container is a container of the pod.
type container struct {
	spec   protocol.Container
	output *output

	// life is held by what changes the state: one at a time.
	life sync.Mutex

	mu      sync.Mutex
	state   string
	proc    *Proc
	stdin   *os.File // our end
	exit    *protocol.Exit
	removed bool

	exited chan struct{} // closed when exit is there
}

func newContainer(spec protocol.Container) *container {
	return &container{spec: spec, state: protocol.StateCreated, exited: make(chan struct{})}
}

// start runs the container's process.
func (c *container) start(m Machine) (protocol.Started, error) {
	c.life.Lock()
	defer c.life.Unlock()
	c.mu.Lock()
	state, removed := c.state, c.removed
	c.mu.Unlock()
	if removed {
		return protocol.Started{}, Errorf(protocol.CodeNotFound, "container %s was removed", c.spec.ID)
	}
	if state != protocol.StateCreated {
		return protocol.Started{}, Errorf(protocol.CodeState, "container %s is %s, not created", c.spec.ID, state)
	}
	p := &pipes{}
	err := p.open(c.spec.Process.TTY, c.spec.Stdin)
	if err != nil {
		return protocol.Started{}, err
	}
	proc, err := m.Start(c.spec, p.theirs)
	closeAll(p.theirs.Stdin, p.theirs.Stdout, p.theirs.Stderr)
	if err != nil {
		closeAll(p.stdin, p.stdout, p.stderr)
		return protocol.Started{}, err
	}
	stdin, outputs := p.ours(proc)
	c.mu.Lock()
	c.proc, c.stdin, c.state = &proc, stdin, protocol.StateRunning
	if c.spec.Process.TTY && !c.spec.Stdin {
		c.stdin = nil
	}
	c.mu.Unlock()
	for i, from := range outputs {
		go func() {
			pump(from, c.exited, func(b []byte) error { c.output.write(i+1, b); return nil })
			c.output.finish()
			_ = from.Close()
		}()
	}
	go c.wait(m, proc)
	return proc.Started, nil
}

// writers is how many streams of output the container will have.
func (c *container) writers() int {
	if c.spec.Process.TTY {
		return 1
	}
	return 2
}

func (c *container) wait(m Machine, proc Proc) {
	exit := proc.Wait()
	// Processes that it left behind end with it.
	_ = m.Kill(c.spec.ID, int(syscall.SIGKILL))
	c.mu.Lock()
	c.state, c.exit = protocol.StateExited, &exit
	stdin := c.stdin
	c.stdin = nil
	c.mu.Unlock()
	if stdin != nil && proc.TTY == nil {
		_ = stdin.Close()
	}
	close(c.exited)
}

// remove ends the container's processes and takes it apart.
func (c *container) remove(m Machine) error {
	c.life.Lock()
	defer c.life.Unlock()
	c.mu.Lock()
	running := c.state == protocol.StateRunning
	c.mu.Unlock()
	if running {
		if err := m.Kill(c.spec.ID, int(syscall.SIGKILL)); err != nil {
			return err
		}
		<-c.exited
	}
	c.output.drop()
	if err := m.Remove(c.spec.ID); err != nil {
		return err
	}
	c.mu.Lock()
	c.removed = true
	c.mu.Unlock()
	return nil
}

// running returns the process, or an error if there is none.
func (c *container) running() (*Proc, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != protocol.StateRunning {
		return nil, Errorf(protocol.CodeState, "container %s is %s, not running", c.spec.ID, c.state)
	}
	return c.proc, nil
}

func (c *container) status() protocol.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := protocol.ContainerStatus{ID: c.spec.ID, State: c.state, Exit: c.exit}
	if c.proc != nil {
		s.StartedAt, s.UID, s.GIDs = c.proc.At, c.proc.UID, c.proc.GIDs
		if c.exit == nil {
			s.Pid = c.proc.Pid
		}
	}
	return s
}

// pipes are the standard streams of a process. With a terminal there are none:
// the machine makes the terminal.
type pipes struct {
	theirs                Stdio
	stdin, stdout, stderr *os.File
}

func (p *pipes) open(tty, stdin bool) (err error) {
	if tty {
		return nil
	}
	defer func() {
		if err != nil {
			closeAll(p.stdin, p.stdout, p.stderr, p.theirs.Stdin, p.theirs.Stdout, p.theirs.Stderr)
		}
	}()
	if stdin {
		p.theirs.Stdin, p.stdin, err = os.Pipe()
	} else {
		p.theirs.Stdin, err = os.Open(os.DevNull)
	}
	if err != nil {
		return err
	}
	if p.stdout, p.theirs.Stdout, err = os.Pipe(); err != nil {
		return err
	}
	p.stderr, p.theirs.Stderr, err = os.Pipe()
	return err
}

// ours returns our ends: what the process reads from and what it writes to.
func (p *pipes) ours(proc Proc) (stdin *os.File, outputs []*os.File) {
	if proc.TTY != nil {
		return proc.TTY, []*os.File{proc.TTY}
	}
	return p.stdin, []*os.File{p.stdout, p.stderr}
}
