package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Agent talks to qemu-guest-agent in a machine that was booted from a disk of
// its own. Such an agent runs commands without a terminal, hands over their
// output when they have ended, and takes their input before they start; what it
// cannot do is ErrUnsupported.
type Agent struct {
	channel *agentChannel
}

var _ Executor = (*Agent)(nil)

// NewAgent returns a client that dials when it is needed.
func NewAgent(dial Dialer) *Agent { return &Agent{channel: newAgentChannel(dial)} }

// Close lets go of the connection.
func (a *Agent) Close() error { return a.channel.close() }

// What an agent takes and how it is asked.
const (
	// maxAgentInput is the largest input of a command, which is one message.
	maxAgentInput = 1 << 20
	// askMin and askMax are how often is asked whether a command has ended.
	askMin, askMax = 20 * time.Millisecond, 500 * time.Millisecond
	// killTimeout is how long the end of a command may take that was killed.
	killTimeout = 5 * time.Second
	// shutdownTimeout is how long the agent may take to refuse a shutdown; it
	// does not answer when it does one.
	shutdownTimeout = time.Second
)

// Ready returns when the agent answers, or when ctx ends. An agent may never
// answer: a disk may have none.
func (a *Agent) Ready(ctx context.Context) (Info, error) {
	var os struct {
		Kernel string `json:"kernel-release"`
	}
	err := persist(ctx, func() error { return a.channel.execute(ctx, "guest-get-osinfo", nil, &os) })
	var refused *agentError
	if errors.As(err, &refused) {
		err = nil // old agents do not know it; but it answers
	}
	return Info{Kernel: os.Kernel, Setup: true}, err
}

// Exec runs a command as root and returns its exit code.
func (a *Agent) Exec(ctx context.Context, req ExecRequest, streams Streams) (int, error) {
	if err := agentCan(req); err != nil {
		return 0, err
	}
	input, err := agentInput(streams.Stdin)
	if err != nil {
		return 0, err
	}
	args := map[string]any{"path": req.Process.Args[0], "arg": req.Process.Args[1:], "capture-output": true}
	if len(req.Process.Env) > 0 {
		args["env"] = req.Process.Env
	}
	if len(input) > 0 {
		args["input-data"] = input
	}
	var started struct{ PID int }
	if err := a.channel.execute(ctx, "guest-exec", args, &started); err != nil {
		var refused *agentError
		if errors.As(err, &refused) && !errors.Is(err, ErrUnsupported) {
			err = fmt.Errorf("%w: %w", ErrNoExecutable, err)
		}
		return 0, err
	}
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if req.Timeout > 0 {
		waiting, cancel = context.WithTimeoutCause(ctx, req.Timeout, ErrTimeout)
	}
	defer cancel()
	result, err := a.result(waiting, started.PID)
	if waiting.Err() != nil && err != nil {
		a.kill(ctx, started.PID)
		if ctx.Err() == nil {
			return 0, fmt.Errorf("%w after %v", ErrTimeout, req.Timeout)
		}
	}
	if err != nil {
		return 0, err
	}
	return result.code(), result.deliver(streams)
}

// agentCan refuses what an agent would do in another way than it was meant.
func agentCan(req ExecRequest) error {
	p := req.Process
	for _, cannot := range []struct {
		what  string
		asked bool
	}{
		{"a terminal", p.TTY},
		{"a working directory", p.Cwd != "" && p.Cwd != "/"},
		{"another user", p.User.Name != "" && p.User.Name != "root" && p.User.Name != "0"},
	} {
		if cannot.asked {
			return fmt.Errorf("%s for a command: %w, which boots a system of its own", cannot.what, ErrUnsupported)
		}
	}
	if len(p.Args) == 0 {
		return fmt.Errorf("%w: no command", ErrInvalid)
	}
	return nil
}

// agentInput reads a command's input to its end.
func agentInput(r io.Reader) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	input, err := io.ReadAll(io.LimitReader(r, maxAgentInput+1))
	if err != nil {
		return nil, err
	}
	if len(input) > maxAgentInput {
		return nil, fmt.Errorf("input of more than %d bytes for a command: %w, which boots a system of its own",
			maxAgentInput, ErrUnsupported)
	}
	return input, nil
}

// agentResult is what the agent says of a command. Bytes are base64 in JSON.
type agentResult struct {
	Exited       bool   `json:"exited"`
	ExitCode     int    `json:"exitcode"`
	Signal       int    `json:"signal"`
	Out          []byte `json:"out-data"`
	Err          []byte `json:"err-data"`
	OutTruncated bool   `json:"out-truncated"`
	ErrTruncated bool   `json:"err-truncated"`
}

func (r *agentResult) code() int {
	if r.Signal > 0 {
		return 128 + r.Signal
	}
	return r.ExitCode
}

func (r *agentResult) deliver(s Streams) error {
	for _, out := range []struct {
		to   io.Writer
		data []byte
	}{{s.Stdout, r.Out}, {s.Stderr, r.Err}} {
		if out.to == nil {
			continue
		}
		if _, err := io.Copy(out.to, bytes.NewReader(out.data)); err != nil {
			return fmt.Errorf("handing on output: %w", err)
		}
	}
	if r.OutTruncated || r.ErrTruncated {
		return fmt.Errorf("%w: the command wrote more than its guest agent keeps", ErrUnsupported)
	}
	return nil
}

// result asks until the command has ended.
func (a *Agent) result(ctx context.Context, pid int) (*agentResult, error) {
	for wait := askMin; ; wait = min(2*wait, askMax) {
		var r agentResult
		if err := a.channel.execute(ctx, "guest-exec-status", map[string]any{"pid": pid}, &r); err != nil {
			return nil, err
		}
		if r.Exited {
			return &r, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// kill ends a command; an agent has no call for that.
func (a *Agent) kill(ctx context.Context, pid int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	var killer struct{ PID int }
	args := map[string]any{"path": "kill", "arg": []string{"-KILL", strconv.Itoa(pid)}}
	if a.channel.execute(ctx, "guest-exec", args, &killer) != nil {
		return
	}
	// An agent keeps what it knows of a command until it was asked for.
	for _, pid := range []int{killer.PID, pid} {
		_, _ = a.result(ctx, pid)
	}
}

// Shutdown asks the system to power the machine off, at its own pace: grace is
// not told to it.
func (a *Agent) Shutdown(ctx context.Context, _ time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, shutdownTimeout, errNoRefusal)
	defer cancel()
	err := a.channel.execute(ctx, "guest-shutdown", map[string]any{"mode": "powerdown"}, nil)
	if errors.Is(err, errNoRefusal) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

var errNoRefusal = errors.New("no answer")
