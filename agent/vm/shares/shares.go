package shares

import (
	"context"
	"errors"

	"github.com/a4s-io/a4s/agent/vm/process"
)

// DefaultBinary is where Debian and Ubuntu have virtiofsd.
const DefaultBinary = "/usr/lib/qemu/virtiofsd"

// Socket is the name of virtiofsd's socket in a share's directory.
const Socket = "virtiofsd.sock"

// Server is a virtiofsd and what it serves.
type Server struct {
	*process.Process
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

// Start starts virtiofsd for the share in dir, the sandbox's directory, and
// returns when QEMU can connect. binary may be empty. If cgroup is not nil,
// virtiofsd is moved there.
func Start(ctx context.Context, binary, dir string, cgroup *process.Cgroup) (*Server, error) {
	return nil, errors.ErrUnsupported
}

// Attach finds the share in dir again, which another process may have started.
// It returns process.ErrGone if virtiofsd has ended.
func Attach(dir string) (*Server, error) { return nil, errors.ErrUnsupported }

// Add makes a host path appear in the share.
func Add(dir string, m Mount) error { return errors.ErrUnsupported }

// Remove takes it away again, with all that is mounted below it. What is not
// there is no error. name may be a directory above several.
func Remove(dir, name string) error { return errors.ErrUnsupported }

// List returns the names of what was added.
func List(dir string) ([]string, error) { return nil, errors.ErrUnsupported }

// Close unmounts everything in the share and removes its directory. virtiofsd
// must have ended; it does so by itself when QEMU has.
func Close(dir string) error { return errors.ErrUnsupported }
