package checkconfig

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Level is the outcome of a check.
type Level string

// The levels, as they are printed.
const (
	Pass Level = "PASS"
	Warn Level = "WARN"
	Fail Level = "FAIL"
)

// Result is the outcome of one check.
type Result struct {
	Level Level
	// Name says what was checked, Found what was found.
	Name, Found string
	// Fix says what can be done about it; empty if there is nothing to do.
	Fix string
}

// Host is the machine to check. Its functions can be replaced by tests.
type Host struct {
	// Root is put before every path below /proc, /sys, /boot and /lib.
	Root string
	// DataDir is the data directory of a4s.
	DataDir string
	// UID is the effective user.
	UID int
	// LookPath finds a program.
	LookPath func(name string) (string, error)
	// FreeSpace returns the free and the total bytes of the file system
	// that holds path, which exists.
	FreeSpace func(path string) (free, total uint64, err error)
	// OpenFiles returns the hard limit of open files.
	OpenFiles func() (uint64, error)
	// PortFree reports whether a TCP port can be listened on.
	PortFree func(port int) bool
}

// ThisHost returns the machine that the process runs on.
func ThisHost(dataDir string) Host {
	return Host{
		DataDir:  dataDir,
		UID:      os.Geteuid(),
		LookPath: lookPath,
		FreeSpace: func(path string) (uint64, uint64, error) {
			var st unix.Statfs_t
			if err := unix.Statfs(path, &st); err != nil {
				return 0, 0, err
			}
			return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
		},
		OpenFiles: func() (uint64, error) {
			var lim unix.Rlimit
			err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim)
			return lim.Max, err
		},
		PortFree: func(port int) bool {
			l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
			if err != nil {
				return false
			}
			return l.Close() == nil
		},
	}
}

// lookPath also looks where root's programs are, which a user's PATH may lack.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}

// Run checks the host.
func Run(h Host) []Result {
	c := &check{Host: h}
	c.user()
	c.capabilities()
	c.cgroups()
	c.kernel()
	c.tools()
	c.limits()
	c.sysctls()
	c.swap()
	c.disk()
	c.ports()
	return c.results
}

// MissingCgroups names what containers need of the control groups and is not
// there; "" is nothing.
func MissingCgroups(h Host) string {
	c := &check{Host: h}
	c.cgroups()
	for _, r := range c.results {
		if r.Level == Fail {
			return r.Name + ": " + r.Found
		}
	}
	return ""
}

type check struct {
	Host
	results []Result
}

func (c *check) add(level Level, name, fix, format string, args ...any) {
	c.results = append(c.results, Result{Level: level, Name: name, Found: fmt.Sprintf(format, args...), Fix: fix})
}

// read returns the text of a file below Root.
func (c *check) read(path string) (string, error) {
	data, err := os.ReadFile(filepath.Join(c.Root, path))
	return string(data), err
}

func (c *check) user() {
	if c.UID != 0 {
		c.add(Fail, "user", "run a4s as root", "uid %d", c.UID)
		return
	}
	c.add(Pass, "user", "", "root")
}

func (c *check) tools() {
	for _, name := range []string{"mount", "umount"} {
		if path, err := c.LookPath(name); err == nil {
			c.add(Pass, name, "", "%s", path)
		} else {
			c.add(Fail, name, "install the package util-linux or mount", "not found")
		}
	}
	nft, nftErr := c.LookPath("nft")
	iptables, iptErr := c.LookPath("iptables")
	switch {
	case nftErr != nil && iptErr != nil:
		c.add(Fail, "nft or iptables", "install the package nftables", "neither was found")
	case nftErr != nil:
		c.add(Warn, "nft", "install the package nftables", "not found; services use the slower iptables mode")
	default:
		c.add(Pass, "nft", "", "%s", nft)
	}
	if iptErr == nil {
		c.add(Pass, "iptables", "", "%s", iptables)
	} else if nftErr == nil {
		c.add(Warn, "iptables", "install the package iptables if pods use host ports",
			"not found; host ports of pods need it")
	}
	if path, err := c.LookPath("conntrack"); err == nil {
		c.add(Pass, "conntrack", "", "%s", path)
	} else {
		c.add(Warn, "conntrack", "install the package conntrack to look into the connection table",
			"not found; a4s itself does not need it")
	}
	if path, err := c.LookPath("modprobe"); err == nil {
		c.add(Pass, "modprobe", "", "%s", path)
	} else {
		c.add(Warn, "modprobe", "install the package kmod, unless all modules are built in",
			"not found; kernel modules are not loaded on demand")
	}
}

func (c *check) limits() {
	const enough = 65536
	hard, err := c.OpenFiles()
	switch {
	case err != nil:
		c.add(Warn, "open files", "", "unknown: %v", err)
	case hard < enough:
		c.add(Warn, "open files",
			fmt.Sprintf("raise the hard limit to %d or more (LimitNOFILE= of a systemd unit, ulimit -Hn)", enough),
			"hard limit %d; many pods or watches may hit it", hard)
	default:
		c.add(Pass, "open files", "", "hard limit %d", hard)
	}
}

// Free space below which nothing works, and below which kubelet soon begins
// to evict pods.
const (
	minFree  = 512 << 20
	goodFree = 4 << 30
)

func (c *check) disk() {
	name := "disk of " + c.DataDir
	dir := c.DataDir
	for {
		_, err := os.Stat(dir)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrNotExist) || filepath.Dir(dir) == dir {
			c.add(Fail, name, "choose another directory with --data-dir", "%v", err)
			return
		}
		dir = filepath.Dir(dir)
	}
	free, total, err := c.FreeSpace(dir)
	const fix = "free some space or choose another file system with --data-dir"
	switch {
	case err != nil:
		c.add(Fail, name, "choose another directory with --data-dir", "%v", err)
	case free < minFree:
		c.add(Fail, name, fix, "%d MiB free of %d MiB", free>>20, total>>20)
	case free < goodFree:
		c.add(Warn, name, fix, "%d MiB free of %d MiB; images and logs need more", free>>20, total>>20)
	default:
		c.add(Pass, name, "", "%d GiB free of %d GiB", free>>30, total>>30)
	}
}

func (c *check) ports() {
	for _, p := range []struct {
		port      int
		name, fix string
	}{
		{6443, "API and supervisor", "stop the process that holds it or set --https-listen-port"},
		{10250, "kubelet", "stop the process that holds it"},
		{2379, "datastore clients", "stop the process that holds it"},
		{2380, "datastore peers", "stop the process that holds it"},
	} {
		name := fmt.Sprintf("port %d/tcp", p.port)
		if c.PortFree(p.port) {
			c.add(Pass, name, "", "free, for %s", p.name)
		} else {
			// No failure: the machine may be fine and a4s running.
			c.add(Warn, name, p.fix+", unless it is a4s itself", "in use, needed for %s", p.name)
		}
	}
}
