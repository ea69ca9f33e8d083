//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

// defaultShmSize is the size of /dev/shm in containers elsewhere.
const defaultShmSize = 64 << 20

// Setup implements server.Machine. It may be called again.
func (m *Machine) Setup(ctx context.Context, s protocol.Sandbox) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !s.Time.IsZero() {
		t := unix.NsecToTimeval(s.Time.UnixNano())
		if err := unix.Settimeofday(&t); err != nil {
			return fmt.Errorf("setting the clock: %w", err)
		}
	}
	if s.Hostname != "" {
		if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
			return server.Errorf(protocol.CodeInvalid, "host name %q: %w", s.Hostname, err)
		}
	}
	if s.Domain != "" {
		if err := unix.Setdomainname([]byte(s.Domain)); err != nil {
			return server.Errorf(protocol.CodeInvalid, "domain name %q: %w", s.Domain, err)
		}
	}
	if err := setupNetwork(ctx, s); err != nil {
		return err
	}
	if err := writeNames(s); err != nil {
		return err
	}
	for name, value := range s.Sysctls {
		if err := writeFile(sysctlPath(name), value); err != nil {
			return server.Errorf(protocol.CodeInvalid, "sysctl %s=%s: %w", name, value, err)
		}
	}
	if err := m.setupMounts(s); err != nil {
		return err
	}
	if s.ShareProcessNamespace && m.pidNS == nil {
		if err := m.sharePIDs(); err != nil {
			return fmt.Errorf("PID namespace of the pod: %w", err)
		}
	}
	m.sandbox, m.isSetUp = s, true
	return nil
}

// sysctlPath returns the file of a sysctl. A name with slashes has its dots in
// names of interfaces.
func sysctlPath(name string) string {
	if !strings.Contains(name, "/") {
		name = strings.ReplaceAll(name, ".", "/")
	}
	return filepath.Join("/proc/sys", filepath.Clean("/"+name))
}

// setupMounts mounts what containers share.
func (m *Machine) setupMounts(s protocol.Sandbox) error {
	if !m.isSetUp {
		size := s.ShmSize
		if size == 0 {
			size = defaultShmSize
		}
		shm := mount{"shm", shmDir, "tmpfs", quietly, "mode=1777,size=" + strconv.FormatInt(size, 10)}
		if err := shm.do(); err != nil {
			return err
		}
	}
	if s.Shared && !m.sandbox.Shared {
		share := mount{protocol.SharedTag, protocol.SharedDir, "virtiofs", unix.MS_NOSUID | unix.MS_NODEV, ""}
		if err := share.do(); err != nil {
			return err
		}
	}
	return nil
}

// writeNames writes the files of names that containers without their own get.
func writeNames(s protocol.Sandbox) error {
	var resolv strings.Builder
	for _, server := range s.DNS.Servers {
		fmt.Fprintf(&resolv, "nameserver %s\n", server)
	}
	if len(s.DNS.Searches) > 0 {
		fmt.Fprintf(&resolv, "search %s\n", strings.Join(s.DNS.Searches, " "))
	}
	if len(s.DNS.Options) > 0 {
		fmt.Fprintf(&resolv, "options %s\n", strings.Join(s.DNS.Options, " "))
	}
	hosts := "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	for _, i := range s.Interfaces {
		for _, a := range i.Addresses {
			ip, _, _ := strings.Cut(a, "/")
			if s.Hostname != "" {
				hosts += ip + "\t" + s.Hostname + "\n"
			}
		}
	}
	// In place: containers have these very files mounted.
	for name, content := range map[string]string{
		"resolv.conf": resolv.String(), "hosts": hosts, "hostname": s.Hostname + "\n",
	} {
		if err := os.WriteFile(filepath.Join(podDir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sharePIDs starts the process that reaps what containers leave behind in the
// namespace that they share.
func (m *Machine) sharePIDs() error {
	pid, exited, err := m.reaper.start(func() (int, error) {
		return syscall.ForkExec(Program, []string{Program, StagePause}, &syscall.ProcAttr{
			Files: []uintptr{0, 1, 2},
			Sys:   &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Setsid: true},
		})
	})
	if err != nil {
		return err
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return errors.Join(err, m.reaper.signal(pid, int(unix.SIGKILL)))
	}
	m.pidNS = ns
	go func() {
		// The kernel ends all containers with it; none can be started any more.
		<-exited
		_ = ns.Close()
	}()
	return nil
}
