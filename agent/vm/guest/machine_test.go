package guest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

func TestContainerRunsAndEnds(t *testing.T) {
	v, c, ctx := boot(t)
	id := v.create(t, ctx, c, guest.Container{Process: box("say", "3", "hello")})
	if err := c.Create(ctx, guest.Container{ID: id, Process: box("env")}); !errors.Is(err, guest.ErrExists) {
		t.Errorf("creating it again: %v", err)
	}
	exit, out := finish(t, ctx, c, id)
	if exit.Code != 3 || exit.OOM || exit.Signal != 0 || time.Since(exit.At).Abs() > time.Minute {
		t.Errorf("exit %+v", exit)
	}
	if out[1] != "out: hello\n" || out[2] != "err: hello\n" {
		t.Errorf("output %q", out)
	}
	if _, err := c.Start(ctx, id); !errors.Is(err, guest.ErrState) {
		t.Errorf("starting it again: %v", err)
	}
	if err := c.Signal(ctx, id, 15, false); !errors.Is(err, guest.ErrState) {
		t.Errorf("signal after the end: %v", err)
	}
	if _, err := c.Wait(ctx, "nobody"); !errors.Is(err, guest.ErrNotFound) {
		t.Errorf("waiting for nobody: %v", err)
	}
	list, err := c.List(ctx)
	if err != nil || len(list) != 1 || list[0].State != protocol.StateExited || list[0].Exit.Code != 3 {
		t.Errorf("list %+v, %v", list, err)
	}
}

func TestProcessIsWhatItWasToldToBe(t *testing.T) {
	v, c, ctx := boot(t)
	p := box("id")
	group := uint32(2000)
	p.User = guest.User{Name: "web", Group: &group, Groups: []uint32{5000}}
	p.Cwd = "/made/for/it"
	p.NoNewPrivs = true
	p.Capabilities = &[]string{"CAP_NET_BIND_SERVICE", "CAP_CHOWN"}
	p.AmbientCapabilities = []string{"CAP_NET_BIND_SERVICE"}
	p.Rlimits = []guest.Rlimit{{Type: "RLIMIT_CORE", Soft: 0, Hard: 4096}}
	id := v.create(t, ctx, c, guest.Container{Process: p})
	_, out := finish(t, ctx, c, id)
	for _, want := range []string{
		"uid=1000 gid=2000 groups=[44 2000 5000] host=pod dir=/made/for/it pid=1 core=4096\n",
		"CapPrm:\t0000000000000400\n", "CapEff:\t0000000000000400\n", "CapBnd:\t0000000000000401\n",
		"CapAmb:\t0000000000000400\n",
		"NoNewPrivs:\t1\n",
	} {
		if !strings.Contains(out[1], want) {
			t.Errorf("no %q in\n%s%s", want, out[1], out[2])
		}
	}
}

func TestProgramsThatCannotRun(t *testing.T) {
	v, c, ctx := boot(t)
	for name, args := range map[string][]string{
		"missing": {"nothing"}, "no interpreter": {"/etc/not-a-script"}, "directory": {"/etc"},
	} {
		t.Run(name, func(t *testing.T) {
			id := v.create(t, ctx, c, guest.Container{Process: guest.Process{Args: args}})
			if _, err := c.Start(ctx, id); !errors.Is(err, guest.ErrNoExecutable) ||
				!strings.Contains(err.Error(), args[0]) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestFileSystemOfContainer(t *testing.T) {
	v, c, ctx := boot(t)
	id := v.create(t, ctx, c, guest.Container{
		ReadonlyRoot: true,
		Process:      box("sleep"),
		Mounts: []guest.Mount{
			{Type: protocol.MountTmpfs, Destination: "/scratch/deep", Size: 1 << 20},
			{Type: protocol.MountPod, Source: "memory", Destination: "/cache"},
		},
		MaskedPaths: []string{"/proc/kcore", "/proc/scsi", "/missing"}, ReadonlyPaths: []string{"/proc/sys"},
	})
	if _, err := c.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"write", "/new", "x"}, 1, "read-only file system"},
		{[]string{"write", "/proc/sys/kernel/hostname", "x"}, 1, "read-only file system"},
		{[]string{"write", "/sys/fs/cgroup/cgroup.procs", "1"}, 1, "read-only file system"},
		{[]string{"write", "/scratch/deep/new", "x"}, 0, ""},
		{[]string{"write", "/cache/new", "x"}, 0, ""},
		{[]string{"write", "/dev/shm/new", "x"}, 0, ""},
		{[]string{"cat", "/etc/resolv.conf"}, 0, "nameserver 10.43.0.10\nsearch default.svc.cluster.local\n"},
		{[]string{"cat", "/etc/hostname"}, 0, "pod\n"},
		{[]string{"cat", "/proc/kcore"}, 0, ""},
		{[]string{"ls", "/dev"}, 0,
			"fd\nfull\nmqueue\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n"},
		{[]string{"ls", "/run/a4s"}, 1, "no such file"},
		{[]string{"cat", "/proc/1/cmdline"}, 0, "guestbox\x00sleep\x00"},
		{[]string{"cat", "/proc/self/cgroup"}, 0, "0::/\n"},
		{[]string{"cat", "/proc/self/oom_score_adj"}, 0, "0\n"},
		{[]string{"cat", "/proc/1/oom_score_adj"}, 0, "0\n"},
	} {
		code, stdout, stderr := run(t, ctx, c, id, box(test.args...))
		if code != test.code || !strings.Contains(stdout+stderr, test.want) {
			t.Errorf("%v: %d, %q, %q; want %d and %q", test.args, code, stdout, stderr, test.code, test.want)
		}
	}
	if _, err := c.Exec(ctx, guest.ExecRequest{Container: id, Process: guest.Process{Args: []string{"none"}}},
		guest.Streams{}); !errors.Is(err, guest.ErrNoExecutable) {
		t.Errorf("exec of what is not there: %v", err)
	}
}

func TestSignals(t *testing.T) {
	v, c, ctx := boot(t)
	for name, test := range map[string]struct {
		signal int
		want   guest.Exit
	}{
		"term": {15, guest.Exit{Code: 7}},
		"kill": {9, guest.Exit{Code: 137, Signal: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			id := v.create(t, ctx, c, guest.Container{Process: box("trap")})
			if _, err := c.Start(ctx, id); err != nil {
				t.Fatal(err)
			}
			firstWords(t, ctx, c, id)
			if err := c.Signal(ctx, id, test.signal, false); err != nil {
				t.Fatal(err)
			}
			exit, err := c.Wait(ctx, id)
			exit.At = time.Time{}
			if err != nil || exit != test.want {
				t.Errorf("got %+v, %v", exit, err)
			}
		})
	}
}

func TestExec(t *testing.T) {
	v, c, ctx := boot(t)
	id := v.create(t, ctx, c, guest.Container{Process: box("sleep")})
	if _, err := c.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	t.Run("streams", func(t *testing.T) {
		data := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10)
		var out bytes.Buffer
		code, err := c.Exec(ctx, guest.ExecRequest{Container: id, Process: box("cat")},
			guest.Streams{Stdin: bytes.NewReader(data), Stdout: &out})
		if code != 0 || err != nil || !bytes.Equal(out.Bytes(), data) {
			t.Errorf("%d, %v, %d of %d bytes came back", code, err, out.Len(), len(data))
		}
		if code, stdout, stderr := run(t, ctx, c, id, box("say", "42", "x")); code != 42 || stdout != "out: x\n" ||
			stderr != "err: x\n" {
			t.Errorf("%d, %q, %q", code, stdout, stderr)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		_, err := c.Exec(ctx, guest.ExecRequest{Container: id, Process: box("sleep"), Timeout: 300 * time.Millisecond},
			guest.Streams{})
		if !errors.Is(err, guest.ErrTimeout) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("child that holds the output", func(t *testing.T) {
		if code, stdout, _ := run(t, ctx, c, id, box("leave")); code != 0 || stdout != "left\n" {
			t.Errorf("%d, %q", code, stdout)
		}
	})
	t.Run("terminal", func(t *testing.T) {
		p := box("term")
		p.TTY, p.Size = true, &guest.TerminalSize{Width: 100, Height: 30}
		resize := make(chan guest.TerminalSize, 1)
		stdin, type_ := io.Pipe()
		shown, screen := io.Pipe()
		result := make(chan error, 1)
		go func() {
			code, err := c.Exec(ctx, guest.ExecRequest{Container: id, Process: p},
				guest.Streams{Stdin: stdin, Stdout: screen, Resize: resize})
			screen.Close()
			result <- errors.Join(err, map[bool]error{true: fmt.Errorf("code %d", code)}[code != 0])
		}()
		expect(t, shown, "terminal /dev/pts/0 of 100x30\r\n")
		fmt.Fprintln(type_, "hello")
		expect(t, shown, "got \"hello\"\r\n")
		resize <- guest.TerminalSize{Width: 80, Height: 24}
		expect(t, shown, "now 80x24\r\n")
		_, _ = io.Copy(io.Discard, shown)
		if err := <-result; err != nil {
			t.Error(err)
		}
	})
}

// expect reads until the text was shown.
func expect(t *testing.T, r io.Reader, text string) {
	t.Helper()
	var got bytes.Buffer
	for buf := make([]byte, 1); !strings.Contains(got.String(), text); {
		if _, err := r.Read(buf); err != nil {
			t.Fatalf("want %q, got %q and %v", text, got.String(), err)
		}
		got.Write(buf)
	}
}

func TestContainerWithTerminalAndStdin(t *testing.T) {
	v, c, ctx := boot(t)
	p := box("term")
	p.TTY = true
	id := v.create(t, ctx, c, guest.Container{Process: p, Stdin: true})
	if _, err := c.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	in, err := c.Stdin(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, "hello")
	shown, screen := io.Pipe()
	logs := make(chan error, 1)
	go func() {
		logs <- c.Logs(ctx, id, 0, func(o guest.Output) error { _, err := screen.Write(o.Data); return err })
		screen.Close()
	}()
	expect(t, shown, "got \"hello\"\r\n")
	if err := c.Resize(ctx, id, guest.TerminalSize{Width: 81, Height: 25}); err != nil {
		t.Fatal(err)
	}
	expect(t, shown, "now 81x25\r\n")
	_, _ = io.Copy(io.Discard, shown)
	if err := <-logs; err != nil {
		t.Error(err)
	}
	if exit, err := c.Wait(ctx, id); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
}

func TestStdinEnds(t *testing.T) {
	v, c, ctx := boot(t)
	id := v.create(t, ctx, c, guest.Container{Process: box("cat"), Stdin: true})
	if _, err := c.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"one ", "two"} { // two hosts, one input
		in, err := c.Stdin(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, word); err != nil {
			t.Fatal(err)
		}
		if word == "two" {
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			c.Close()
			c = v.client()
			defer c.Close()
		}
	}
	if out := output(t, ctx, c, id); out[1] != "one two" {
		t.Errorf("got %q", out)
	}
}

// The host side goes and comes back in the middle of output that is more than
// the guest holds back.
func TestOutputSurvivesDisconnects(t *testing.T) {
	v, c, ctx := boot(t)
	const lines = 200_000 // 2.8 MB
	id := v.create(t, ctx, c, guest.Container{Process: box("flood", fmt.Sprint(lines))})
	if _, err := c.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	c.Close() // the port has one client at a time
	var got bytes.Buffer
	next, hosts := int64(0), 0
	for {
		host := v.client()
		enough := errors.New("enough")
		limit := got.Len() + 700_000
		err := host.Logs(ctx, id, 0, func(o guest.Output) error {
			skip := next - o.Offset // what came again was not acknowledged
			if skip < 0 || skip > int64(len(o.Data)) {
				return fmt.Errorf("offset %d after %d", o.Offset, next)
			}
			got.Write(o.Data[skip:])
			next = o.Offset + int64(len(o.Data))
			if got.Len() > limit {
				return enough
			}
			return nil
		})
		host.Close()
		hosts++
		if err == nil {
			break
		}
		if !errors.Is(err, enough) {
			t.Fatal(err)
		}
	}
	if hosts < 4 || strings.Count(got.String(), "\n") != lines {
		t.Fatalf("%d lines by %d hosts", strings.Count(got.String(), "\n"), hosts)
	}
	for i, line := range slices.Collect(strings.Lines(got.String())) {
		if want := fmt.Sprintf("line %08d\n", i); line != want {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	last := v.client()
	defer last.Close()
	if exit, err := last.Wait(ctx, id); err != nil || exit.Code != 0 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

func TestOutOfMemory(t *testing.T) {
	v, c, ctx := boot(t)
	id := v.create(t, ctx, c,
		guest.Container{Process: box("eat", "100"), Resources: guest.Resources{MemoryLimit: 24 << 20}})
	exit, out := finish(t, ctx, c, id)
	if exit.Code != 137 || !exit.OOM {
		t.Errorf("exit %+v, output %q", exit, out)
	}
}

func TestStatsAndUpdate(t *testing.T) {
	v, c, ctx := boot(t)
	id := v.create(t, ctx, c, guest.Container{Process: box("sleep"),
		Resources: guest.Resources{MemoryLimit: 64 << 20, CPUQuota: 50_000, CPUShares: 512, PidsLimit: 100}})
	if _, err := c.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := c.Update(ctx, id, guest.Resources{MemoryLimit: 48 << 20}); err != nil {
		t.Fatal(err)
	}
	s, err := c.Stats(ctx)
	if err != nil || len(s.Containers) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	ct := s.Containers[0]
	if ct.Memory.Limit != 48<<20 || ct.Memory.WorkingSet == 0 || ct.CPU.Usage == 0 || ct.Pids == 0 ||
		ct.Root.UsedBytes == 0 || s.CPU.Usage < ct.CPU.Usage || s.Memory.Limit < 100<<20 {
		t.Errorf("%+v", s)
	}
	t.Logf("machine: %d MiB used of %d", s.Memory.WorkingSet>>20, s.Memory.Limit>>20)
}

func TestSharedProcessNamespace(t *testing.T) {
	v, c, ctx := boot(t)
	pod := sandbox("10.9.0.2/24", "fd00:9::2/64")
	pod.ShareProcessNamespace = true
	if err := c.Setup(ctx, pod); err != nil {
		t.Fatal(err)
	}
	id := v.create(t, ctx, c, guest.Container{Process: box("leave")})
	exit, _ := finish(t, ctx, c, id)
	if exit.Code != 0 {
		t.Errorf("exit %+v", exit)
	}
	t.Run("other", func(t *testing.T) {
		id := v.create(t, ctx, c, guest.Container{Process: box("sleep")})
		if _, err := c.Start(ctx, id); err != nil {
			t.Fatal(err)
		}
		if _, out, _ := run(t, ctx, c, id, box("cat", "/proc/1/cmdline")); !strings.Contains(out, "stage-pause") {
			t.Errorf("process 1 is %q", out)
		}
		if _, out, _ := run(t, ctx, c, id, box("ls", "/proc")); strings.Contains(out, "\n2\n") ||
			strings.Contains(out, "\n3\n") {
			t.Errorf("the child of a container that has ended is there: %q", out)
		}
	})
}

func TestDial(t *testing.T) {
	v, c, ctx := boot(t)
	id := v.create(t, ctx, c, guest.Container{Process: box("serve", "80")})
	if _, err := c.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	firstWords(t, ctx, c, id)
	conn, err := c.Dial(ctx, 80)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "hello")
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != `you said "hello"` {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c.Dial(ctx, 81); !errors.Is(err, guest.ErrNotFound) {
		t.Errorf("a port where nothing listens: %v", err)
	}
}
