package confined

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/problem"
)

// Command is the name by which the program is started as such a process.
const Command = "a4s-confined"

// Dial makes a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Limits are those of one run.
type Limits struct {
	// Memory is how many bytes it may have that it can write to.
	Memory int64
	// Processor is how long it may compute, in whole seconds.
	Processor time.Duration
	// Time is how long it may take.
	Time time.Duration
	// Answer is how many bytes it may answer.
	Answer int64
	// Connections is how many it may ask for.
	Connections int
}

// Errors of a run, to be matched with errors.Is.
var (
	ErrMemory    = errors.New("it took more memory than it may")
	ErrProcessor = errors.New("it took more time on the processor than it may")
	ErrTime      = errors.New("it took longer than it may")
	ErrAnswer    = errors.New("its answer is longer than it may be")
	// ErrCannotConfine is a machine on which no such process can be made.
	ErrCannotConfine = errors.New("no confined process can be started here")
)

// WorkError is one that the work ended with.
type WorkError struct{ Text string }

// Error implements error.
func (e *WorkError) Error() string { return e.Text }

const (
	// grace is how long it has to end when its caller wants no more.
	grace = 5 * time.Second
	// maxLastWords is how much is kept of what it says when it ends unexpectedly.
	maxLastWords = 4 << 10
)

// What the answer of a process begins with.
const (
	answered   = 'a'
	failed     = 'e'
	unconfined = 'c'
)

// Process runs work in a confined process.
type Process struct {
	// Path is that of the program, "" for this one.
	Path   string
	Limits Limits
	// Dial makes the connections that it asks for. One that is none of the kernel's is copied.
	Dial Dial
}

// Run starts a process, gives it input, and returns its answer. When ctx ends, so does the process, and the error is
// that of ctx.
func (p Process) Run(ctx context.Context, input []byte) ([]byte, error) {
	limited, cancel := context.WithTimeoutCause(ctx, p.Limits.Time, ErrTime)
	defer cancel()
	c, err := p.start(limited, input)
	if err != nil {
		return nil, err
	}
	answer, err := c.wait(limited)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return answer, err
}

// child is a process that runs.
type child struct {
	limits  Limits
	cmd     *exec.Cmd
	ended   <-chan error
	broker  *broker
	answers *os.File
	words   *beginning
}

func (p Process) start(ctx context.Context, input []byte) (*child, error) {
	limits, err := json.Marshal(p.Limits)
	if err != nil {
		return nil, err
	}
	ours, theirs, err := pair(unix.SOCK_SEQPACKET) // which keeps messages apart
	if err != nil {
		return nil, fmt.Errorf("starting a confined process: %w", err)
	}
	defer theirs.Close() //nolint:errcheck // the child has one of its own
	answers, answer, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a confined process: %w", err), ours.Close())
	}
	defer answer.Close() //nolint:errcheck // the child has one of its own
	path := p.Path
	if path == "" {
		path = "/proc/self/exe"
	}
	c := &child{limits: p.Limits, answers: answers, words: &beginning{most: maxLastWords}}
	// The collector works harder before the memory ends. No file of a cgroup is kept open.
	env := []string{"GOTRACEBACK=none", "GOMAXPROCS=1", "GODEBUG=containermaxprocs=0,updatemaxprocs=0",
		"GOMEMLIMIT=" + strconv.FormatInt(p.Limits.Memory/4*3, 10)}
	for _, trusted := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} { // as the server
		if where, ok := os.LookupEnv(trusted); ok {
			env = append(env, trusted+"="+where)
		}
	}
	c.cmd = &exec.Cmd{Path: path, Args: []string{Command, string(limits)}, Dir: "/", Stdin: bytes.NewReader(input),
		Stderr: c.words, ExtraFiles: []*os.File{theirs, answer}, WaitDelay: time.Second,
		Env: env,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL,
			Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC |
				syscall.CLONE_NEWUTS},
	}
	if c.ended, err = started(c.cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w; a4s server has to run as root, with the right to make namespaces",
			ErrCannotConfine, err), ours.Close(), answers.Close())
	}
	c.broker = serve(ctx, ours, p.Dial, p.Limits.Connections)
	return c, nil
}

// started starts a process and delivers its end. It gets its last signal when the thread that started it ends, so that
// thread lives as long. It begins at the server's priority: all of the server waits while it is made.
func started(cmd *exec.Cmd) (<-chan error, error) {
	start, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			// It is alone in its group, and nobody has waited for its end yet. It does so itself before it reads.
			_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, lowest) // it may have ended
		}
		start <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	return ended, <-start
}

// kill ends the process, and waits for that.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}

// wait waits for the answer and for the end.
func (c *child) wait(ctx context.Context) ([]byte, error) {
	read := make(chan []byte, 1)
	go func() {
		data, _ := io.ReadAll(io.LimitReader(c.answers, c.limits.Answer+2)) // what there is until its end
		if int64(len(data)) > c.limits.Answer+1 {
			_ = c.cmd.Process.Kill() // it may have ended; else it waits for somebody to read the rest
		}
		read <- data
	}()
	var ended error
	killed := false
	select {
	case ended = <-c.ended:
	case <-ctx.Done():
		c.broker.close() // it is told so
		timer := time.NewTimer(grace)
		select {
		case ended = <-c.ended:
		case <-timer.C:
			killed = true
			c.kill()
		}
		timer.Stop()
	}
	c.broker.close()
	// Nobody writes any more, unless the end of a pipe was sent away.
	_ = c.answers.SetReadDeadline(time.Now().Add(time.Second)) // what was read counts
	data := <-read
	c.answers.Close() //nolint:errcheck // it was only read
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case int64(len(data)) > c.limits.Answer+1:
		return nil, fmt.Errorf("%w: %d bytes", ErrAnswer, c.limits.Answer)
	case len(data) > 0 && data[0] == unconfined:
		return nil, fmt.Errorf("%w: %s", ErrCannotConfine, problem.Line(string(data[1:])))
	case ended != nil || killed:
		return nil, c.reason(ended)
	case len(data) == 0:
		return nil, fmt.Errorf("a confined process ended without an answer: %s", c.words)
	case data[0] == failed:
		return nil, &WorkError{Text: string(data[1:])}
	default:
		return data[1:], nil
	}
}

// reason says why it ended before its end.
func (c *child) reason(ended error) error {
	words := c.words.String()
	if state := c.cmd.ProcessState; state != nil {
		status, _ := state.Sys().(syscall.WaitStatus)
		usage, _ := state.SysUsage().(*syscall.Rusage)
		// The kernel counts ticks for the limit, and time for this.
		if status.Signal() == syscall.SIGKILL && state.UserTime()+state.SystemTime() >= c.limits.Processor*3/4 {
			return fmt.Errorf("%w: %s", ErrProcessor, c.limits.Processor)
		}
		// Go has no other way to say so than what it writes when it ends, and where its collector or a new thread gets
		// no memory it says other things, with most of the memory taken.
		if strings.Contains(words, "out of memory") || strings.Contains(words, "cannot allocate memory") ||
			usage != nil && usage.Maxrss<<10 >= c.limits.Memory/2 && !strings.HasPrefix(words, "panic:") {
			return fmt.Errorf("%w: %d MiB", ErrMemory, c.limits.Memory>>20)
		}
	}
	return fmt.Errorf("a confined process ended before its end: %w: %s", ended, words)
}

// beginning keeps the first bytes that are written to it.
type beginning struct {
	kept bytes.Buffer
	most int
}

// Write implements io.Writer.
func (b *beginning) Write(data []byte) (int, error) {
	b.kept.Write(data[:min(len(data), b.most-b.kept.Len())])
	return len(data), nil
}

// String is one line without control characters.
func (b *beginning) String() string {
	return problem.Line(strings.Join(strings.Fields(b.kept.String()), " "))
}
