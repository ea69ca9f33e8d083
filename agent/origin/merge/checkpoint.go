package merge

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/agent/origin/objectfile"
	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// Pauses between a change and its way to the disk: a pod that a checkpoint lacks
// would be ended, while all else only makes pods wait.
const (
	soon  = 200 * time.Millisecond
	later = 5 * time.Second
	calm  = 10 * time.Second // for all but pods
)

// begunFile is there once it is on disk which partitions the node knows: then one
// without a directory has joined since. No partition has a name like this.
const begunFile = ".begun"

// checkpoint has a directory for each partition, with a file for each collection. A
// partition of which there is a directory and no file of pods has pods that nobody
// knows. The zero value keeps nothing.
type checkpoint struct {
	dir string
	log *logrus.Entry

	wake  chan struct{}
	mu    sync.Mutex
	dirty map[dirtyFile]time.Time // when to write
}

type dirtyFile struct {
	set  *set
	from *source
}

// openCheckpoint opens a directory; an empty name means none. fresh says that the
// node never had a pod.
func openCheckpoint(dir string, fresh bool, log *logrus.Entry) (*checkpoint, error) {
	c := &checkpoint{dir: dir, log: log, wake: make(chan struct{}, 1), dirty: map[dirtyFile]time.Time{}}
	if dir == "" {
		return c, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &problem.Precondition{What: "directory of the partitions' checkpoint " + dir, Err: err}
	}
	if fresh {
		return c, c.begun()
	}
	return c, nil
}

// begun says that every partition that was there has its directory.
func (c *checkpoint) begun() error {
	if c.dir == "" {
		return nil
	}
	return atomicfile.Write(filepath.Join(c.dir, begunFile), nil, 0o600)
}

func (c *checkpoint) partition(from *source) string { return filepath.Join(c.dir, from.name) }

func (c *checkpoint) path(s *set, from *source) string {
	return filepath.Join(c.partition(from), s.resource.Resource+".json")
}

// isNew reports whether the node never had anything of a partition.
func (c *checkpoint) isNew(from *source) bool {
	if c.dir == "" {
		return false
	}
	_, begun := os.Stat(filepath.Join(c.dir, begunFile))
	_, dir := os.Stat(c.partition(from))
	return begun == nil && errors.Is(dir, fs.ErrNotExist)
}

// open makes the directory of a partition. For one that is new it notes that there
// are no pods.
func (c *checkpoint) open(from *source, pods *set, isNew bool) error {
	if c.dir == "" {
		return nil
	}
	if err := os.MkdirAll(c.partition(from), 0o700); err != nil {
		return err
	}
	if !isNew {
		return nil
	}
	return objectfile.Write(c.path(pods, from), nil)
}

// blank forgets what a partition said, but not that there is one: nobody keeps it
// up to date any more, and old files would end pods.
func (c *checkpoint) blank(from *source) error {
	if c.dir == "" {
		return nil
	}
	return errors.Join(os.RemoveAll(c.partition(from)), os.MkdirAll(c.partition(from), 0o700))
}

// identityFile says, in the directory of a partition, which one of its name that is.
const identityFile = "identity"

// identify keeps the identity of a partition, if that is known.
func (c *checkpoint) identify(from *source, identity string) error {
	if c.dir == "" || identity == "" {
		return nil
	}
	return atomicfile.Update(filepath.Join(c.partition(from), identityFile), []byte(identity), 0o600)
}

// ofAnother removes what a former partition of the name said: that one has left.
func (c *checkpoint) ofAnother(from *source, identity string) error {
	if c.dir == "" || identity == "" {
		return nil
	}
	was, err := os.ReadFile(filepath.Join(c.partition(from), identityFile))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && string(was) == identity:
		return nil
	case err != nil:
		return err
	}
	return os.RemoveAll(c.partition(from))
}

// remove forgets a partition.
func (c *checkpoint) remove(from *source) error {
	if c.dir == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.dirty {
		if f.from == from {
			delete(c.dirty, f)
		}
	}
	return os.RemoveAll(c.partition(from))
}

// keepOnly removes the partitions that left while there was no process.
func (c *checkpoint) keepOnly(names map[string]bool) error {
	if c.dir == "" {
		return nil
	}
	found, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.IsDir() && !names[f.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(c.dir, f.Name())))
		}
	}
	return err
}

// read returns what a partition said last.
func (c *checkpoint) read(s *set, from *source) ([]runtime.Object, error) {
	if c.dir == "" {
		return nil, fs.ErrNotExist
	}
	return objectfile.Read(c.path(s, from), s.gvk)
}

// mark asks for a collection of a partition to be written.
func (c *checkpoint) mark(s *set, from *source, now bool) {
	if c.dir == "" {
		return
	}
	pause := calm
	if s.resource == podsResource {
		if pause = later; now {
			pause = soon
		}
	}
	c.mu.Lock()
	f, at := dirtyFile{s, from}, time.Now().Add(pause)
	if due, ok := c.dirty[f]; !ok || at.Before(due) {
		c.dirty[f] = at
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // a change is waiting already
	}
}

// run writes what has changed until ctx ends, and then the rest.
func (c *checkpoint) run(ctx context.Context) {
	for {
		var due <-chan time.Time
		if next := c.next(); !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			c.write(time.Now().Add(calm))
			return
		case <-c.wake:
		case <-due:
			c.write(time.Now())
		}
	}
}

func (c *checkpoint) next() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next time.Time
	for _, at := range c.dirty {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// write writes the collections whose time has come.
func (c *checkpoint) write(now time.Time) {
	var due []dirtyFile
	c.mu.Lock()
	for f, at := range c.dirty {
		if !at.After(now) {
			due = append(due, f)
			delete(c.dirty, f)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		objs, ok := f.set.of(f.from)
		if !ok {
			continue // it has left, or is not known
		}
		if err := c.writeFile(f, objs); err != nil {
			c.log.WithError(err).Errorf("cannot write the checkpoint of %s of partition %s; it is tried again",
				f.set.resource.Resource, f.from.name)
			c.mark(f.set, f.from, false)
		}
	}
}

// writeFile does not bring back the directory of a partition that has left.
func (c *checkpoint) writeFile(f dirtyFile, objs []runtime.Object) error {
	if _, err := os.Stat(c.partition(f.from)); err != nil {
		return err
	}
	return objectfile.Write(c.path(f.set, f.from), objs)
}
