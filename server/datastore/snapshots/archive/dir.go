package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// Suffixes of files.
const (
	suffixPlain      = ".tar"
	suffixCompressed = ".tar.zst"
	// workPrefix is that of directories that a save works in.
	workPrefix = ".saving-"
)

// Dir is a directory of snapshots.
type Dir string

// Local is the location of snapshots in a directory.
const Local = "local"

// Entry is one snapshot in a directory or elsewhere.
type Entry struct {
	Name string `json:"name"`
	// Location is Local or the URL of where it is.
	Location string `json:"location"`
	// Path is that of the file, or its URL.
	Path string `json:"path"`
	// Size is that of the file.
	Size int64 `json:"size"`
	// Manifest is nil if Err says why it cannot be read.
	Manifest *Manifest `json:"manifest,omitempty"`
	Err      error     `json:"-"`
}

// Request is what a caller of Save wants to be saved, and how.
type Request struct {
	// Name begins the name of the file; node and time follow.
	Name     string
	Node     string
	Compress bool
	// Fill writes what it needs into an empty directory, and returns what to
	// save. The directory is removed afterwards.
	Fill func(dir string) (*Manifest, []Source, error)
}

// lock makes the directory if need be, and lets one process at a time change
// what is in it.
func (d Dir) lock() (unlock func(), err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, d.unusable(err)
	}
	f, err := os.Open(string(d))
	if err != nil {
		return nil, d.unusable(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(d.unusable(err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func (d Dir) unusable(err error) error {
	p := &problem.Precondition{What: "snapshot directory " + string(d), Err: err,
		Fix: "make sure that it is writable, or give another one in --etcd-snapshot-dir"}
	if errors.Is(err, syscall.ENOSPC) {
		p.Fix = "free some disk space; a save needs twice the size of the datastore for a moment"
	}
	return p
}

// Save writes a snapshot, reads it back and gives it its name.
func (d Dir) Save(r Request) (e *Entry, err error) {
	unlock, err := d.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	d.tidy()
	work, err := os.MkdirTemp(string(d), workPrefix)
	if err != nil {
		return nil, d.unusable(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	m, sources, err := r.Fill(work)
	if err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			err = d.unusable(err)
		}
		return nil, err
	}
	m.Created, m.Node = time.Now().UTC().Truncate(time.Second), r.Node
	temp := filepath.Join(work, "snapshot")
	if err := writeFile(temp, m, sources, r.Compress); err != nil {
		return nil, d.unusable(err)
	}
	if err := Verify(temp); err != nil {
		return nil, &problem.Precondition{What: "snapshot just written", Err: err,
			Fix: "check the disk of " + string(d)}
	}
	name, err := d.freeName(r, m.Created)
	if err != nil {
		return nil, d.unusable(err)
	}
	path := filepath.Join(string(d), name)
	if err := os.Rename(temp, path); err != nil {
		return nil, d.unusable(err)
	}
	if err := atomicfile.SyncDir(string(d)); err != nil {
		return nil, d.unusable(err)
	}
	return d.entry(name), nil
}

// tidy removes what killed saves have left. The lock is held, so none runs.
func (d Dir) tidy() {
	left, _ := filepath.Glob(filepath.Join(string(d), workPrefix+"*")) // the pattern is good
	for _, path := range left {
		_ = os.RemoveAll(path) // tried again by the next save
	}
}

// freeName returns a name that is not taken. Two snapshots of one second
// differ in their number only.
func (d Dir) freeName(r Request, at time.Time) (string, error) {
	suffix := suffixPlain
	if r.Compress {
		suffix = suffixCompressed
	}
	for n := at.Unix(); ; n++ {
		base := r.prefix() + strconv.FormatInt(n, 10)
		taken, err := filepath.Glob(filepath.Join(string(d), base+suffixPlain+"*"))
		if err != nil || len(taken) == 0 {
			return base + suffix, err
		}
	}
}

func (r *Request) prefix() string { return Prefix(r.Name, r.Node) }

// Prefix precedes the number in the names of snapshots of one node.
func Prefix(name, node string) string { return name + "-" + node + "-" }

func writeFile(path string, m *Manifest, sources []Source, compress bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = write(f, m, sources, compress)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Verify reads the whole file and compares all checksums.
func Verify(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = Read(f, nil)
	return err
}

// List returns the snapshots from the oldest to the newest. A directory that
// does not exist has none.
func (d Dir) List() ([]Entry, error) {
	files, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, d.unusable(err)
	}
	var out []Entry
	for _, f := range files {
		if f.Type().IsRegular() && IsSnapshot(f.Name()) {
			out = append(out, *d.entry(f.Name()))
		}
	}
	Sort(out)
	return out, nil
}

// Sort sorts snapshots from the oldest to the newest. Those that cannot be
// read come first.
func Sort(list []Entry) {
	slices.SortStableFunc(list, func(a, b Entry) int {
		at := func(e Entry) time.Time {
			if e.Manifest == nil {
				return time.Time{}
			}
			return e.Manifest.Created
		}
		if n := at(a).Compare(at(b)); n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// IsSnapshot reports whether a file of this name is taken for a snapshot.
func IsSnapshot(name string) bool {
	return config.ValidSnapshotName(name) &&
		(strings.HasSuffix(name, suffixPlain) || strings.HasSuffix(name, suffixCompressed))
}

func (d Dir) entry(name string) *Entry {
	e := &Entry{Name: name, Location: Local, Path: filepath.Join(string(d), name)}
	f, err := os.Open(e.Path)
	if err != nil {
		e.Err = err
		return e
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		e.Size = info.Size()
	}
	e.Manifest, e.Err = ReadManifest(f)
	return e
}

// Delete removes one snapshot by its name.
func (d Dir) Delete(name string) error {
	bad := func(err error) error {
		return &problem.Input{Source: "snapshot", Value: name, Err: err,
			Want: `a name that "a4s etcd-snapshot list" prints`}
	}
	if !IsSnapshot(name) {
		return bad(nil)
	}
	unlock, err := d.lock()
	if err != nil {
		return err
	}
	defer unlock()
	err = os.Remove(filepath.Join(string(d), name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return bad(fmt.Errorf("there is none in %s", d))
	case err != nil:
		return d.unusable(err)
	}
	return d.sync()
}

func (d Dir) sync() error {
	if err := atomicfile.SyncDir(string(d)); err != nil {
		return d.unusable(err)
	}
	return nil
}

// Prune removes the oldest snapshots whose names are prefix and a number,
// until keep are left, and returns their names. A file that cannot be read
// counts for nothing and stays: it is for the operator to see.
func (d Dir) Prune(prefix string, keep int) ([]string, error) {
	unlock, err := d.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	all, err := d.List()
	if err != nil {
		return nil, err
	}
	var ours []string
	for _, e := range all {
		if _, ok := Number(e.Name, prefix); ok && e.Err == nil {
			ours = append(ours, e.Name)
		}
	}
	if len(ours) <= keep {
		return nil, nil
	}
	ours = ours[:len(ours)-keep]
	for i, name := range ours {
		if err := os.Remove(filepath.Join(string(d), name)); err != nil {
			return ours[:i], d.unusable(err)
		}
	}
	return ours, d.sync()
}

// Number returns the number behind the prefix in the name of a snapshot, which
// grows with time, and whether the name is of that form.
func Number(name, prefix string) (uint64, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	return n, ok && err == nil && IsSnapshot(name)
}

// Fetch makes a file of this name out of what fetch writes, checks it whole
// and returns its path. The file is gone after release; until then no other
// process changes the directory.
func (d Dir) Fetch(name string, fetch func(io.Writer) error) (path string, release func() error, err error) {
	unlock, err := d.lock()
	if err != nil {
		return "", nil, err
	}
	d.tidy()
	work, err := os.MkdirTemp(string(d), workPrefix)
	if err != nil {
		unlock()
		return "", nil, d.unusable(err)
	}
	release = func() error {
		defer unlock()
		return os.RemoveAll(work)
	}
	path = filepath.Join(work, name)
	if err := fetchFile(path, fetch); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			err = d.unusable(err)
		}
		return "", nil, errors.Join(err, release())
	}
	if err := Verify(path); err != nil {
		return "", nil, errors.Join(err, release())
	}
	return path, release, nil
}

func fetchFile(path string, fetch func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(fetch(f), f.Close())
}

// Find returns the path of a snapshot given by its name or its path.
func (d Dir) Find(nameOrPath string) (string, error) {
	path := nameOrPath
	if !strings.ContainsRune(nameOrPath, filepath.Separator) {
		path = filepath.Join(string(d), nameOrPath)
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		if err == nil {
			err = errors.New("it is not a file")
		}
		return "", &problem.Input{Source: "snapshot", Value: nameOrPath, Err: err,
			Want: `a name that "a4s etcd-snapshot list" prints, or the path of a file`}
	}
	return path, nil
}
