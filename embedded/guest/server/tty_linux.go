package server

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

func resizeTTY(tty *os.File, size protocol.TerminalSize) error {
	raw, err := tty.SyscallConn()
	if err != nil {
		return err
	}
	var ioctlErr error
	if err := raw.Control(func(fd uintptr) {
		ioctlErr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Height, Col: size.Width})
	}); err != nil {
		return err
	}
	return ioctlErr
}
