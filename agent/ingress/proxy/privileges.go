package proxy

import (
	"fmt"
	"os"
	"syscall"
)

// nobody is a user and a group that own nothing.
const nobody = 65534

// DropPrivileges makes this process one of nobody, without capabilities. It does
// nothing if the process is not root's.
func DropPrivileges() error {
	if os.Geteuid() != 0 {
		return nil
	}
	// Those of package syscall are for all threads.
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("giving up groups: %w", err)
	}
	if err := syscall.Setgid(nobody); err != nil {
		return fmt.Errorf("giving up the group: %w", err)
	}
	if err := syscall.Setuid(nobody); err != nil {
		return fmt.Errorf("giving up the user: %w", err)
	}
	return nil
}
