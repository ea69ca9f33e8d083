package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"

	"github.com/a4s-io/a4s/agent/vm/guest"
)

// maxExecOutput is how much of a stream ExecSync returns, as containerd does.
const maxExecOutput = 16 << 20

// agentTimeout is how long a guest agent may take to answer.
const agentTimeout = 5 * time.Second

// execution runs commands in containers, and connects to their processes and ports.
type execution struct {
	*tasks
	log       *logrus.Entry
	store     *store
	streaming *streams
}

// streams is the server behind exec, attach and port-forward, on a port of the
// loopback. Its URLs hold a token that is good for one use.
type streams struct {
	streaming.Server
	http *http.Server
}

func newStreams(s *execution) (*streams, error) {
	listener, err := (&net.ListenConfig{}).Listen(s.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serving exec, attach and port-forward: %w", err)
	}
	config := streaming.DefaultConfig
	config.BaseURL = &url.URL{Scheme: "http", Host: listener.Addr().String()}
	server, err := streaming.NewServer(config, runtimeStreams{s})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serving exec, attach and port-forward: %w", err), listener.Close())
	}
	t := &streams{Server: server, http: &http.Server{Handler: server, ReadHeaderTimeout: 30 * time.Second}}
	s.background(func() {
		if err := t.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.WithError(err).Error("the server of exec, attach and port-forward ended")
		}
	})
	return t, nil
}

func (t *streams) stop() { _ = t.http.Close() } // open streams end with the process

// Exec implements the CRI.
func (s *execution) Exec(_ context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if _, _, err := s.execIn(r.GetContainerId()); err != nil {
		return nil, err
	}
	return s.streaming.GetExec(r)
}

// Attach implements the CRI.
func (s *execution) Attach(_ context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	c, err := s.store.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if record := c.get(); record.State != stateRunning {
		return nil, status.Errorf(codes.FailedPrecondition, "container %s is %s, not %s", c.id,
			record.State, stateRunning)
	}
	return s.streaming.GetAttach(r)
}

// PortForward implements the CRI.
func (s *execution) PortForward(
	_ context.Context, r *runtimeapi.PortForwardRequest,
) (*runtimeapi.PortForwardResponse, error) {
	p, err := s.store.sandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	if p.running() == nil {
		return nil, status.Errorf(codes.FailedPrecondition, "sandbox %s is not running", p.id)
	}
	return s.streaming.GetPortForward(r)
}

// execIn returns a running container and its machine.
func (s *execution) execIn(id string) (*container, *machine, error) {
	c, err := s.store.container(id)
	if err != nil {
		return nil, nil, err
	}
	m := c.pod.running()
	if record := c.get(); record.State != stateRunning || m == nil {
		return nil, nil,
			status.Errorf(codes.FailedPrecondition, "container %s is %s, not %s", c.id, record.State, stateRunning)
	}
	return c, m, nil
}

// execRequest is a further process in a container.
func execRequest(c *container, command []string, tty bool, timeout time.Duration) guest.ExecRequest {
	record := c.get()
	r := guest.ExecRequest{Container: c.id, Process: record.Process, Timeout: timeout}
	if record.Disk {
		r.Container = "" // the machine itself
	}
	r.Process.Args, r.Process.TTY, r.Process.Size = command, tty, nil
	return r
}

// agentReady returns an error if a machine with a system of its own has nobody
// to run commands: the port is there all the same.
func agentReady(ctx context.Context, c *container, m *machine) error {
	if m.guest != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	if _, err := m.exec.Ready(ctx); err != nil {
		return execError(c.get(), err)
	}
	return nil
}

// execError says why a command could not be run.
func execError(record containerRecord, err error) error {
	if record.Disk && !errors.Is(err, guest.ErrTimeout) {
		return status.Errorf(codes.Unavailable, "a machine that booted the disk of its image runs commands only "+
			"through qemu-guest-agent, which must be installed and running in it: %v", err)
	}
	return guestError("running the command", err)
}

// limited keeps the beginning of a stream.
type limited struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(p[:min(len(p), maxExecOutput-l.b.Len())])
	return len(p), nil
}

func (l *limited) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}

// ExecSync implements the CRI.
func (s *execution) ExecSync(
	ctx context.Context, r *runtimeapi.ExecSyncRequest,
) (*runtimeapi.ExecSyncResponse, error) {
	c, m, err := s.execIn(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if len(r.GetCmd()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no command given")
	}
	if err := agentReady(ctx, c, m); err != nil {
		return nil, err
	}
	timeout := time.Duration(r.GetTimeout()) * time.Second
	var stdout, stderr limited
	code, err := m.exec.Exec(ctx, execRequest(c, r.GetCmd(), false, timeout),
		guest.Streams{Stdout: &stdout, Stderr: &stderr})
	if errors.Is(err, guest.ErrTimeout) {
		// The kubelet knows a probe that timed out by this code.
		return nil, status.Errorf(codes.DeadlineExceeded, "failed to exec in container: timeout %s exceeded", timeout)
	}
	if err != nil {
		return nil, execError(c.get(), err)
	}
	return &runtimeapi.ExecSyncResponse{Stdout: stdout.bytes(), Stderr: stderr.bytes(), ExitCode: int32(code)}, nil
}

// runtimeStreams serves what the streaming server has connected.
type runtimeStreams struct{ s *execution }

// Exec implements streaming.Runtime.
func (r runtimeStreams) Exec(
	ctx context.Context, id string, command []string, stdin io.Reader, stdout, stderr io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize,
) error {
	c, m, err := r.s.execIn(id)
	if err != nil {
		return err
	}
	if err := agentReady(ctx, c, m); err != nil {
		return err
	}
	streams := guest.Streams{Stdin: stdin, Resize: sizes(ctx, resize)}
	// Not a nil pointer in an interface.
	if stdout != nil {
		streams.Stdout = stdout
	}
	if stderr != nil {
		streams.Stderr = stderr
	}
	code, err := m.exec.Exec(ctx, execRequest(c, command, tty, 0), streams)
	if err != nil {
		return execError(c.get(), err)
	}
	if code != 0 {
		return exec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", code), Code: code}
	}
	return nil
}

// sizes hands on the sizes of a terminal until ctx ends. There are none without a terminal.
func sizes(ctx context.Context, from <-chan remotecommand.TerminalSize) <-chan guest.TerminalSize {
	to := make(chan guest.TerminalSize)
	go func() {
		defer close(to)
		for {
			select {
			case size, ok := <-from:
				if !ok {
					return
				}
				select {
				case to <- guest.TerminalSize{Width: size.Width, Height: size.Height}:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return to
}

// Attach implements streaming.Runtime.
func (r runtimeStreams) Attach(
	ctx context.Context, id string, stdin io.Reader, stdout, stderr io.WriteCloser, _ bool,
	resize <-chan remotecommand.TerminalSize,
) error {
	c, m, err := r.s.execIn(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config := c.get().Config.P
	if m.guest != nil && config.GetTty() {
		go func() {
			for size := range sizes(ctx, resize) {
				if err := m.guest.Resize(ctx, c.id, size); err != nil {
					r.s.log.WithError(err).WithField("container", c.id).Debug("resizing a terminal")
				}
			}
		}()
	}
	if m.guest != nil && stdin != nil && config.GetStdin() {
		input, err := m.guest.Stdin(ctx, c.id)
		if err != nil {
			return guestError("attaching to the container's input", err)
		}
		go func() {
			_, err := io.Copy(input, stdin)
			if err != nil {
				r.s.log.WithError(err).WithField("container", c.id).Debug("copying input to a container")
			}
			// Others may attach later, unless it is to be closed with the first.
			if config.GetStdinOnce() && !config.GetTty() {
				err = input.Close()
			}
			if err != nil {
				r.s.log.WithError(err).WithField("container", c.id).Debug("closing the input of a container")
			}
			if stdout == nil && stderr == nil {
				cancel()
			}
		}()
	}
	var out, errs io.Writer
	if stdout != nil {
		out = stdout
	}
	if stderr != nil {
		errs = stderr
	}
	c.output.attach(ctx, out, errs)
	return nil
}

// PortForward implements streaming.Runtime.
func (r runtimeStreams) PortForward(ctx context.Context, id string, port int32, stream io.ReadWriteCloser) error {
	p, err := r.s.store.sandbox(id)
	if err != nil {
		return err
	}
	m := p.running()
	if m == nil {
		return status.Errorf(codes.FailedPrecondition, "sandbox %s is not running", p.id)
	}
	if port <= 0 || port > 65535 {
		return status.Errorf(codes.InvalidArgument, "port %d does not exist", port)
	}
	var conn guest.Conn
	if m.guest != nil {
		conn, err = m.guest.Dial(ctx, uint16(port))
	} else {
		conn, err = dialPod(ctx, p, port)
	}
	if err != nil {
		return fmt.Errorf("connecting to port %d of sandbox %s: %w", port, p.id, err)
	}
	defer conn.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, stream)
		sent <- errors.Join(err, conn.CloseWrite())
	}()
	_, err = io.Copy(stream, conn)
	if err != nil {
		return fmt.Errorf("forwarding port %d of sandbox %s: %w", port, p.id, err)
	}
	// The client keeps its half open as long as it likes.
	select {
	case err = <-sent:
		if err != nil {
			r.s.log.WithError(err).Debug("forwarding to a port")
		}
	default:
	}
	return nil
}

// dialPod connects to a machine with a system of its own, which serves ports
// on its address and not for us on its loopback.
func dialPod(ctx context.Context, p *sandbox, port int32) (guest.Conn, error) {
	ips := p.get().IPs
	if len(ips) == 0 {
		return nil, errors.New("the pod has no address")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(ips[0], strconv.Itoa(int(port))))
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("connection is a %T", conn), conn.Close())
	}
	return tcp, nil
}
