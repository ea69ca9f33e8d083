//go:build linux

package machine

import (
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

// capabilities by their numbers.
var capabilities = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
	LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT
	SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE
	AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

const lastCapability = 40

// defaultCapabilities are those that a container has elsewhere.
var defaultCapabilities = strings.Fields(`CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP
	NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE`)

// capabilitySets returns the capabilities of a process as bits.
func capabilitySets(p protocol.Process, privileged bool) (caps, ambient uint64, err error) {
	names := defaultCapabilities
	switch {
	case p.Capabilities != nil:
		names = *p.Capabilities
	case privileged:
		names = capabilities
	}
	if caps, err = bits(names); err != nil {
		return 0, 0, err
	}
	ambient, err = bits(p.AmbientCapabilities)
	return caps | ambient, ambient, err
}

func bits(names []string) (uint64, error) {
	var set uint64
next:
	for _, name := range names {
		short := strings.TrimPrefix(strings.ToUpper(name), "CAP_")
		if short == "ALL" {
			set = 1<<(lastCapability+1) - 1
			continue
		}
		for i, c := range capabilities {
			if c == short {
				set |= 1 << i
				continue next
			}
		}
		return 0, server.Errorf(protocol.CodeInvalid, "unknown capability %q", name)
	}
	return set, nil
}

// setCapabilities sets this thread's capabilities. Executing a program as root
// takes what is in the bounding set, as another user what is ambient.
func setCapabilities(caps, ambient uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		data[i].Effective = uint32(caps >> (32 * i))
		data[i].Permitted = uint32(caps >> (32 * i))
		data[i].Inheritable = uint32(ambient >> (32 * i))
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("setting capabilities: %w", err)
	}
	for c := range uint(lastCapability + 1) {
		if ambient&(1<<c) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c), 0, 0); err != nil {
			return fmt.Errorf("ambient capability %d: %w", c, err)
		}
	}
	return nil
}

// call makes a system call of this thread alone.
func call(number, a, b, c uintptr) error {
	if _, _, errno := unix.RawSyscall(number, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

// setGroups sets this thread's groups.
func setGroups(groups []uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
