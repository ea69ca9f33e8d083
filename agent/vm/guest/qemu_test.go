package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/agent/vm/shares"
	"github.com/a4s-io/a4s/embedded/guest/initrd"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// limit is what one test may take. Machines are translated, not run.
const limit = 90 * time.Second

// vm is a machine for all tests: booting is what takes long.
type vm struct {
	dir     string
	machine *qemu.Machine
	share   *shares.Server
	image   string // an ext4 image with guestbox
}

// nicMAC is the hardware address of the machine's interface.
const nicMAC = "52:54:00:a4:50:01"

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
	if v.share != nil {
		<-v.share.Done() // with its machine
		if err := shares.Close(v.dir); err != nil {
			fmt.Println(err)
			return // never below what is mounted from elsewhere
		}
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
	if v.share, err = shares.Start(ctx, "", dir, nil); err != nil {
		return nil, err
	}
	tap, err := newTap()
	if err != nil {
		return nil, err
	}
	defer tap.Close()
	config := qemu.Config{
		Dir: dir, Accelerator: qemu.TCG, MemoryMB: 256, CPUs: 1,
		Kernel: filepath.Join(guestDir, "vmlinuz"), Initrd: ramdisk.Name(), Cmdline: guest.CommandLine,
		NICs:   []qemu.NIC{{MAC: nicMAC, Tap: tap}},
		Shares: []qemu.Share{{Tag: protocol.SharedTag, Socket: filepath.Join(dir, shares.Socket)}},
		Ports:  []qemu.Port{{Name: protocol.PortName, Socket: "guest.sock"}},
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
	fmt.Printf("guest ready %v after QEMU was started, uptime %v\n", time.Since(begin).Round(time.Millisecond),
		info.Uptime.Round(time.Millisecond))
	return v, c.Setup(ctx, sandbox("10.9.0.2/24", "fd00:9::2/64"))
}

// sandbox is what the machine is set up as.
func sandbox(addresses ...string) guest.Sandbox {
	return guest.Sandbox{
		Interfaces: []guest.Interface{{MAC: nicMAC, Name: "eth0", MTU: 1400, Addresses: addresses}},
		Routes: []guest.Route{{Gateway: "10.9.0.1"}, {Gateway: "fd00:9::1"}, {Destination: "10.10.0.0/16"},
			{Destination: "10.11.0.0/16", Gateway: "169.254.1.1", OnLink: true}},
		Hostname: "pod",
		DNS:      guest.DNS{Servers: []string{"10.43.0.10"}, Searches: []string{"default.svc.cluster.local"}},
		Sysctls:  map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"},
		Time:     time.Now(),
		Shared:   true,
	}
}

// newTap makes a tap device in a network namespace of its own, which lives as
// long as the tap is open.
func newTap() (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is lost
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- result{nil, err}
			return
		}
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			done <- result{nil, err}
			return
		}
		request, err := unix.NewIfreq("tap0")
		if err == nil {
			request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
		}
		done <- result{os.NewFile(uintptr(fd), "tap"), err}
	}()
	r := <-done
	return r.file, r.err
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
		err := c.Remove(ctx, ct.ID)
		if errors.Is(err, guest.ErrClosed) { // by the test
			last := v.client()
			err = last.Remove(ctx, ct.ID)
			last.Close()
		}
		if err != nil {
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

// firstWords waits until the container says something.
func firstWords(t *testing.T, ctx context.Context, c *guest.Client, id string) {
	t.Helper()
	spoke := errors.New("it spoke")
	if err := c.Logs(ctx, id, 0, func(guest.Output) error { return spoke }); !errors.Is(err, spoke) {
		t.Fatal(err)
	}
}

// run executes a command in the container.
func run(t *testing.T, ctx context.Context, c *guest.Client, id string, p guest.Process) (int, string, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code, err := c.Exec(ctx, guest.ExecRequest{Container: id, Process: p},
		guest.Streams{Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		t.Fatal(err)
	}
	return code, stdout.String(), stderr.String()
}

// Last, because it ends the machine.
func TestZShutdown(t *testing.T) {
	v, c, ctx := boot(t)
	id := v.create(t, ctx, c, guest.Container{Process: box("trap")})
	if _, err := c.Start(ctx, id); err != nil {
		t.Fatal(err)
	}
	firstWords(t, ctx, c, id)
	if err := c.Shutdown(ctx, time.Minute); err != nil {
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
