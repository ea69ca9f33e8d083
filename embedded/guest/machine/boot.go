//go:build linux

package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ModulesFile lists the kernel modules to load, in order.
const ModulesFile = "/lib/modules/order"

// Program is this program, as the initial RAM disk has it.
const Program = "/init"

const (
	stateDir     = "/run/a4s"
	containerDir = stateDir + "/containers"
	podDir       = stateDir + "/pod"
	memoryDir    = stateDir + "/memory"
	shmDir       = stateDir + "/shm"
)

type mount struct {
	source, target, fsType string
	flags                  uintptr
	data                   string
}

const quietly = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// Boot does what process 1 does first.
func Boot(log func(string, ...any)) error {
	if err := movableRoot(); err != nil {
		return err
	}
	for _, m := range []mount{
		{"proc", "/proc", "proc", quietly, ""},
		{"sysfs", "/sys", "sysfs", quietly, ""},
		{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=0755"},
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"},
		{"mqueue", "/dev/mqueue", "mqueue", quietly, ""},
		{"run", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
		{"cgroup2", cgroupRoot, "cgroup2", quietly, "memory_recursiveprot"},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	for _, dir := range []string{containerDir, podDir, memoryDir, shmDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// What is missing is said now, and will be missed by who needs it.
	if err := loadModules(); err != nil {
		log("%v", err)
	}
	// A machine that is out of memory ends its containers.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0); err != nil {
		log("%v", err)
	}
	raiseFileLimit(log)
	unix.Umask(0o022)
	return startCgroups()
}

// raiseFileLimit lets containers have as many open files as they may elsewhere.
func raiseFileLimit(log func(string, ...any)) {
	limit := unix.Rlimit{Cur: defaultFilesSoft, Max: defaultFilesHard}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		log("raising the limit of open files: %v", err)
	}
}

// movableRoot mounts the root on top of itself: the very first root of a kernel
// cannot be left with pivot_root, a mount on top of it can.
func movableRoot() error {
	const dir = "/.root"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("/", dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting the root again: %w", err)
	}
	if err := unix.Chdir(dir); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("moving the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// do mounts and makes the mount point.
func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.fsType, m.flags, m.data); err != nil {
		return fmt.Errorf("mounting %s (%s): %w", m.target, m.fsType, err)
	}
	return nil
}

// loadModules loads the modules that came with the kernel.
func loadModules() error {
	list, err := os.ReadFile(ModulesFile)
	if err != nil {
		return fmt.Errorf("the initial RAM disk has no modules: %w", err)
	}
	var errs []error
	for name := range strings.FieldsSeq(string(list)) {
		if err := loadModule(filepath.Join(filepath.Dir(ModulesFile), name)); err != nil {
			errs = append(errs, fmt.Errorf("module %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if errors.Is(err, unix.EEXIST) {
		err = nil
	}
	if err != nil {
		return err
	}
	// It is in the kernel, and the file in memory.
	return os.Remove(path)
}

// Poweroff ends the machine. File systems that are still mounted are synced.
func (m *Machine) Poweroff() error {
	unix.Sync()
	// The console may still hold lines.
	if tty, err := os.OpenFile("/dev/console", os.O_WRONLY|unix.O_NOCTTY, 0); err == nil {
		_ = unix.IoctlSetInt(int(tty.Fd()), unix.TCSBRK, 1)
		_ = tty.Close()
	}
	return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// readTrimmed reads a small file of the kernel.
func readTrimmed(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return strings.TrimSpace(string(b)), err
}
