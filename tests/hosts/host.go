package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Host is one machine of a lab.
type Host struct {
	// Name is its host name.
	Name string
	// IP is its address on the bridge of the lab.
	IP net.IP

	lab    *Lab
	link   string
	dir    string
	cgroup string

	init  *exec.Cmd
	hold  io.Closer
	close sync.Once

	mu   sync.Mutex
	logs []string
}

// privateDirs are the directories of a4s and of what it runs, outside /run.
// Each host has its own.
func privateDirs() []string {
	return []string{
		"/etc/a4s", "/etc/cni", "/var/lib/a4s", "/var/lib/kubelet", "/var/lib/cni", "/var/lib/containerd",
		"/var/log/pods", "/var/log/containers", "/opt/cni", "/opt/kwasm",
	}
}

// blueprint is what the first process of a host needs to know.
type blueprint struct {
	Name        string
	Cgroup      string
	Hierarchies []hierarchy
	// Binds maps a source to the directory that it covers.
	Binds map[string]string
	// ResolvConf is a file to show as /etc/resolv.conf.
	ResolvConf string
}

// start makes the host and waits until its first process has set it up.
func (h *Host) start(ctx context.Context) error {
	plan := blueprint{Name: h.Name, Cgroup: h.cgroup, Binds: map[string]string{},
		ResolvConf: filepath.Join(h.dir, "resolv.conf")}
	var err error
	if plan.Hierarchies, err = hierarchies(); err != nil {
		return err
	}
	if err := makeCgroup(h.cgroup); err != nil {
		return err
	}
	for _, dir := range privateDirs() {
		source := filepath.Join(h.dir, "root", strings.ReplaceAll(strings.Trim(dir, "/"), "/", "-"))
		if err := os.MkdirAll(source, 0o755); err != nil {
			return err
		}
		plan.Binds[source] = dir
	}
	if err := os.WriteFile(plan.ResolvConf, []byte("nameserver "+h.lab.Gateway.String()+"\n"), 0o644); err != nil {
		return err
	}
	spec, err := json.Marshal(plan)
	if err != nil {
		return err
	}

	self, err := os.Executable()
	if err != nil {
		return err
	}
	said := &tail{}
	h.init = &exec.Cmd{
		Path:   self,
		Args:   []string{initName},
		Env:    append(os.Environ(), envBlueprint+"="+string(spec)),
		Stderr: said,
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS |
				syscall.CLONE_NEWIPC,
		},
	}
	// The host lives as long as this end of the pipe is open.
	hold, err := h.init.StdinPipe()
	if err != nil {
		return err
	}
	ready, err := h.init.StdoutPipe()
	if err != nil {
		return err
	}
	if err := h.init.Start(); err != nil {
		h.init = nil
		return fmt.Errorf("starting the first process: %w", err)
	}
	h.hold = hold
	stop := context.AfterFunc(ctx, func() { _ = h.init.Process.Kill() })
	defer stop()
	answer := make([]byte, len(initReady))
	if _, err := io.ReadFull(ready, answer); err != nil {
		_ = h.init.Wait()
		return fmt.Errorf("setting up the namespaces: %s", said)
	}
	return h.connect(h.init.Process.Pid)
}

// Path returns where a file of the host is found from outside. It is valid
// while the host lives.
func (h *Host) Path(inside string) string {
	return filepath.Join("/proc", strconv.Itoa(h.init.Process.Pid), "root", inside)
}

// WriteFile makes a file in the host, and the directories above it.
func (h *Host) WriteFile(inside, content string) error {
	path := h.Path(inside)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o600)
}

// Logs returns the log files of all that was started in the host, oldest
// first.
func (h *Host) Logs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.logs...)
}

// Close ends all processes of the host and removes it. It may be called more
// than once.
func (h *Host) Close() {
	h.close.Do(func() {
		if h.init != nil {
			h.hold.Close()
			_ = h.init.Process.Kill()
			_ = h.init.Wait()
		}
		if err := deleteLink(h.link); err != nil {
			log.Printf("host %s: removing link %s: %v", h.Name, h.link, err)
		}
		if err := removeCgroups(func(name string) bool { return name == h.cgroup }); err != nil {
			log.Printf("host %s: %v", h.Name, err)
		}
		if err := os.RemoveAll(h.dir); err != nil {
			log.Printf("host %s: removing its directory: %v", h.Name, err)
		}
	})
}
