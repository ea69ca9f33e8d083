package preflight

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/problem"
)

// Port is a TCP port that must be free.
type Port struct {
	// Address to listen on; empty means all.
	Address string
	Port    int
	// What uses it, such as "API server and supervisor".
	What string
	// Flag changes it; empty when nothing does.
	Flag string
}

// Ports returns a problem for every port that is taken.
func Ports(ports ...Port) error {
	var errs []error
	for _, p := range ports {
		if err := p.check(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (p Port) check() error {
	l, err := net.Listen("tcp", net.JoinHostPort(p.Address, strconv.Itoa(p.Port)))
	if err == nil {
		return l.Close()
	}
	out := &problem.Precondition{What: fmt.Sprintf("port %d/tcp for %s", p.Port, p.What), Err: err}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		out.Err = errors.New("already in use")
		out.Fix = "stop the process that holds it"
		if p.Flag != "" {
			out.Fix += " or choose another port with " + p.Flag
		}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		out.Err = fmt.Errorf("this machine has no address %s", p.Address)
		out.Fix = "give an address of this machine with --bind-address"
	}
	return out
}

// FreeSpace returns a problem when the file system of dir, or of its nearest
// existing parent, has less than need bytes left or cannot be written to.
func FreeSpace(dir string, need uint64) error {
	at := dir
	for {
		var st syscall.Statfs_t
		err := syscall.Statfs(at, &st)
		if errors.Is(err, os.ErrNotExist) && filepath.Dir(at) != at {
			at = filepath.Dir(at)
			continue
		}
		if err != nil {
			return &problem.Precondition{What: "directory " + dir, Err: err, Fix: "choose another with --data-dir"}
		}
		free := st.Bavail * uint64(st.Bsize)
		if free < need {
			return &problem.Precondition{
				What: "directory " + dir,
				Err:  fmt.Errorf("%d MiB free, %d MiB needed", free>>20, need>>20),
				Fix:  "free some disk space or choose another file system with --data-dir",
			}
		}
		if err := writable(at); err != nil {
			return &problem.Precondition{
				What: "directory " + dir, Err: err,
				Fix: "look into dmesg, check the disk, and mount it for writing again",
			}
		}
		return nil
	}
}

// writable tries it with a file that has no name: after an error of the disk
// the options of the mount may still say that it is. What else goes wrong is
// not about the disk, or the file system has no such files.
func writable(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return unix.Close(fd)
	}
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EIO) {
		return err
	}
	return nil
}

// Root returns a problem unless the process runs as root.
func Root(mode string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return &problem.Precondition{What: mode, Err: fmt.Errorf("running as uid %d", os.Geteuid()), Fix: "run it as root"}
}
