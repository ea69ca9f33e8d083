//go:build linux

package machine

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

// Machine is the machine that this program is process 1 of.
type Machine struct {
	reaper *reaper
	bootID string

	mu      sync.Mutex
	sandbox protocol.Sandbox
	isSetUp bool
	// pidNS is the PID namespace that all containers share, if they do.
	pidNS *os.File
	// roots are the first processes of containers: theirs are the namespaces
	// of an exec. A descriptor stands for the process, not for its number.
	roots map[string]*os.File
}

var _ server.Machine = (*Machine)(nil)

// New returns the machine. It is called once, by process 1.
func New() *Machine {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return &Machine{reaper: newReaper(), bootID: hex.EncodeToString(id), roots: map[string]*os.File{}}
}

// Info implements server.Machine.
func (m *Machine) Info() protocol.Info {
	info := protocol.Info{Version: protocol.Version, BootID: m.bootID}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		info.Kernel = unix.ByteSliceToString(uts.Release[:])
	}
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) == nil {
		info.Uptime = time.Duration(now.Nano())
	}
	m.mu.Lock()
	info.Setup = m.isSetUp
	m.mu.Unlock()
	return info
}

func (m *Machine) setRoot(id string, process *os.File) {
	m.mu.Lock()
	old := m.roots[id]
	m.roots[id] = process
	if process == nil {
		delete(m.roots, id)
	}
	m.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
}

// exitOf says how a process ended.
func exitOf(status syscall.WaitStatus) protocol.Exit {
	exit := protocol.Exit{At: time.Now(), Code: status.ExitStatus()}
	if status.Signaled() {
		exit.Signal = int(status.Signal())
		exit.Code = 128 + exit.Signal
	}
	return exit
}
