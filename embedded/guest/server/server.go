package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/a4s-io/a4s/embedded/guest/link"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// Server keeps the containers of a machine.
type Server struct {
	machine Machine
	// Log is called with what is worth a line on the console.
	log func(format string, args ...any)

	mu         sync.Mutex
	containers map[string]*container
	execs      map[string]*execution
	lastExec   uint64
	stopping   bool
}

// New returns a server without containers.
func New(m Machine, log func(format string, args ...any)) *Server {
	return &Server{machine: m, log: log, containers: map[string]*container{}, execs: map[string]*execution{}}
}

// Handle answers the call that a stream begins with.
func (s *Server) Handle(st *link.Stream) {
	defer st.Close()
	var call protocol.Call
	if err := protocol.ReadMessage(st, &call); err != nil {
		return
	}
	if f := s.streaming(call.Method); f != nil {
		if err := f(call.Params, st); err != nil {
			_ = protocol.WriteMessage(st, failure(err))
		}
		_ = st.CloseWrite()
		return
	}
	result, err := s.answer(call)
	if err != nil {
		_ = protocol.WriteMessage(st, failure(err))
	} else {
		_ = reply(st, result)
	}
	_ = st.CloseWrite()
}

// reply sends a successful reply.
func reply(w io.Writer, result any) error {
	var raw json.RawMessage
	if result != nil {
		var err error
		if raw, err = json.Marshal(result); err != nil {
			return err
		}
	}
	return protocol.WriteMessage(w, protocol.Reply{Result: raw})
}

// params reads the parameters of a call.
func params[T any](raw json.RawMessage) (T, error) {
	var v T
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&v); err != nil {
		return v, Errorf(protocol.CodeInvalid, "parameters: %w", err)
	}
	return v, nil
}

// on calls f with parameters of its type.
func on[T any](raw json.RawMessage, f func(T) (any, error)) (any, error) {
	p, err := params[T](raw)
	if err != nil {
		return nil, err
	}
	return f(p)
}

// answer handles a call of one question and one answer.
func (s *Server) answer(call protocol.Call) (any, error) {
	switch call.Method {
	case protocol.MethodInfo:
		return s.machine.Info(), nil
	case protocol.MethodSetup:
		return on(call.Params, func(p protocol.Sandbox) (any, error) {
			return nil, s.machine.Setup(context.Background(), p)
		})
	case protocol.MethodCreate:
		return on(call.Params, s.create)
	case protocol.MethodStart:
		return on(call.Params, func(p protocol.ID) (any, error) {
			c, err := s.container(p.ID)
			if err != nil {
				return nil, err
			}
			return c.start(s.machine)
		})
	case protocol.MethodSignal:
		return on(call.Params, s.signal)
	case protocol.MethodList:
		return s.list(), nil
	case protocol.MethodResize:
		return on(call.Params, s.resize)
	case protocol.MethodStats:
		return s.stats()
	case protocol.MethodUpdate:
		return on(call.Params, func(p protocol.UpdateRequest) (any, error) {
			if _, err := s.container(p.ID); err != nil {
				return nil, err
			}
			return nil, s.machine.Update(p.ID, p.Resources)
		})
	case protocol.MethodRemove:
		return on(call.Params, s.remove)
	case protocol.MethodShutdown:
		return on(call.Params, func(p protocol.ShutdownRequest) (any, error) {
			go s.Shutdown(p.Grace)
			return nil, nil
		})
	}
	return nil, Errorf(protocol.CodeUnsupported, "unknown call %q: the guest is older than its host", call.Method)
}

// streaming returns what handles a call that goes on after its reply.
func (s *Server) streaming(method string) func(json.RawMessage, *link.Stream) error {
	switch method {
	case protocol.MethodWait:
		return s.waitFor
	case protocol.MethodLogs:
		return s.logs
	case protocol.MethodStdin:
		return s.stdin
	case protocol.MethodExec:
		return s.exec
	case protocol.MethodExecIO:
		return s.execIO
	case protocol.MethodDial:
		return s.dial
	}
	return nil
}

func (s *Server) container(id string) (*container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.containers[id]; c != nil {
		return c, nil
	}
	return nil, Errorf(protocol.CodeNotFound, "no container %q", id)
}

func (s *Server) create(spec protocol.Container) (any, error) {
	if spec.ID == "" || strings.ContainsAny(spec.ID, "/\x00") || spec.ID[0] == '.' {
		return nil, Errorf(protocol.CodeInvalid, "id %q of a container", spec.ID)
	}
	c := newContainer(spec)
	c.output = newOutput(c.writers())
	// Held until the container exists, so that what comes meanwhile waits.
	c.life.Lock()
	defer c.life.Unlock()
	s.mu.Lock()
	if s.containers[spec.ID] != nil {
		s.mu.Unlock()
		return nil, Errorf(protocol.CodeExists, "container %s exists", spec.ID)
	}
	if s.stopping {
		s.mu.Unlock()
		return nil, Errorf(protocol.CodeState, "the machine is shutting down")
	}
	s.containers[spec.ID] = c
	s.mu.Unlock()
	if err := s.machine.Create(context.Background(), spec); err != nil {
		c.mu.Lock()
		c.removed = true
		c.mu.Unlock()
		s.forget(spec.ID)
		return nil, err
	}
	return nil, nil
}

func (s *Server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.containers, id)
}

func (s *Server) signal(p protocol.SignalRequest) (any, error) {
	c, err := s.container(p.ID)
	if err != nil {
		return nil, err
	}
	proc, err := c.running()
	if err != nil {
		return nil, err
	}
	if p.All {
		return nil, s.machine.Kill(p.ID, p.Signal)
	}
	return nil, proc.Signal(p.Signal)
}

func (s *Server) list() []protocol.ContainerStatus {
	s.mu.Lock()
	all := make([]*container, 0, len(s.containers))
	for _, c := range s.containers {
		all = append(all, c)
	}
	s.mu.Unlock()
	list := make([]protocol.ContainerStatus, 0, len(all))
	for _, c := range all {
		list = append(list, c.status())
	}
	slices.SortFunc(list, func(a, b protocol.ContainerStatus) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func (s *Server) stats() (any, error) {
	var ids []string
	for _, c := range s.list() {
		ids = append(ids, c.ID)
	}
	return s.machine.Stats(ids)
}

func (s *Server) remove(p protocol.ID) (any, error) {
	c, err := s.container(p.ID)
	if err != nil {
		return nil, nil
	}
	if err := c.remove(s.machine); err != nil {
		return nil, err
	}
	s.forget(p.ID)
	return nil, nil
}

// waitFor answers when the container has ended.
func (s *Server) waitFor(raw json.RawMessage, st *link.Stream) error {
	p, err := params[protocol.WaitRequest](raw)
	if err != nil {
		return err
	}
	c, err := s.container(p.ID)
	if err != nil {
		return err
	}
	select {
	case <-c.exited:
	case <-gone(st):
		return nil
	}
	return reply(st, c.status().Exit)
}

// gone is closed when the caller closed its stream or the session ended.
func gone(st *link.Stream) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			if _, err := st.Read(make([]byte, 64)); err != nil {
				return
			}
		}
	}()
	return over
}

// logs sends the container's output and reads what is acknowledged.
func (s *Server) logs(raw json.RawMessage, st *link.Stream) error {
	p, err := params[protocol.LogsRequest](raw)
	if err != nil {
		return err
	}
	c, err := s.container(p.ID)
	if err != nil {
		return err
	}
	c.output.acknowledge(p.From)
	if err := reply(st, nil); err != nil {
		return nil
	}
	over := make(chan struct{})
	go func() {
		defer c.output.wake()
		defer close(over)
		for {
			offset, err := protocol.ReadAck(st)
			if err != nil {
				return
			}
			c.output.acknowledge(offset)
		}
	}()
	for offset := p.From; ; {
		r := c.output.next(offset, over)
		select {
		case <-over:
			return nil
		default:
		}
		if err := protocol.WriteRecord(st, r); err != nil {
			return nil
		}
		if r.Stream == 0 {
			// The caller ends the stream after its last acknowledgement, and
			// knows by the end of ours that it counts.
			<-over
			return nil
		}
		offset = r.Offset + int64(len(r.Data))
	}
}

// stdin writes what it is sent to the container.
func (s *Server) stdin(raw json.RawMessage, st *link.Stream) error {
	p, err := params[protocol.ID](raw)
	if err != nil {
		return err
	}
	c, err := s.container(p.ID)
	if err != nil {
		return err
	}
	if _, err := c.running(); err != nil {
		return err
	}
	c.mu.Lock()
	to := c.stdin
	c.mu.Unlock()
	if to == nil {
		return Errorf(protocol.CodeState, "the standard input of container %s is closed", p.ID)
	}
	if err := reply(st, nil); err != nil {
		return nil
	}
	if _, err := io.Copy(to, st); err != nil {
		return nil // the caller went away; the input stays open for the next one
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdin == to && !c.spec.Process.TTY {
		c.stdin = nil
		_ = to.Close()
	}
	return nil
}

func (s *Server) resize(p protocol.ResizeRequest) (any, error) {
	if p.Exec != "" {
		e, err := s.execution(p.Exec)
		if err != nil {
			return nil, err
		}
		return nil, e.resize(p.Size)
	}
	c, err := s.container(p.ID)
	if err != nil {
		return nil, err
	}
	proc, err := c.running()
	if err != nil {
		return nil, err
	}
	return nil, setSize(proc.TTY, p.Size)
}

// dial joins the stream to a port of the loopback interface.
func (s *Server) dial(raw json.RawMessage, st *link.Stream) error {
	p, err := params[protocol.DialRequest](raw)
	if err != nil {
		return err
	}
	port := strconv.Itoa(int(p.Port))
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), 10*time.Second)
	if err != nil {
		var err6 error
		if conn, err6 = net.DialTimeout("tcp", net.JoinHostPort("::1", port), 10*time.Second); err6 != nil {
			return Errorf(protocol.CodeNotFound, "nothing listens on port %s: %w", port, err)
		}
	}
	defer conn.Close()
	if err := reply(st, nil); err != nil {
		return nil
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if _, err := io.Copy(conn, st); err != nil {
			_ = conn.Close()
			return
		}
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	if _, err := io.Copy(st, conn); err != nil {
		return nil
	}
	_ = st.CloseWrite()
	<-sent
	return nil
}

// outputGrace is how long the last output is kept for a host when the machine
// shuts down.
const outputGrace = time.Second

// Shutdown ends all containers, with SIGTERM first, and powers off.
func (s *Server) Shutdown(grace time.Duration) {
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return
	}
	s.stopping = true
	all := make([]*container, 0, len(s.containers))
	for _, c := range s.containers {
		all = append(all, c)
	}
	s.mu.Unlock()
	over := time.After(grace)
	for _, c := range all {
		if proc, err := c.running(); err == nil && grace > 0 {
			_ = proc.Signal(int(syscall.SIGTERM))
		}
	}
	for _, c := range all {
		if _, err := c.running(); err != nil {
			continue
		}
		select {
		case <-c.exited:
		case <-over:
			over = time.After(0)
			_ = s.machine.Kill(c.spec.ID, int(syscall.SIGKILL))
		}
	}
	late := time.Now().Add(outputGrace)
	for _, c := range all {
		c.output.waitAcknowledged(late)
		if err := c.remove(s.machine); err != nil {
			s.log("removing container %s: %v", c.spec.ID, err)
		}
	}
	if err := s.machine.Poweroff(); err != nil {
		s.log("powering off: %v", err)
	}
}

// setSize sets the size of a terminal.
func setSize(tty *os.File, size protocol.TerminalSize) error {
	if tty == nil {
		return Errorf(protocol.CodeState, "the process has no terminal")
	}
	return resizeTTY(tty, size)
}
