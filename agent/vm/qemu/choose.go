package qemu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

const (
	// probeTimeout is how long a guest may take to boot with KVM, which takes
	// one second where it works.
	probeTimeout = 5 * time.Second
	// doubtFor is how long it is believed that KVM does not work: the machine
	// may just have been busy.
	doubtFor = 24 * time.Hour
	// probeMemory is the size of the guest that is tried, in MB.
	probeMemory = 256
)

// bootedSigns are what Linux says when it starts the first program.
var bootedSigns = [][]byte{[]byte("Run /init as init process"), []byte("Run /sbin/init as init process")}

// Probe says how to find out whether KVM works.
type Probe struct {
	// Binary is QEMU, a path or a name; empty means DefaultBinary.
	Binary string
	// Kernel, Initrd and Cmdline are a guest to boot.
	Kernel, Initrd, Cmdline string
	// Port, if not empty, is the name of a virtio-serial port: a guest that
	// writes to it has booted. So has one whose kernel started its first
	// program.
	Port string
	// Timeout is how long the guest may take; 0 means 5 seconds.
	Timeout time.Duration
	// Cache is the file that keeps the result for this kernel of the host,
	// QEMU and guest; empty means none.
	Cache string
	// Device is KVM's device; empty means /dev/kvm.
	Device string
}

// Choice is the accelerator of machines on this host.
type Choice struct {
	Accelerator Accelerator `json:"accelerator"`
	// Reason says why, for people.
	Reason string `json:"reason"`
}

// Choose returns the accelerator for what the operator wants: "kvm" and "tcg"
// are taken as they are, "auto" is KVM if a guest boots with it and TCG
// otherwise.
func Choose(ctx context.Context, want string, p Probe) (Choice, error) {
	switch want {
	case string(KVM), string(TCG):
		return Choice{Accelerator: Accelerator(want), Reason: "it was asked for"}, nil
	case "auto", "":
	default:
		return Choice{}, &problem.Input{Source: "--vm-accelerator", Value: want, Want: `"auto", "kvm" or "tcg"`}
	}
	device := p.Device
	if device == "" {
		device = "/dev/kvm"
	}
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return Choice{Accelerator: TCG, Reason: "KVM cannot be used: " + err.Error()}, nil
	}
	if err := f.Close(); err != nil {
		return Choice{}, err
	}
	key, err := p.key()
	if err != nil {
		return Choice{}, err
	}
	if c, ok := p.remembered(key); ok {
		return c, nil
	}
	c, err := p.try(ctx)
	if err != nil {
		return Choice{}, err
	}
	return c, p.remember(key, c)
}

// try boots the guest.
func (p Probe) try(ctx context.Context) (_ Choice, err error) {
	dir, err := os.MkdirTemp("", "a4s-kvm-")
	if err != nil {
		return Choice{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := Config{
		Binary: p.Binary, Dir: dir, Name: "a4s-kvm-probe", Accelerator: KVM, MemoryMB: probeMemory, CPUs: 1, Slots: 1,
		Kernel: p.Kernel, Initrd: p.Initrd,
		// The last setting of the log level counts.
		Cmdline: strings.TrimSpace("console=" + Console + " panic=-1 reboot=t " + p.Cmdline + " loglevel=7"),
	}
	if p.Port != "" {
		c.Ports = []Port{{Name: p.Port, Socket: "port.sock"}}
	}
	timeout := p.Timeout
	if timeout == 0 {
		timeout = probeTimeout
	}
	probing, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	m, err := Start(probing, c, nil)
	if err == nil {
		err = m.booted(probing, c)
		err = errors.Join(err, m.Kill(), m.Close())
	}
	if ctx.Err() != nil {
		return Choice{}, fmt.Errorf("trying KVM: %w", context.Cause(ctx))
	}
	if err != nil {
		return Choice{Accelerator: TCG, Reason: "a guest does not boot with KVM: " + firstLine(err.Error())}, nil
	}
	return Choice{
		Accelerator: KVM,
		Reason:      fmt.Sprintf("a guest booted with KVM in %s", time.Since(start).Round(10*time.Millisecond)),
	}, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// booted returns when the guest's first program runs.
func (m *Machine) booted(ctx context.Context, c Config) error {
	written := make(chan struct{})
	for _, p := range c.Ports {
		conn, err := DialPort(ctx, m.dir, p.Socket)
		if err != nil {
			return err
		}
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			if n, _ := conn.Read(make([]byte, 1)); n == 1 {
				close(written)
			}
		}()
		defer func() {
			_ = conn.Close() // it was only read
			<-finished
		}()
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		console, err := os.ReadFile(ConsolePath(m.dir))
		if err != nil {
			return err
		}
		for _, sign := range bootedSigns {
			if bytes.Contains(console, sign) {
				return nil
			}
		}
		select {
		case <-written:
			return nil
		case <-m.Done():
			return m.explain(ErrGone)
		case <-ctx.Done():
			return fmt.Errorf("not within the time: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// verdict is the file of a result.
type verdict struct {
	Key string    `json:"key"`
	At  time.Time `json:"at"`
	Choice
}

// key is what a result depends on.
func (p Probe) key() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	binary, err := Config{Binary: p.Binary}.binary()
	if err != nil {
		return "", &problem.Precondition{What: "virtual machines", Err: err,
			Fix: "install QEMU (" + DebianPackage + ")"}
	}
	key := []string{unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:])}
	for _, path := range []string{binary, p.Kernel, p.Initrd} {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		key = append(key, fmt.Sprintf("%s %d %d", filepath.Clean(path), info.Size(), info.ModTime().UnixNano()))
	}
	return strings.Join(append(key, p.Cmdline), "; "), nil
}

func (p Probe) remembered(key string) (Choice, bool) {
	if p.Cache == "" {
		return Choice{}, false
	}
	data, err := os.ReadFile(p.Cache)
	if err != nil {
		return Choice{}, false
	}
	var v verdict
	if json.Unmarshal(data, &v) != nil || v.Key != key {
		return Choice{}, false
	}
	if age := time.Since(v.At); v.Accelerator != KVM && (age > doubtFor || age < 0) {
		return Choice{}, false
	}
	return v.Choice, true
}

func (p Probe) remember(key string, c Choice) error {
	if p.Cache == "" {
		return nil
	}
	data, err := json.Marshal(verdict{Key: key, At: time.Now(), Choice: c})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.Cache), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return atomicfile.Write(p.Cache, append(data, '\n'), 0o644)
}
