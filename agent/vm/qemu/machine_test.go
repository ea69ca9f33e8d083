package qemu

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/agent/vm/process"
	"github.com/a4s-io/a4s/tests/vmlab"
)

// config is a machine with the guest of package lab. Its directory has a name
// that is too long for the path of a socket.
func config(t *testing.T) Config {
	t.Helper()
	g := vmlab.New(t)
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 25))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return Config{
		Dir: dir, Name: "test", Accelerator: TCG, MemoryMB: 128, CPUs: 1,
		Kernel: g.Kernel, Initrd: g.Initrd, Cmdline: vmlab.Cmdline(),
		Ports: []Port{{Name: vmlab.Port, Socket: "lab.sock"}}, Slots: 2,
	}
}

// start starts the machine and makes sure of its end.
func start(t *testing.T, c Config, cgroup *process.Cgroup) *Machine {
	t.Helper()
	m, err := Start(t.Context(), c, cgroup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Kill(), m.Close()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			console, _ := os.ReadFile(ConsolePath(c.Dir))
			t.Logf("console: ...%s", console[max(0, len(console)-2000):])
		}
	})
	return m
}

func dial(t *testing.T, c Config) net.Conn {
	t.Helper()
	conn, err := DialPort(t.Context(), c.Dir, "lab.sock")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func rawDisk(t *testing.T, dir, name, content string) Disk {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	return Disk{ID: name, Path: path, Format: "raw", Serial: "serial-" + name}
}

// TestMachine is the life of a machine that its starter does not survive.
func TestMachine(t *testing.T) {
	c := config(t)
	cgroup, err := process.NewCgroup("/", "a4s-test-"+strconv.Itoa(os.Getpid()), false, process.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cgroup.Remove(); err != nil {
			t.Error(err)
		}
	})
	begin := time.Now()
	first := start(t, c, cgroup)
	t.Logf("from start to the first instruction: %s", time.Since(begin))
	if pids, err := cgroup.PIDs(); err != nil || len(pids) != 1 || pids[0] != first.PID() {
		t.Errorf("in the control group: %v, %v, want %d", pids, err, first.PID())
	}
	if sid, err := unix.Getsid(first.PID()); err != nil || sid != first.PID() {
		t.Errorf("session %d, %v: it would get the signals of its starter's terminal", sid, err)
	}
	if err := first.monitor.close(); err != nil { // as if its starter had ended
		t.Fatal(err)
	}

	m, err := Attach(t.Context(), c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	if s, err := m.Status(t.Context()); s != "running" || err != nil {
		t.Errorf("status %q, %v", s, err)
	}
	sh := vmlab.Open(t, dial(t, c))
	t.Logf("from start to the guest's shell: %s", time.Since(begin))

	// A third disk finds no slot, a free one is used again.
	one, two, three := rawDisk(t, c.Dir, "one", "first"), rawDisk(t, c.Dir, "two", "second"),
		rawDisk(t, c.Dir, "three", "third")
	two.ReadOnly = true
	for _, d := range []Disk{one, two, two} { // the second time it is there already
		if err := m.Plug(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	const serials = `for d in $(ls /sys/block); do echo "$(cat /sys/block/$d/serial)=$(cat /sys/block/$d/ro)"; ` +
		`done | sort | xargs echo`
	sh.Eventually(serials, "serial-one=0 serial-two=1")
	if err := m.Plug(t.Context(), three); !errors.Is(err, ErrNoSlot) {
		t.Errorf("a disk too many: %v", err)
	}
	if err := m.Unplug(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	sh.Eventually(serials, "serial-two=1")
	if err := m.Plug(t.Context(), three); err != nil {
		t.Fatal(err)
	}
	sh.Eventually(serials, "serial-three=0 serial-two=1")
	sh.Run(`for d in $(ls /sys/block); do [ $(cat /sys/block/$d/serial) = serial-three ] && disk=/dev/$d; done; true`)
	if out := sh.Run("head -c 5 $disk"); out != "third" {
		t.Errorf("the new disk holds %q", out)
	}
	sh.Run("echo -n hello > $disk && sync")
	if data, err := os.ReadFile(three.Path); err != nil || !strings.HasPrefix(string(data), "hello") {
		t.Errorf("what the guest wrote is not in the file: %.10q, %v", data, err)
	}
	if err := m.Unplug(t.Context(), "none"); err != nil {
		t.Errorf("a disk that is not there: %v", err)
	}

	// A command that QEMU refuses does not spoil the connection.
	var refused *Error
	if err := m.Execute(t.Context(), "no-such-command", nil, nil); !errors.As(err, &refused) ||
		refused.Class != "CommandNotFound" {
		t.Errorf("an unknown command: %v", err)
	}
	u, err := m.Usage()
	if err != nil || u.CPU == 0 || u.Memory < 50<<20 || u.Shared > u.Memory {
		t.Errorf("usage %+v, %v", u, err)
	}
	t.Logf("usage: %+v", u)
}

func TestMachineEnds(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		end          func(t *testing.T, m *Machine, sh *vmlab.Shell) error
	}{
		{"asked by its host", "host-qmp-quit",
			func(t *testing.T, m *Machine, _ *vmlab.Shell) error { return m.Quit(t.Context()) }},
		{"asked, deaf guest", "host-qmp-quit",
			func(t *testing.T, m *Machine, _ *vmlab.Shell) error { return m.Stop(t.Context(), time.Millisecond) }},
		{"asked, context over", "", func(t *testing.T, m *Machine, _ *vmlab.Shell) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return m.Stop(ctx, time.Hour)
		}},
		{"of itself", "guest-shutdown", func(t *testing.T, m *Machine, sh *vmlab.Shell) error {
			sh.Run("(sleep 0.1; poweroff -f) >/dev/null &")
			return m.Wait(t.Context())
		}},
		{"by a reboot", "guest-reset", func(t *testing.T, m *Machine, sh *vmlab.Shell) error {
			sh.Run("(sleep 0.1; reboot -f) >/dev/null &")
			return m.Wait(t.Context())
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := config(t)
			m := start(t, c, nil)
			sh := vmlab.Open(t, dial(t, c))
			if err := tc.end(t, m, sh); err != nil {
				t.Fatal(err)
			}
			if m.Alive() {
				t.Error("QEMU runs")
			}
			if got := m.EndReason(); got != tc.reason {
				t.Errorf("reason %q, want %q", got, tc.reason)
			}
			if err := m.Quit(t.Context()); err != nil {
				t.Errorf("ending it again: %v", err)
			}
			if _, err := Attach(t.Context(), c.Dir); !errors.Is(err, ErrGone) {
				t.Errorf("finding it again: %v", err)
			}
		})
	}
}

// bootSector writes a line to the serial port and halts.
func bootSector() []byte {
	code := []byte{
		0x31, 0xc0, // xor ax, ax
		0x8e, 0xd8, // mov ds, ax
		0xfc,             // cld
		0xbe, 0x16, 0x7c, // mov si, text
		0xac,       // next: lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x06, // jz end
		0xba, 0xf8, 0x03, // mov dx, 0x3f8
		0xee,       // out dx, al
		0xeb, 0xf5, // jmp next
		0xf4,       // end: hlt
		0xeb, 0xfd, // jmp end
	}
	sector := make([]byte, 512)
	copy(sector[copy(sector, code):], "booted from the disk\n\x00")
	sector[510], sector[511] = 0x55, 0xaa
	return sector
}

func TestFirmwareBootsTheFirstDisk(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("its disk is one for the BIOS of amd64")
	}
	if os.Getenv(vmlab.Wanted) == "" {
		t.Skipf("boots a machine: run it with `make test-vm`, or set %s", vmlab.Wanted)
	}
	if _, err := exec.LookPath(DefaultBinary); err != nil {
		t.Skip("needs QEMU (scripts/install-deps.sh vm): ", err)
	}
	c := Config{Dir: t.TempDir(), Accelerator: TCG, MemoryMB: 64, CPUs: 1, Slots: 1}
	c.Disks = []Disk{rawDisk(t, c.Dir, "root", string(bootSector())), rawDisk(t, c.Dir, "seed", "")}
	c.Disks[1].ReadOnly = true
	start(t, c, nil)
	for deadline := time.Now().Add(time.Minute); ; {
		console, err := os.ReadFile(ConsolePath(c.Dir))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(console), "booted from the disk") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not boot: %q", console)
		}
	}
}

func TestStartSaysWhatQEMUSays(t *testing.T) {
	c := config(t)
	c.Kernel = "/no/such/kernel"
	if m, err := Start(t.Context(), c, nil); err == nil {
		_ = m.Kill()
		t.Fatal("a machine without its kernel started")
	} else if !strings.Contains(err.Error(), "/no/such/kernel") {
		t.Errorf("error %v", err)
	}
}

func TestChooseFindsOutWhetherKVMWorks(t *testing.T) {
	c := config(t)
	p := Probe{Kernel: c.Kernel, Initrd: c.Initrd, Port: vmlab.Port,
		Cache: filepath.Join(t.TempDir(), "a", "kvm.json")}
	begin := time.Now()
	tried, err := Choose(t.Context(), "auto", p)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	t.Logf("%+v after %s", tried, took)
	if took > 4*probeTimeout {
		t.Errorf("it took %s", took)
	}
	// The answer has to be true.
	c.Accelerator, c.Ports = tried.Accelerator, nil
	m := start(t, c, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.booted(ctx, c); err != nil {
		t.Errorf("with %s: %v", tried.Accelerator, err)
	}

	begin = time.Now()
	again, err := Choose(t.Context(), "auto", p)
	if err != nil || again != tried {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	if took := time.Since(begin); took > probeTimeout/2 {
		t.Errorf("the second time took %s", took)
	}
}
