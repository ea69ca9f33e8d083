package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/embedded/guest/initrd"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// limit is what one test may take. Machines are translated, not run.
const limit = 90 * time.Second

// vm is a machine for all tests: booting is what takes long.
type vm struct {
	dir     string
	machine *qemu.Machine
	image   string // an ext4 image with guestbox
}

var (
	booted sync.Once
	shared *vm
	failed error
)

func TestMain(m *testing.M) {
	code := m.Run()
	if shared != nil {
		shared.stop()
	}
	os.Exit(code)
}

// boot returns the machine, and a client of the test's own.
func boot(t *testing.T) (*vm, *guest.Client, context.Context) {
	t.Helper()
	dir := os.Getenv("A4S_VM_GUEST")
	if dir == "" {
		t.Skip("A4S_VM_GUEST does not name a directory with vmlinuz and initrd.img (make guest)")
	}
	booted.Do(func() { shared, failed = start(dir) })
	if failed != nil {
		t.Fatal(failed)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	c := shared.client()
	t.Cleanup(func() { c.Close() })
	return shared, c, ctx
}

func (v *vm) client() *guest.Client {
	return guest.New(func(ctx context.Context) (net.Conn, error) { return qemu.DialPort(ctx, v.dir, "guest.sock") })
}

func (v *vm) stop() {
	if v.machine != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = v.machine.Quit(ctx)
	}
	_ = os.RemoveAll(v.dir)
}

func start(guestDir string) (_ *vm, err error) {
	dir, err := os.MkdirTemp("", "a4s-guest-")
	if err != nil {
		return nil, err
	}
	v := &vm{dir: dir}
	defer func() {
		if err != nil {
			console, _ := os.ReadFile(qemu.ConsolePath(dir))
			v.stop()
			err = fmt.Errorf("%w\n%s", err, console)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	initProgram, err := build(ctx, dir, "github.com/a4s-io/a4s/embedded/guest")
	if err != nil {
		return nil, err
	}
	if v.image, err = image(ctx, dir); err != nil {
		return nil, err
	}
	ramdisk, err := os.Create(filepath.Join(dir, "initrd"))
	if err != nil {
		return nil, err
	}
	defer ramdisk.Close()
	modules, err := os.Open(filepath.Join(guestDir, "initrd.img"))
	if err != nil {
		return nil, err
	}
	defer modules.Close()
	if err := initrd.Assemble(ramdisk, modules, initProgram); err != nil {
		return nil, err
	}
	config := qemu.Config{
		Dir: dir, Accelerator: qemu.TCG, MemoryMB: 256, CPUs: 1,
		Kernel: filepath.Join(guestDir, "vmlinuz"), Initrd: ramdisk.Name(), Cmdline: guest.CommandLine,
		Ports: []qemu.Port{{Name: protocol.PortName, Socket: "guest.sock"}},
	}
	begin := time.Now()
	if v.machine, err = qemu.Start(ctx, config, nil); err != nil {
		return nil, err
	}
	c := v.client()
	defer c.Close()
	info, err := c.Ready(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Printf("guest ready %v after QEMU was started, uptime %v\n", time.Since(begin).Round(time.Millisecond), info.Uptime.Round(time.Millisecond))
	return v, c.Setup(ctx, guest.Sandbox{
		Hostname: "pod", DNS: guest.DNS{Servers: []string{"10.43.0.10"}, Searches: []string{"default.svc.cluster.local"}},
		Sysctls: map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"},
		Time:    time.Now(),
	})
}

// build returns a static program of this module.
func build(ctx context.Context, dir, pkg string) ([]byte, error) {
	out := filepath.Join(dir, "program")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, "-ldflags", "-s -w", pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s: %w\n%s", pkg, err, msg)
	}
	return os.ReadFile(out)
}

// image makes the root disk of containers.
func image(ctx context.Context, dir string) (string, error) {
	box, err := build(ctx, dir, "github.com/a4s-io/a4s/tests/images/guestbox")
	if err != nil {
		return "", err
	}
	root := filepath.Join(dir, "root")
	for name, content := range map[string]string{
		"bin/guestbox":     string(box),
		"etc/passwd":       "root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1001:Web:/home/web:/bin/sh\n",
		"etc/group":        "root:x:0:\nwww:x:1001:\nlogs:x:44:web\n",
		"etc/not-a-script": "no interpreter",
		"tmp/.keep":        "",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, "root.ext4")
	cmd := exec.CommandContext(ctx, "mke2fs", "-q", "-t", "ext4", "-E", "root_owner=0:0", "-d", root, path, "32m")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("making a file system: %w\n%s", err, msg)
	}
	return path, nil
}

// create plugs in a root disk of the test's own and creates a container on it.
func (v *vm) create(t *testing.T, ctx context.Context, c *guest.Client, ct guest.Container) string {
	t.Helper()
	ct.ID = strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	serial := fmt.Sprintf("%x", time.Now().UnixNano())
	disk := filepath.Join(t.TempDir(), "root.ext4")
	data, err := os.ReadFile(v.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(disk, data, 0o600); err != nil {
		t.Fatal(err)
	}
	ct.Root = guest.Disk{Serial: serial}
	if err := v.machine.Plug(ctx, qemu.Disk{ID: serial, Path: disk, Format: "raw", Serial: serial}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		select {
		case <-v.machine.Done():
			return
		default:
		}
		// The port has one client at a time, and the test may have closed its own.
		c.Close()
		c := v.client()
		defer c.Close()
		if err := c.Remove(ctx, ct.ID); err != nil {
			t.Errorf("removing the container: %v", err)
		}
		if err := v.machine.Unplug(ctx, serial); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			console, _ := os.ReadFile(qemu.ConsolePath(v.dir))
			t.Logf("console:\n%s", console)
		}
	})
	if err := c.Create(ctx, ct); err != nil {
		t.Fatal(err)
	}
	return ct.ID
}

func box(args ...string) guest.Process {
	return guest.Process{Args: append([]string{"guestbox"}, args...), Env: []string{"PATH=/bin", "A=b"}}
}

// finish starts the container and returns its exit and its output.
func finish(t *testing.T, ctx context.Context, c *guest.Client, id string) (guest.Exit, [3]string) {
	t.Helper()
	if _, err := c.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	out := output(t, ctx, c, id)
	exit, err := c.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return exit, out
}

// output reads the container's output to its end.
func output(t *testing.T, ctx context.Context, c *guest.Client, id string) (out [3]string) {
	t.Helper()
	err := c.Logs(ctx, id, 0, func(o guest.Output) error {
		out[o.Stream] += string(o.Data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// run executes a command in the container.
func run(t *testing.T, ctx context.Context, c *guest.Client, id string, p guest.Process) (int, string, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code, err := c.Exec(ctx, guest.ExecRequest{Container: id, Process: p}, guest.Streams{Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		t.Fatal(err)
	}
	return code, stdout.String(), stderr.String()
}

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
		"CapPrm:\t0000000000000400\n", "CapEff:\t0000000000000400\n", "CapBnd:\t0000000000000401\n", "CapAmb:\t0000000000000400\n",
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
			if _, err := c.Start(ctx, id); !errors.Is(err, guest.ErrNoExecutable) || !strings.Contains(err.Error(), args[0]) {
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
		{[]string{"ls", "/dev"}, 0, "fd\nfull\nmqueue\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n"},
		{[]string{"ls", "/run/a4s"}, 1, "no such file"},
		{[]string{"cat", "/proc/1/cmdline"}, 0, "guestbox\x00sleep\x00"},
		{[]string{"cat", "/proc/self/cgroup"}, 0, "0::/\n"},
	} {
		code, stdout, stderr := run(t, ctx, c, id, box(test.args...))
		if code != test.code || !strings.Contains(stdout+stderr, test.want) {
			t.Errorf("%v: %d, %q, %q; want %d and %q", test.args, code, stdout, stderr, test.code, test.want)
		}
	}
	if _, err := c.Exec(ctx, guest.ExecRequest{Container: id, Process: guest.Process{Args: []string{"none"}}}, guest.Streams{}); !errors.Is(err, guest.ErrNoExecutable) {
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
			ready := errors.New("ready")
			err := c.Logs(ctx, id, 0, func(o guest.Output) error { return ready })
			if !errors.Is(err, ready) {
				t.Fatal(err)
			}
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
		code, err := c.Exec(ctx, guest.ExecRequest{Container: id, Process: box("cat")}, guest.Streams{Stdin: bytes.NewReader(data), Stdout: &out})
		if code != 0 || err != nil || !bytes.Equal(out.Bytes(), data) {
			t.Errorf("%d, %v, %d of %d bytes came back", code, err, out.Len(), len(data))
		}
		if code, stdout, stderr := run(t, ctx, c, id, box("say", "42", "x")); code != 42 || stdout != "out: x\n" || stderr != "err: x\n" {
			t.Errorf("%d, %q, %q", code, stdout, stderr)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		_, err := c.Exec(ctx, guest.ExecRequest{Container: id, Process: box("sleep"), Timeout: 300 * time.Millisecond}, guest.Streams{})
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
			code, err := c.Exec(ctx, guest.ExecRequest{Container: id, Process: p}, guest.Streams{Stdin: stdin, Stdout: screen, Resize: resize})
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
	id := v.create(t, ctx, c, guest.Container{Process: box("eat", "100"), Resources: guest.Resources{MemoryLimit: 24 << 20}})
	exit, out := finish(t, ctx, c, id)
	if exit.Code != 137 || !exit.OOM {
		t.Errorf("exit %+v, output %q", exit, out)
	}
}

func TestStatsAndUpdate(t *testing.T) {
	v, c, ctx := boot(t)
	id := v.create(t, ctx, c, guest.Container{Process: box("sleep"), Resources: guest.Resources{MemoryLimit: 64 << 20, CPUQuota: 50_000, CPUShares: 512, PidsLimit: 100}})
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
	if ct.Memory.Limit != 48<<20 || ct.Memory.WorkingSet == 0 || ct.CPU.Usage == 0 || ct.Pids == 0 || ct.Root.UsedBytes == 0 || s.CPU.Usage < ct.CPU.Usage || s.Memory.Limit < 100<<20 {
		t.Errorf("%+v", s)
	}
	t.Logf("machine: %d MiB used of %d", s.Memory.WorkingSet>>20, s.Memory.Limit>>20)
}

func TestSharedProcessNamespace(t *testing.T) {
	v, c, ctx := boot(t)
	if err := c.Setup(ctx, guest.Sandbox{Hostname: "pod", ShareProcessNamespace: true}); err != nil {
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
		if _, out, _ := run(t, ctx, c, id, box("ls", "/proc")); strings.Contains(out, "\n2\n") || strings.Contains(out, "\n3\n") {
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
	listening := errors.New("listening")
	if err := c.Logs(ctx, id, 0, func(guest.Output) error { return listening }); !errors.Is(err, listening) {
		t.Fatal(err)
	}
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

// Last, because it ends the machine.
func TestZShutdown(t *testing.T) {
	v, c, ctx := boot(t)
	id := v.create(t, ctx, c, guest.Container{Process: box("trap")})
	if _, err := c.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := c.Shutdown(ctx, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	select {
	case <-v.machine.Done():
	case <-ctx.Done():
		t.Fatal("the machine goes on")
	}
	if _, err := c.Stats(ctx); !errors.Is(err, guest.ErrDisconnected) {
		t.Errorf("a call after the end: %v", err)
	}
}
