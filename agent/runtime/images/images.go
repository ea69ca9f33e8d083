package images

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
)

// Name is the name of the component that follows the directory.
const Name = "images"

// Options say what to import and where to.
type Options struct {
	// Socket is containerd's socket.
	Socket string
	// Snapshotter is where images are unpacked.
	Snapshotter string
	// Required are archives that the node cannot work without.
	Required []string
	// Dir is the directory of the operator's archives and pull lists; it
	// need not exist.
	Dir string
	// StateFile remembers what was imported. It must not be below Dir.
	StateFile string
	// Imported is told the ids, as CRI has them, of all images that came from archives, by name:
	// before Import returns, and after each later import those of what it brought. It is told
	// again what it returned an error for. It may be nil.
	Imported func(ids map[string]string) error
	// Log is where the operator hears about broken files.
	Log *logrus.Entry
}

// Dir returns the operator's directory below a data directory.
func Dir(dataDir string) string { return filepath.Join(dataDir, "agent", "images") }

// StateFile returns the state file below a data directory.
func StateFile(dataDir string) string { return filepath.Join(dataDir, "agent", "images.json") }

// store is what takes images: containerd, but in tests.
type store interface {
	// answers says whether it takes anything now.
	answers(ctx context.Context) bool
	// load imports an archive and returns the digests of its images by name.
	load(ctx context.Context, path string) (map[string]string, error)
	// has says whether an image is there with this digest.
	has(ctx context.Context, name, digest string) bool
	// id is that of an image, "" if there is none of the name.
	id(ctx context.Context, name string) (string, error)
	// pull fetches an image from its registry.
	pull(ctx context.Context, name string) error
	close() error
}

type importer struct {
	Options
	connect func() (store, error)
	store   store
	state   state
	// untold are the images of which Imported has not been told.
	untold map[string]bool
	// archives and lists are the files of the directory, each with what was done about them.
	archives, lists changes
	// said is what was last logged about each file, and troubles what does not work otherwise.
	said, troubles map[string]string
}

// Import imports the required archives and those in the directory. It fails when containerd does
// not answer or a required archive cannot be imported. The component that it returns pulls what
// the lists name, and imports what comes into the directory later.
func Import(ctx context.Context, o Options) (component.Component, error) {
	i := newImporter(o, func() (store, error) { return connect(o.Socket, o.Snapshotter) })
	var err error
	if i.store, err = i.connect(); err != nil {
		return component.Component{}, fmt.Errorf("importing images: %w", err)
	}
	if err := errors.Join(i.importAll(ctx), i.store.close()); err != nil {
		return component.Component{}, err
	}
	return component.Component{Name: Name, Run: i.follow}, nil
}

func newImporter(o Options, connect func() (store, error)) *importer {
	return &importer{Options: o, connect: connect, state: readState(o.StateFile, o.Log), untold: map[string]bool{},
		troubles: map[string]string{}}
}

// importAll imports all archives.
func (i *importer) importAll(ctx context.Context) error {
	for _, path := range i.Required {
		if err := i.importFile(ctx, path); err != nil {
			return fmt.Errorf("importing %s: %w", path, err)
		}
	}
	archives, lists, err := i.scan()
	if err != nil {
		return err
	}
	i.archives.look(archives)
	i.lists.look(lists)
	if err := i.importFiles(ctx, archives); err != nil {
		return err
	}
	i.forget(archives)
	i.remember()
	for _, archive := range i.state {
		i.tellLater(archive)
	}
	return i.tell(ctx)
}

// importFiles imports archives of the operator, who is told of those that are broken. It fails
// when ctx ends.
func (i *importer) importFiles(ctx context.Context, archives []file) error {
	for _, archive := range archives {
		err := i.importFile(ctx, archive.path)
		if ctx.Err() != nil {
			return fmt.Errorf("importing %s: %w", archive.path, context.Cause(ctx))
		}
		if err != nil {
			i.Log.WithError(err).WithField("file", archive.path).
				Error("cannot import this image archive; it is tried again when it changes")
		}
		i.archives.done(archive)
	}
	return nil
}

// importFile imports one archive unless that was done before.
func (i *importer) importFile(ctx context.Context, path string) error {
	f, err := statFile(path)
	if err != nil {
		return err
	}
	if old := i.state[path]; old.of(f) && i.present(ctx, old) {
		return nil
	}
	delete(i.state, path)
	started := time.Now()
	digests, err := i.store.load(ctx, path)
	if err != nil {
		return err
	}
	i.state[path] = record{Size: f.size, ModTime: f.modTime, Images: digests}
	i.tellLater(i.state[path])
	i.Log.WithField("file", path).Infof("imported %d image(s) in %s", len(digests),
		time.Since(started).Round(time.Millisecond))
	return nil
}

// present says whether containerd still has every image of a record.
func (i *importer) present(ctx context.Context, r record) bool {
	for name, digest := range r.Images {
		if !i.store.has(ctx, name, digest) {
			return false
		}
	}
	return true
}

// tellLater has the next tell tell of the images of an archive.
func (i *importer) tellLater(archive record) {
	for name := range archive.Images {
		i.untold[name] = true
	}
}

// tell tells Imported what it has not been told.
func (i *importer) tell(ctx context.Context) error {
	ids := map[string]string{}
	for name := range i.untold {
		id, err := i.store.id(ctx, name)
		if err != nil {
			return err
		}
		if id != "" { // else it was removed meanwhile
			ids[name] = id
		}
	}
	if i.Imported != nil {
		if err := i.Imported(ids); err != nil {
			return err
		}
	}
	clear(i.untold)
	return nil
}

// forget drops what is known of archives that are gone, and says whether there was one.
func (i *importer) forget(archives []file) bool {
	keep := slices.Clone(i.Required)
	for _, archive := range archives {
		keep = append(keep, archive.path)
	}
	return i.state.forget(keep)
}

func (i *importer) remember() {
	if err := i.state.write(i.StateFile); err != nil {
		// It only costs importing the archives again.
		i.Log.WithError(err).Warn("cannot remember which image archives were imported")
	}
}
