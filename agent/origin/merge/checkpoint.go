package merge

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/agent/origin/objectfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// calm is the pause between a change and its way to the disk for all but pods: it only makes
// pods wait.
const calm = 10 * time.Second

// begunFile is there once it is on disk which partitions the node knows: then one
// without a directory has joined since. No partition has a name like this.
const begunFile = ".begun"

// checkpoint has a directory for each partition, with a file for each collection. A
// partition of which there is a directory and no file of pods has pods that nobody
// knows. A directory comes and goes as a whole, by its name. The zero value keeps nothing.
type checkpoint struct {
	dir  string
	disk disk
	log  *logrus.Entry

	pending *objectfile.Pending[dirtyFile]

	mu sync.Mutex
	// admitted are the partitions whose directories are theirs.
	admitted map[string]bool
}

type dirtyFile struct {
	set  *set
	from *source
}

// openCheckpoint opens a directory; an empty name means none. fresh says that the
// node never had a pod.
func openCheckpoint(dir string, fresh bool, on disk, log *logrus.Entry) (*checkpoint, error) {
	c := &checkpoint{dir: dir, disk: on, log: log,
		pending: objectfile.NewPending[dirtyFile](), admitted: map[string]bool{}}
	if dir == "" {
		return c, nil
	}
	if err := c.disk.MkdirAll(dir); err != nil {
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
	return c.disk.Write(filepath.Join(c.dir, begunFile), nil)
}

func (c *checkpoint) partition(name string) string { return filepath.Join(c.dir, name) }

func (c *checkpoint) path(s *set, partition string) string {
	return filepath.Join(c.partition(partition), s.resource.Resource+".json")
}

// identityFile says, in the directory of a partition, which one of its name that is.
const identityFile = "identity"

// admit makes the directory of a partition its own: what a former one of the name said
// goes, for that has left. After an error nothing is known of it, whatever is on disk.
func (c *checkpoint) admit(name, identity string, pods *set) (past, error) {
	if c.dir == "" {
		return had, nil
	}
	if identity != "" {
		was, err := c.disk.ReadFile(filepath.Join(c.partition(name), identityFile))
		switch {
		case err == nil && string(was) != identity:
			if err := c.remove(name); err != nil {
				return unclear, err
			}
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return unclear, err
		}
	}
	_, mark := c.disk.Stat(filepath.Join(c.dir, begunFile))
	_, directory := c.disk.Stat(c.partition(name))
	was, err := pastOf(mark, directory)
	switch {
	case err != nil:
		return unclear, err
	case was == none:
		err = c.create(name, identity, pods)
	default:
		if err = c.disk.MkdirAll(c.partition(name)); err == nil {
			err = c.identify(name, identity)
		}
	}
	if err != nil {
		return unclear, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.admitted[name] = true
	return was, nil
}

// create makes the directory of a partition that has no pods. It has its name once all is in
// it.
func (c *checkpoint) create(name, identity string, pods *set) error {
	making := filepath.Join(c.dir, "."+name)
	if err := c.disk.RemoveAll(making); err != nil {
		return err
	}
	if err := c.disk.MkdirAll(making); err != nil {
		return err
	}
	if err := c.disk.WriteObjects(c.path(pods, "."+name), nil); err != nil {
		return err
	}
	if err := c.identify("."+name, identity); err != nil {
		return err
	}
	return c.disk.Rename(making, c.partition(name), c.dir)
}

// identify keeps the identity of a partition, if that is known.
func (c *checkpoint) identify(name, identity string) error {
	if c.dir == "" || identity == "" {
		return nil
	}
	return c.disk.Write(filepath.Join(c.partition(name), identityFile), []byte(identity))
}

// blank forgets what a partition said, but not that there is one: nobody keeps it
// up to date any more, and old files would end pods.
func (c *checkpoint) blank(name string) error {
	if c.dir == "" {
		return nil
	}
	if err := c.disk.MkdirAll(c.partition(name)); err != nil {
		return err
	}
	found, err := c.disk.ReadDir(c.partition(name))
	for _, f := range found {
		err = errors.Join(err, c.disk.RemoveAll(filepath.Join(c.partition(name), f.Name())))
	}
	return err
}

// remove forgets a partition.
func (c *checkpoint) remove(name string) error {
	if c.dir == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.admitted, name)
	c.pending.Forget(func(f dirtyFile) bool { return f.from.name == name })
	if _, err := c.disk.Stat(c.partition(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	gone := filepath.Join(c.dir, "."+name)
	if err := c.disk.RemoveAll(gone); err != nil {
		return err
	}
	if err := c.disk.Rename(c.partition(name), gone, c.dir); err != nil {
		return err
	}
	if err := c.disk.RemoveAll(gone); err != nil {
		c.log.WithError(err).Warn("what a partition said that has left is not removed yet")
	}
	return nil
}

// keepOnly removes the partitions that left while there was no process.
func (c *checkpoint) keepOnly(names map[string]bool) error {
	if c.dir == "" {
		return nil
	}
	found, err := c.disk.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.IsDir() && !names[f.Name()] {
			err = errors.Join(err, c.disk.RemoveAll(filepath.Join(c.dir, f.Name())))
		}
	}
	return err
}

// read returns what a partition said last.
func (c *checkpoint) read(s *set, from *source) ([]runtime.Object, error) {
	if c.dir == "" {
		return nil, fs.ErrNotExist
	}
	return c.disk.ReadObjects(c.path(s, from.name), s.gvk)
}

// mark asks for a collection of a partition to be written.
func (c *checkpoint) mark(s *set, from *source, now bool) {
	if c.dir == "" {
		return
	}
	pause := calm
	if s.resource == podsResource {
		if pause = objectfile.Later; now {
			pause = objectfile.Soon
		}
	}
	c.pending.Mark(dirtyFile{s, from}, pause)
}

// run writes what has changed until ctx ends, and then the rest.
func (c *checkpoint) run(ctx context.Context) {
	c.pending.Run(ctx, func(f dirtyFile) {
		objs, ok := f.set.of(f.from)
		if !ok {
			return // it has left, or is not known
		}
		if err := c.writeFile(f, objs); err != nil {
			c.log.WithError(err).Errorf("cannot write the checkpoint of %s of partition %s; it is tried again",
				f.set.resource.Resource, f.from.name)
			c.mark(f.set, f.from, false)
		}
	})
}

// errNotAdmitted is why nothing is written that another partition's would stand beside.
var errNotAdmitted = errors.New("it is not known whose directory that is")

// writeFile does not bring back the directory of a partition that has left.
func (c *checkpoint) writeFile(f dirtyFile, objs []runtime.Object) error {
	c.mu.Lock()
	admitted := c.admitted[f.from.name]
	c.mu.Unlock()
	if !admitted {
		return errNotAdmitted
	}
	if _, err := c.disk.Stat(c.partition(f.from.name)); err != nil {
		return err
	}
	return c.disk.WriteObjects(c.path(f.set, f.from.name), objs)
}
