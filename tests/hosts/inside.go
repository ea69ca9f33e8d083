package hosts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

const (
	// initName and initStage are argv[0] of the first process of a host,
	// before and after it has entered its cgroup namespace.
	initName     = "a4s-e2e-init"
	initStage    = "a4s-e2e-init-2"
	envBlueprint = "A4S_E2E_BLUEPRINT"
	initReady    = "ready"
)

// Init turns the process into the first one of a host when it was started as
// such, and does not return then. It must be the first call of TestMain.
func Init() {
	var work func(blueprint) error
	switch os.Args[0] {
	case initName:
		work = enterCgroup
	case initStage:
		work = setUp
	default:
		return
	}
	var plan blueprint
	err := json.Unmarshal([]byte(os.Getenv(envBlueprint)), &plan)
	if err == nil {
		err = work(plan)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// enterCgroup makes the host's cgroup the root of what the process sees. The
// namespace is one of the calling thread; exec makes it that of the process.
func enterCgroup(plan blueprint) error {
	runtime.LockOSThread()
	for _, h := range plan.Hierarchies {
		if err := os.WriteFile(filepath.Join(h.Dir, plan.Cgroup, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("entering the cgroup: %w", err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("unsharing the cgroup namespace: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return unix.Exec(self, []string{initStage}, os.Environ())
}

// setUp makes the mounts of the host, says that it is ready, and then does
// what the first process of a machine does until the test process is gone.
func setUp(plan blueprint) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	if err := unix.Sethostname([]byte(plan.Name)); err != nil {
		return err
	}
	for source, target := range plan.Binds {
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("covering %s: %w", target, err)
		}
	}
	resolv, err := os.ReadFile(plan.ResolvConf)
	if err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", ""); err != nil {
		return err
	}
	if err := hideCgroups(); err != nil {
		return err
	}
	if err := mountSys(plan.Hierarchies); err != nil {
		return err
	}
	if err := mount("tmpfs", "/run", "tmpfs", "mode=755"); err != nil {
		return err
	}
	if err := showResolvConf(plan.ResolvConf, resolv); err != nil {
		return err
	}
	// A fresh machine forwards nothing, whatever this one does.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0); err != nil {
		return err
	}
	// As systemd leaves it: a mount made by one process of the host is seen
	// by the others, also in their own mount namespaces.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing the mounts: %w", err)
	}

	dead := make(chan os.Signal, 16)
	signal.Notify(dead, unix.SIGCHLD)
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(gone)
	}()
	if _, err := os.Stdout.WriteString(initReady); err != nil {
		return err
	}
	for {
		select {
		case <-gone:
			return nil
		case <-dead:
			reap()
		}
	}
}

func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func mount(source, target, kind, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, kind, 0, options); err != nil {
		return fmt.Errorf("mounting %s: %w", target, err)
	}
	return nil
}

// hideCgroups unmounts the cgroup hierarchies that the machine shows a second
// time, as for a chroot. A kubelet takes the first one that it finds, and
// would make its pods' cgroups outside the host.
func hideCgroups() error {
	all, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(m.FSType, "cgroup") || strings.HasPrefix(m.Mountpoint, "/sys/"), false
	})
	if err != nil {
		return fmt.Errorf("looking for mounted cgroup hierarchies: %w", err)
	}
	for _, m := range all {
		if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmounting %s: %w", m.Mountpoint, err)
		}
	}
	return nil
}

// mountSys mounts /sys anew, which shows the links of the host, and the same
// cgroup hierarchies as before with the host's cgroup as their root.
func mountSys(all []hierarchy) error {
	if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting /sys: %w", err)
	}
	if err := mount("sysfs", "/sys", "sysfs", ""); err != nil {
		return err
	}
	unified := len(all) == 1 && all[0].Type == "cgroup2"
	if !unified {
		if err := mount("tmpfs", "/sys/fs/cgroup", "tmpfs", "mode=755"); err != nil {
			return err
		}
	}
	for _, h := range all {
		if err := mount("cgroup", h.Dir, h.Type, h.Options); err != nil {
			return err
		}
	}
	if !unified {
		return nil
	}
	// The root of a version 2 namespace is a common cgroup: it may have
	// processes or delegate controllers, not both.
	dir := filepath.Join(all[0].Dir, initCgroup)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
		return err
	}
	return delegate(all[0].Dir)
}

// initCgroup holds the processes of a host on a machine with version 2.
const initCgroup = "init"

// showResolvConf shows file, or its content where a link into the covered
// /run needs one, as /etc/resolv.conf.
func showResolvConf(file string, content []byte) error {
	const path = "/etc/resolv.conf"
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		return unix.Mount(file, target, "", unix.MS_BIND, "")
	}
	link, err := os.Readlink(path)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(link) {
		link = filepath.Join(filepath.Dir(path), link)
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	return os.WriteFile(link, content, 0o644)
}
