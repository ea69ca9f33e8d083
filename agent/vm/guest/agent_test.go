package guest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeAgent answers like an agent that a host has used before.
type fakeAgent struct {
	t        *testing.T
	commands chan string

	mu sync.Mutex // one question at a time
	// silent is how many synchronizations it does not hear.
	silent int
	// alive says that the slow command was not killed.
	alive bool
}

func (f *fakeAgent) dial(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	f.t.Cleanup(func() { ours.Close() })
	go f.serve(ours)
	return theirs, nil
}

func (f *fakeAgent) serve(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		line = bytes.TrimPrefix(line, []byte{agentMark})
		var q struct {
			Execute   string
			Arguments struct {
				ID    int
				PID   int
				Path  string
				Arg   []string
				Input []byte `json:"input-data"`
			}
		}
		if err := json.Unmarshal(line, &q); err != nil {
			f.t.Errorf("the agent was asked %q", line)
			return
		}
		f.mu.Lock()
		answer := f.answer(q.Execute, q.Arguments.ID, q.Arguments.PID, q.Arguments.Path,
			fmt.Sprint(q.Arguments.Path, q.Arguments.Arg, string(q.Arguments.Input)))
		f.mu.Unlock()
		if answer == "" {
			continue
		}
		if _, err := conn.Write([]byte(answer + "\n")); err != nil {
			return
		}
	}
}

// answer returns nothing for what is not answered.
func (f *fakeAgent) answer(what string, id, pid int, path, command string) string {
	switch what {
	case "guest-sync-delimited":
		if f.silent > 0 {
			f.silent--
			return ""
		}
		// What an earlier host had asked comes first.
		return fmt.Sprintf("{\"return\": {\"pid\": 99}}\n\xff{\"return\": 7}\n\xff{\"return\": %d}", id)
	case "guest-get-osinfo":
		return `{"error": {"class": "CommandNotFound", "desc": "no such command"}}`
	case "guest-exec":
		f.commands <- command
		switch path {
		case "none":
			return `{"error": {"class": "GenericError", "desc": "Failed to execute child process"}}`
		case "slow":
			f.alive = true
			return `{"return": {"pid": 3}}`
		case "kill":
			f.alive = false
			return `{"return": {"pid": 2}}`
		}
		return `{"return": {"pid": 1}}`
	case "guest-exec-status":
		if pid == 3 && f.alive {
			return `{"return": {"exited": false}}`
		}
		return `{"return": {"exited": true, "exitcode": 4, "out-data": "b3V0", "err-data": "ZXJy"}}`
	case "guest-shutdown":
		f.commands <- "shutdown"
	}
	return ""
}

func newFakeAgent(t *testing.T) (*fakeAgent, *Agent, context.Context) {
	f := &fakeAgent{t: t, commands: make(chan string, 100)}
	a := NewAgent(f.dial)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(func() { a.Close(); cancel() })
	return f, a, ctx
}

func TestAgent(t *testing.T) {
	f, a, ctx := newFakeAgent(t)
	f.silent = 1
	if _, err := a.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	req := ExecRequest{Process: Process{Args: []string{"do", "it"}}}
	code, err := a.Exec(ctx, req, Streams{Stdin: strings.NewReader("in"), Stdout: &stdout, Stderr: &stderr})
	if code != 4 || err != nil || stdout.String() != "out" || stderr.String() != "err" {
		t.Errorf("%d, %v, %q, %q", code, err, stdout.String(), stderr.String())
	}
	if got := <-f.commands; got != "do[it]in" {
		t.Errorf("asked to do %q", got)
	}
	if _, err := a.Exec(ctx, ExecRequest{Process: Process{Args: []string{"none"}}},
		Streams{}); !errors.Is(err, ErrNoExecutable) {
		t.Errorf("a missing program: %v", err)
	}
	<-f.commands
	_, err = a.Exec(ctx,
		ExecRequest{Process: Process{Args: []string{"slow"}}, Timeout: 30 * time.Millisecond}, Streams{})
	if !errors.Is(err, ErrTimeout) {
		t.Errorf("a slow program: %v", err)
	}
	<-f.commands
	if got := <-f.commands; got != "kill[-KILL 3]" {
		t.Errorf("a slow program was ended by %q", got)
	}
	if err := a.Shutdown(ctx, 0); err != nil || <-f.commands != "shutdown" {
		t.Errorf("shutdown: %v", err)
	}
}

func TestAgentRefuses(t *testing.T) {
	_, a, ctx := newFakeAgent(t)
	args := []string{"true"}
	for name, req := range map[string]Process{
		"terminal": {Args: args, TTY: true}, "user": {Args: args, User: User{Name: "web"}},
		"directory": {Args: args, Cwd: "/tmp"},
	} {
		if _, err := a.Exec(ctx, ExecRequest{Process: req}, Streams{}); !errors.Is(err, ErrUnsupported) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := a.Exec(ctx, ExecRequest{Process: Process{Args: args}},
		Streams{Stdin: bytes.NewReader(make([]byte, maxAgentInput+1))})
	if !errors.Is(err, ErrUnsupported) {
		t.Errorf("large input: %v", err)
	}
}

func TestNoAgentAnswers(t *testing.T) {
	f, a, _ := newFakeAgent(t)
	f.silent = 1 << 30
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := a.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// The real program.
func TestRealAgent(t *testing.T) {
	program, err := exec.LookPath("qemu-ga")
	if err != nil {
		t.Fatalf("run scripts/install-deps.sh test: %v", err)
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(program, "-m", "unix-listen", "-p", socket, "-t", dir, "-f", filepath.Join(dir, "pid"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	a := NewAgent(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	})
	defer a.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if info, err := a.Ready(ctx); err != nil || info.Kernel == "" {
		t.Fatalf("%+v, %v", info, err)
	}
	var stdout, stderr bytes.Buffer
	req := ExecRequest{Process: Process{Args: []string{"sh", "-c", "cat; echo $A >&2; exit 3"},
		Env: []string{"A=b", "PATH=/bin"}}}
	code, err := a.Exec(ctx, req, Streams{Stdin: strings.NewReader("in"), Stdout: &stdout, Stderr: &stderr})
	if code != 3 || err != nil || stdout.String() != "in" || stderr.String() != "b\n" {
		t.Errorf("%d, %v, %q, %q", code, err, stdout.String(), stderr.String())
	}
	if _, err := a.Exec(ctx, ExecRequest{Process: Process{Args: []string{"/none"}}},
		Streams{}); !errors.Is(err, ErrNoExecutable) {
		t.Errorf("a missing program: %v", err)
	}
	if _, err := a.Exec(ctx, ExecRequest{Process: Process{Args: []string{"sleep", "60"}},
		Timeout: 100 * time.Millisecond}, Streams{}); !errors.Is(err, ErrTimeout) {
		t.Errorf("a slow program: %v", err)
	}
}
