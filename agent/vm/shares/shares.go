package shares

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/agent/vm/process"
)

// DefaultBinary is where Debian and Ubuntu have virtiofsd.
const DefaultBinary = "/usr/lib/qemu/virtiofsd"

// Socket is the name of virtiofsd's socket in a sandbox's directory.
const Socket = "virtiofsd.sock"

// Names of files in a sandbox's directory.
const (
	pidFile = "virtiofsd.pid"
	logFile = "virtiofsd.log"
	// sharedDir is what the guest sees: a read-only view of pointsDir, in
	// which the mount points are made.
	sharedDir = "shared"
	pointsDir = "shared.points"
)

// PIDFile is virtiofsd's pid file in a sandbox's directory.
func PIDFile(dir string) string { return filepath.Join(dir, pidFile) }

// Server is a virtiofsd: a process, and its child that serves.
type Server struct {
	*process.Process
}

// childTimeout is how long virtiofsd may take to follow its child.
const childTimeout = 5 * time.Second

// Stop ends virtiofsd, after the grace period the hard way. It returns when it
// has ended.
func (s *Server) Stop(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if there, err := s.SignalChildren(unix.SIGTERM); err != nil {
		return err
	} else if there && s.Wait(ctx) == nil {
		return nil
	}
	return s.Kill()
}

// Kill ends virtiofsd the hard way. It returns when it has ended.
func (s *Server) Kill() error {
	// The child first: its parent follows it, and takes its status.
	if there, err := s.SignalChildren(unix.SIGKILL); err != nil {
		return err
	} else if there {
		ctx, cancel := context.WithTimeout(context.Background(), childTimeout)
		defer cancel()
		if s.Wait(ctx) == nil {
			return nil
		}
	}
	return s.Process.Kill()
}

// Start makes the share of the sandbox whose directory is dir and starts
// virtiofsd, to which QEMU can connect from then on. It ends when QEMU does.
// binary may be empty. If cgroup is not nil, virtiofsd is moved there.
func Start(ctx context.Context, binary, dir string, cgroup *process.Cgroup) (_ *Server, err error) {
	if binary == "" {
		binary = DefaultBinary
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting virtiofsd: %w", err), Close(dir))
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := prepare(dir); err != nil {
		return nil, err
	}
	socket, err := listen(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, socket.Close()) }() // virtiofsd has its own
	p, err := process.Start(process.Spec{
		PIDFile: PIDFile(dir), Path: binary, Dir: dir, Log: filepath.Join(dir, logFile), Files: []*os.File{socket},
		Args: []string{
			"-f", "--fd=3", "-o", "source=" + filepath.Join(dir, sharedDir),
			// The guest sees within a second what the host changes.
			"-o", "cache=auto", "-o", "announce_submounts", "-o", "log_level=warn",
			"--rlimit-nofile=" + strconv.FormatUint(openFiles(), 10),
		},
	})
	if err != nil {
		return nil, err
	}
	if cgroup != nil {
		if err := cgroup.Add(p); err != nil {
			return nil, errors.Join(err, p.Kill(), p.Close())
		}
	}
	return &Server{p}, nil
}

// openFiles is how many files virtiofsd may have open: one for each file that
// the guest knows of. Its own default is more than it may be allowed.
func openFiles() uint64 {
	const wanted = 1_000_000
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0 // leaves it as it is
	}
	return min(limit.Max, wanted)
}

// listen makes virtiofsd's socket, whose path may be longer than a socket's
// name may be.
func listen(dir string) (*os.File, error) {
	if err := os.Remove(filepath.Join(dir, Socket)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix",
		&net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), Socket)})
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	return f, errors.Join(err, l.Close())
}

// Attach finds the virtiofsd of the sandbox whose directory is dir again,
// which another process may have started. It returns process.ErrGone if that
// has ended.
func Attach(dir string) (*Server, error) {
	p, err := process.Open(PIDFile(dir))
	if err != nil {
		return nil, err
	}
	return &Server{p}, nil
}

// Mount is a path of the host to show.
type Mount struct {
	// Name is the path below the share, without "..": such as "volumes/0".
	Name string
	// Source is a directory or file of the host; symbolic links are followed.
	Source string
	// ReadOnly also holds for what is mounted below Source.
	ReadOnly bool
	// Follow says that what is mounted below Source later appears too
	// (mountPropagation HostToContainer).
	Follow bool
}

// Add makes a path of the host appear in the share of the sandbox whose
// directory is dir. A name that is taken is fs.ErrExist.
func Add(dir string, m Mount) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sharing %s with a virtual machine: %w", m.Source, err)
		}
	}()
	if !validName(m.Name) {
		return fmt.Errorf("%q is no name in a share", m.Name)
	}
	names, err := List(dir)
	if err != nil {
		return err
	}
	for _, taken := range names {
		if taken == m.Name || strings.HasPrefix(taken, m.Name+"/") || strings.HasPrefix(m.Name, taken+"/") {
			return fmt.Errorf("%s is in use by %s: %w", m.Name, taken, fs.ErrExist)
		}
	}
	tree, err := clone(m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(tree)) }()
	var info unix.Stat_t
	if err := unix.Fstat(tree, &info); err != nil {
		return err
	}
	if err := makePoint(filepath.Join(dir, pointsDir, m.Name), info.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, filepath.Join(dir, sharedDir, m.Name),
		unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return errors.Join(fmt.Errorf("mounting: %w", err), os.RemoveAll(filepath.Join(dir, pointsDir, m.Name)))
	}
	return nil
}

func validName(name string) bool {
	return filepath.IsLocal(name) && filepath.Clean(name) == name && name != "."
}

// clone copies the tree of mounts at a source. It is not mounted anywhere yet,
// so it is never seen without its attributes; and it is never a peer of the
// source, or unmounting the copy would unmount what is below the source.
func clone(m Mount) (int, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, m.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, err
	}
	attributes := &unix.MountAttr{Propagation: unix.MS_PRIVATE}
	if m.Follow {
		attributes.Propagation = unix.MS_SLAVE
	}
	if m.ReadOnly {
		attributes.Attr_set = unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attributes); err != nil {
		return -1, errors.Join(fmt.Errorf("attributes of the mount: %w", err), unix.Close(tree))
	}
	return tree, nil
}

func makePoint(path string, dir bool) error {
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	return f.Close()
}

// Remove takes it away again, with all that is mounted below it. What is not
// there is no error. name may be a directory above several.
func Remove(dir, name string) error {
	if !validName(name) {
		return fmt.Errorf("%q is no name in a share", name)
	}
	if err := unmountBelow(filepath.Join(dir, sharedDir, name)); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(dir, pointsDir, name))
}

// Close unmounts everything in the share and removes it. virtiofsd must have
// ended; it does so by itself when QEMU has. A share that does not exist is no
// error.
func Close(dir string) error {
	if err := unmountBelow(filepath.Join(dir, sharedDir)); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(dir, pointsDir)); err != nil {
		return err
	}
	for _, name := range []string{sharedDir, Socket, pidFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
