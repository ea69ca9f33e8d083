package server

import (
	"encoding/json"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/a4s-io/a4s/embedded/guest/link"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// execution is a further process in a container.
type execution struct {
	request protocol.ExecRequest

	mu      sync.Mutex
	streams [3]*link.Stream
	tty     *os.File
	size    *protocol.TerminalSize // set before there was a terminal
	over    chan struct{}          // closed when nothing uses the streams any more
}

func (s *Server) execution(id string) (*execution, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.execs[id]; e != nil {
		return e, nil
	}
	return nil, Errorf(protocol.CodeNotFound, "no exec %q", id)
}

func (e *execution) resize(size protocol.TerminalSize) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tty == nil {
		e.size = &size
		return nil
	}
	return setSize(e.tty, size)
}

// exec handles the call whose stream stands for the execution.
func (s *Server) exec(raw json.RawMessage, st *link.Stream) error {
	req, err := params[protocol.ExecRequest](raw)
	if err != nil {
		return err
	}
	c, err := s.container(req.ID)
	if err != nil {
		return err
	}
	if _, err := c.running(); err != nil {
		return err
	}
	e := &execution{request: req, over: make(chan struct{}), size: req.Process.Size}
	defer close(e.over)
	s.mu.Lock()
	s.lastExec++
	id := strconv.FormatUint(s.lastExec, 10)
	s.execs[id] = e
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.execs, id)
	}()
	if err := reply(st, protocol.ExecStarted{Exec: id}); err != nil {
		return nil
	}
	var begin struct{}
	if err := protocol.ReadMessage(st, &begin); err != nil {
		return nil
	}
	exit, err := e.run(s.machine, c, st)
	if err != nil {
		return err
	}
	return reply(st, exit)
}

// execIO hands a stream to an execution, and keeps it until that is over.
func (s *Server) execIO(raw json.RawMessage, st *link.Stream) error {
	p, err := params[protocol.ExecIORequest](raw)
	if err != nil {
		return err
	}
	e, err := s.execution(p.Exec)
	if err != nil {
		return err
	}
	if p.FD < 0 || p.FD > 2 {
		return Errorf(protocol.CodeInvalid, "file descriptor %d", p.FD)
	}
	e.mu.Lock()
	if e.streams[p.FD] != nil {
		e.mu.Unlock()
		return Errorf(protocol.CodeExists, "file descriptor %d is in use", p.FD)
	}
	e.streams[p.FD] = st
	e.mu.Unlock()
	if err := reply(st, nil); err != nil {
		return nil
	}
	<-e.over
	return nil
}

// run starts the process and returns when it has ended and its output was sent.
func (e *execution) run(m Machine, c *container, call *link.Stream) (protocol.Exit, error) {
	p := &pipes{}
	if err := p.open(e.request.Process.TTY, e.request.Stdin); err != nil {
		return protocol.Exit{}, err
	}
	proc, err := m.Exec(c.spec, e.request.Process, p.theirs)
	closeAll(p.theirs.Stdin, p.theirs.Stdout, p.theirs.Stderr)
	if err != nil {
		closeAll(p.stdin, p.stdout, p.stderr)
		return protocol.Exit{}, err
	}
	stdin, outputs := p.ours(proc)
	e.mu.Lock()
	streams := e.streams
	e.tty = proc.TTY
	if proc.TTY != nil && e.size != nil {
		_ = setSize(proc.TTY, *e.size)
	}
	e.mu.Unlock()

	exited := make(chan struct{})
	if streams[0] != nil && stdin != nil {
		go func() {
			_, _ = io.Copy(stdin, streams[0])
			if proc.TTY == nil {
				_ = stdin.Close()
			}
		}()
	} else if stdin != nil && proc.TTY == nil {
		_ = stdin.Close()
	}
	var pumps sync.WaitGroup
	for i, from := range outputs {
		to := streams[i+1]
		pumps.Go(func() {
			pump(from, exited, func(b []byte) error {
				if to == nil {
					return nil
				}
				_, err := to.Write(b)
				return err
			})
			if to != nil {
				_ = to.CloseWrite()
			}
			// A process that goes on without a reader is told so by the
			// kernel: SIGPIPE, or SIGHUP of its terminal.
			e.mu.Lock()
			e.tty = nil
			_ = from.Close()
			e.mu.Unlock()
		})
	}
	exit := e.wait(proc, gone(call))
	close(exited)
	pumps.Wait()
	if stdin != nil {
		_ = stdin.Close()
	}
	return exit, nil
}

// wait returns the exit of the process. When the time is over, or when the
// caller gave it a time and went away, the process is killed.
func (e *execution) wait(proc Proc, gone <-chan struct{}) protocol.Exit {
	result := make(chan protocol.Exit, 1)
	go func() { result <- proc.Wait() }()
	var over <-chan time.Time
	if e.request.Timeout > 0 {
		timer := time.NewTimer(e.request.Timeout)
		defer timer.Stop()
		over = timer.C
	} else {
		gone = nil
	}
	for timedOut := false; ; {
		select {
		case exit := <-result:
			exit.TimedOut = timedOut
			return exit
		case <-over:
			timedOut = true
		case <-gone:
		}
		over, gone = nil, nil
		_ = proc.Signal(int(syscall.SIGKILL))
	}
}
