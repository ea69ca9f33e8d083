package snapshots

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore/release"
	"github.com/a4s-io/a4s/server/datastore/restored"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

const (
	serverName = "server"
	// keptPrefix is that of server directories that a restore has replaced.
	keptPrefix = "server-before-restore-"
	// workPrefix is that of directories that a restore works in.
	workPrefix = ".restoring-"
	// walSize is what etcd makes for its write-ahead log.
	walSize = 128 << 20
)

// RestoreOptions says what to restore and where to.
type RestoreOptions struct {
	// Path is that of the snapshot.
	Path    string
	DataDir string
	// Member is the name of the datastore's member.
	Member string
	// OtherCluster allows a snapshot of another cluster than the one that is
	// in the data directory.
	OtherCluster bool
	Zap          *zap.Logger
}

// Restored is what a restore did.
type Restored struct {
	Manifest *archive.Manifest
	// Kept is where the replaced server directory is, "" if there was none.
	Kept string
}

// Restore replaces the server directory by what a snapshot has. The caller
// holds the lock of the machine: no server runs, and none may start.
func Restore(o RestoreOptions) (*Restored, error) {
	m, err := examine(o.Path)
	if err != nil {
		return nil, err
	}
	server := filepath.Join(o.DataDir, serverName)
	if err := o.checkTarget(server, m); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.DataDir, 0o755); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	o.tidy()
	// The backend is there twice for a moment.
	if err := preflight.FreeSpace(o.DataDir, uint64(2*m.Size()+walSize)); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(o.DataDir, workPrefix)
	if err != nil {
		return nil, fmt.Errorf("making a directory to restore in: %w", err)
	}
	fresh := filepath.Join(work, serverName)
	if err := o.prepare(work, fresh, m); err != nil {
		return nil, errors.Join(err, os.RemoveAll(work))
	}
	kept, err := exchange(fresh, server,
		filepath.Join(o.DataDir, keptPrefix+time.Now().UTC().Format("20060102T150405.000Z")))
	if err != nil {
		// What was exchanged stays where it is: it could be the old one.
		return nil, fmt.Errorf("replacing %s: %w", server, err)
	}
	return &Restored{Manifest: m, Kept: kept}, errors.Join(os.RemoveAll(work), atomicfile.SyncDir(o.DataDir))
}

// examine reads the whole file and compares all checksums.
func examine(path string) (m *archive.Manifest, err error) {
	bad := func(err error) error {
		return &problem.Input{Source: "snapshot", Value: path, Err: err,
			Want: `a file that "a4s etcd-snapshot save" wrote, complete`}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, bad(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if m, err = archive.Read(f, nil); err != nil {
		return nil, bad(err)
	}
	if of := recordOf(m); of.NewerThan(release.Own()) {
		return nil, &problem.Input{Source: "snapshot", Value: path,
			Err:  fmt.Errorf("it is of %s, which is newer than %s", of, release.Own()),
			Want: "that a4s or a newer one to restore it, or a snapshot of this one"}
	}
	return m, nil
}

// recordOf is the release that a snapshot is of.
func recordOf(m *archive.Manifest) release.Record {
	return release.Record{Version: m.Version, Kubernetes: m.Kubernetes}
}

// checkTarget refuses a data directory that is in use or that is another
// cluster's.
func (o *RestoreOptions) checkTarget(server string, m *archive.Manifest) error {
	busy, err := etcd.InUse(filepath.Join(server, DatabaseDir, "etcd"))
	if err != nil {
		return fmt.Errorf("looking at the datastore: %w", err)
	}
	if busy {
		return &problem.Precondition{What: "datastore in " + server, Err: errors.New("a process has it open"),
			Fix: "stop the server first"}
	}
	if o.OtherCluster {
		return nil
	}
	ours, err := clusterOf(pki.FilesIn(filepath.Join(server, "tls")))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// A directory that cannot tell whose it is may be why there is a restore.
	if err == nil && ours != m.Cluster {
		return &problem.Input{Source: "snapshot", Value: o.Path,
			Err: fmt.Errorf("it is of the cluster whose CA has hash %s, but %s belongs to the one with %s",
				m.Cluster, o.DataDir, ours),
			Want: "a snapshot of this cluster, or --other-cluster to replace one by the other"}
	}
	return nil
}

// tidy removes what restores that were killed have left.
func (o *RestoreOptions) tidy() {
	left, _ := filepath.Glob(filepath.Join(o.DataDir, workPrefix+"*")) // the pattern is good
	for _, path := range left {
		// One with a complete datastore may be the old one, exchanged.
		if _, err := os.Stat(filepath.Join(path, markExchange)); err == nil {
			continue
		}
		_ = os.RemoveAll(path) // a nuisance, not an obstacle
	}
}

// prepare makes the new server directory and checks what a start needs.
func (o *RestoreOptions) prepare(work, fresh string, m *archive.Manifest) error {
	db := filepath.Join(work, archive.Database)
	if err := o.extract(work); err != nil {
		return err
	}
	unfit := func(err error) error {
		return &problem.Input{Source: "snapshot", Value: o.Path, Err: err, Want: "one that a server can start from"}
	}
	files := pki.FilesIn(filepath.Join(fresh, "tls"))
	for _, pair := range []pki.Pair{files.ServerCA, files.ClientCA, files.EtcdServerCA, files.EtcdPeerCA} {
		if _, err := pki.LoadCA(pair); err != nil {
			return unfit(err)
		}
	}
	if cluster, err := clusterOf(files); err != nil || cluster != m.Cluster {
		return unfit(errors.Join(errors.New("its CA is not the one that it names"), err))
	}
	facts, err := etcd.CheckSnapshot(db)
	if err != nil {
		return unfit(fmt.Errorf("%s: %w", archive.Database, err))
	}
	if err := os.MkdirAll(filepath.Join(fresh, DatabaseDir), 0o700); err != nil {
		return err
	}
	if err := etcd.RestoreSnapshot(db, filepath.Join(fresh, DatabaseDir, "etcd"), o.Member, facts.Revision,
		o.Zap); err != nil {
		return err
	}
	if err := errors.Join(os.Remove(db), release.Write(fresh, recordOf(m)),
		restored.New(time.Now()).Write(fresh)); err != nil {
		return err
	}
	if err := o.keep(fresh); err != nil {
		return err
	}
	return syncTree(fresh)
}

// partitionsFile is what a server knows of the partitions of its cluster.
const partitionsFile = "partition-directory.json"

// keep takes over what is younger than the snapshot and still true: which partitions the
// cluster has.
func (o *RestoreOptions) keep(fresh string) error {
	if o.OtherCluster {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(o.DataDir, serverName, partitionsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading which partitions the cluster has: %w", err)
	}
	return atomicfile.Write(filepath.Join(fresh, partitionsFile), data, 0o600)
}

// extract writes the files below dir, where their paths have them.
func (o *RestoreOptions) extract(dir string) (err error) {
	f, err := os.Open(o.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = archive.Read(f, func(file archive.File, r io.Reader) (err error) {
		path := filepath.Join(dir, filepath.FromSlash(file.Path))
		if strings.HasPrefix(file.Path, archive.ServerPrefix) {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return err
			}
		}
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(file.Mode).Perm())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, out.Close()) }()
		_, err = io.Copy(out, r)
		return err
	})
	return err
}

// syncTree makes files and names durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return atomicfile.SyncDir(path) // opens and syncs, a file as well
	})
}

// markExchange is in a working directory whose content may be the old one.
const markExchange = "exchanging"

// exchange puts fresh where server is and what was there to kept. There is a
// server directory at every moment.
func exchange(fresh, server, kept string) (string, error) {
	if _, err := os.Lstat(server); errors.Is(err, fs.ErrNotExist) {
		return "", os.Rename(fresh, server)
	}
	work := filepath.Dir(fresh)
	if err := atomicfile.Write(filepath.Join(work, markExchange), nil, 0o600); err != nil {
		return "", err
	}
	err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, server, unix.RENAME_EXCHANGE)
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		// A file system that cannot: for a moment there is none.
		if err := os.Rename(server, kept); err != nil {
			return "", err
		}
		return kept, os.Rename(fresh, server)
	case err != nil:
		return "", err
	}
	return kept, os.Rename(fresh, kept)
}
