package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a4s-io/a4s/agent/vm/guest"
)

func shell(script string) guest.Process {
	return guest.Process{Args: []string{"/bin/sh", "-c", script}}
}

// started creates and starts a container.
func started(t *testing.T, ctx context.Context, c *guest.Client, ct guest.Container) string {
	t.Helper()
	ct.ID = "c"
	if err := c.Create(ctx, ct); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(ctx, ct.ID); err != nil {
		t.Fatal(err)
	}
	return ct.ID
}

func TestLifeOfAContainer(t *testing.T) {
	_, c, ctx := startLocal(t)
	if info, err := c.Ready(ctx); err != nil || info.BootID != "test" {
		t.Fatalf("%+v, %v", info, err)
	}
	id := started(t, ctx, c, guest.Container{Process: shell("echo out; echo err >&2; exit 5")})
	exit, err := c.Wait(ctx, id)
	if err != nil || exit.Code != 5 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if out := output(t, ctx, c, id); out[1] != "out\n" || out[2] != "err\n" {
		t.Errorf("output %q", out)
	}
	if out := output(t, ctx, c, id); out != [3]string{} {
		t.Errorf("output that was acknowledged came again: %q", out)
	}
	for range 2 {
		if err := c.Remove(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Wait(ctx, id); !errors.Is(err, guest.ErrNotFound) {
		t.Errorf("after its removal: %v", err)
	}
}

// A container that nobody reads waits, and is not forgotten.
func TestOutputIsBoundedAndKept(t *testing.T) {
	l, c, ctx := startLocal(t)
	id := started(t, ctx, c, guest.Container{Process: shell("i=0; while [ $i -lt 40000 ]; " +
		"do echo $i 0123456789012345678901234567890123456789; i=$((i+1)); done")})
	c.Close() // 1.8 MB, and nobody there
	host := guest.New(l.dial)
	defer host.Close()
	ended, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := host.Wait(ended, id); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a container whose output is not read: %v", err)
	}
	// The connection is lost again and again while it is read.
	var once sync.Once
	var got bytes.Buffer
	next := int64(0)
	err := host.Logs(ctx, id, 0, func(o guest.Output) error {
		if o.Offset > next {
			return fmt.Errorf("offset %d after %d", o.Offset, next)
		}
		skip := next - o.Offset
		if skip >= int64(len(o.Data)) {
			return nil
		}
		got.Write(o.Data[skip:])
		next = o.Offset + int64(len(o.Data))
		if got.Len() > 500_000 {
			once.Do(l.disconnect)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(got.String()) {
		if want := fmt.Sprintf("%d 0123456789012345678901234567890123456789\n", n); line != want {
			t.Fatalf("line %d is %q", n, line)
		}
		n++
	}
	if n != 40000 {
		t.Errorf("%d lines", n)
	}
	if exit, err := host.Wait(ctx, id); err != nil || exit.Code != 0 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

func TestWaitGoesOnOverLostConnections(t *testing.T) {
	l, c, ctx := startLocal(t)
	id := started(t, ctx, c, guest.Container{Process: shell("read x; exit 3"), Stdin: true})
	result := make(chan error, 1)
	go func() {
		exit, err := c.Wait(ctx, id)
		if err == nil && exit.Code != 3 {
			err = fmt.Errorf("exit %+v", exit)
		}
		result <- err
	}()
	for range 3 {
		l.disconnect()
		if _, err := c.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	in, err := c.Stdin(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestExecLocally(t *testing.T) {
	l, c, ctx := startLocal(t)
	id := started(t, ctx, c, guest.Container{Process: shell("sleep 60")})
	do := func(req guest.ExecRequest, s guest.Streams) (int, error) {
		req.Container = id
		return c.Exec(ctx, req, s)
	}
	t.Run("code and streams", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		data := strings.Repeat("0123456789", 100_000)
		code, err := do(guest.ExecRequest{Process: shell("cat; echo bad >&2; exit 9")},
			guest.Streams{Stdin: strings.NewReader(data), Stdout: &stdout, Stderr: &stderr})
		if code != 9 || err != nil || stdout.String() != data || stderr.String() != "bad\n" {
			t.Errorf("%d, %v, %d bytes, %q", code, err, stdout.Len(), stderr.String())
		}
	})
	t.Run("no input", func(t *testing.T) {
		if code, err := do(guest.ExecRequest{Process: shell("cat")}, guest.Streams{}); code != 0 || err != nil {
			t.Errorf("%d, %v", code, err)
		}
	})
	t.Run("input that goes on after the process", func(t *testing.T) {
		r, w := io.Pipe()
		defer w.Close()
		if code, err := do(guest.ExecRequest{Process: shell("exit 4")}, guest.Streams{Stdin: r}); code != 4 ||
			err != nil {
			t.Errorf("%d, %v", code, err)
		}
	})
	t.Run("output that nobody takes", func(t *testing.T) {
		r, w := io.Pipe()
		r.Close()
		code, err := do(guest.ExecRequest{Process: shell("yes | head -c 1000000; exit 2")}, guest.Streams{Stdout: w})
		if code != 2 || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%d, %v", code, err)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		if _, err := do(guest.ExecRequest{Process: shell("exec sleep 60"), Timeout: 20 * time.Millisecond},
			guest.Streams{}); !errors.Is(err, guest.ErrTimeout) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no such program", func(t *testing.T) {
		if _, err := do(guest.ExecRequest{Process: guest.Process{Args: []string{"/none"}}},
			guest.Streams{}); !errors.Is(err, guest.ErrNoExecutable) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		_, err := c.Exec(ctx, guest.ExecRequest{Container: id, Process: shell("echo begun; sleep 60")},
			guest.Streams{Stdout: writerFunc(func([]byte) { cancel() })})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("lost connection", func(t *testing.T) {
		_, err := do(guest.ExecRequest{Process: shell("echo begun; sleep 60")},
			guest.Streams{Stdout: writerFunc(func([]byte) { l.disconnect() })})
		if !errors.Is(err, guest.ErrDisconnected) {
			t.Errorf("got %v", err)
		}
	})
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func TestDialLocally(t *testing.T) {
	_, c, ctx := startLocal(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			data, _ := io.ReadAll(conn) // until the other side closes its half
			_, _ = fmt.Fprintf(conn, "got %s", data)
			conn.Close()
		}
	}()
	conn, err := c.Dial(ctx, port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "hello")
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "got hello" {
		t.Errorf("%q, %v", got, err)
	}
	listener.Close()
	if _, err := c.Dial(ctx, port); !errors.Is(err, guest.ErrNotFound) {
		t.Errorf("nothing listens: %v", err)
	}
}

func TestShutdownEndsContainersFirst(t *testing.T) {
	l, c, ctx := startLocal(t)
	id := started(t, ctx, c,
		guest.Container{Process: shell("trap 'echo bye; exit 1' TERM; echo ready; while :; do sleep 0.05; done")})
	lines := make(chan string, 9)
	go func() {
		defer close(lines)
		_ = c.Logs(ctx, id, 0, func(o guest.Output) error { lines <- string(o.Data); return nil })
	}()
	if got := <-lines; got != "ready\n" {
		t.Fatalf("got %q", got)
	}
	if err := c.Shutdown(ctx, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := <-lines; got != "bye\n" {
		t.Errorf("got %q", got)
	}
	for !l.machine.isOff() {
		if ctx.Err() != nil {
			t.Fatal("the machine was not powered off")
		}
		time.Sleep(time.Millisecond)
	}
	if err := c.Create(ctx, guest.Container{ID: "late"}); !errors.Is(err, guest.ErrState) {
		t.Errorf("a container for a machine that shuts down: %v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	refused := errors.New("refused")
	c := guest.New(func(context.Context) (net.Conn, error) { return nil, refused })
	if err := c.Create(context.Background(), guest.Container{ID: "c"}); !errors.Is(err, guest.ErrDisconnected) ||
		!errors.Is(err, refused) {
		t.Errorf("create: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Ready(ctx); !errors.Is(err, refused) {
		t.Errorf("ready: %v", err)
	}
	c.Close()
	if err := c.Setup(context.Background(), guest.Sandbox{}); !errors.Is(err, guest.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
