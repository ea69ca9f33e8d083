package images

import (
	"context"
	"errors"
	"sync"
	"time"
)

// every is how often the directory is looked at. A file is taken when it was the same twice. To be
// told of changes would not do: only size and time say that nobody writes any more, the directory
// may be made later, and machines have few watches of files.
const every = 2 * time.Second

// follow imports what comes into the directory, and pulls what lists name, until ctx ends.
func (i *importer) follow(ctx context.Context, ready func()) (err error) {
	if i.store, err = i.connect(); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	// Pulling takes as long as registries like, and archives do not wait for it.
	lists := make(chan []file, 1)
	var pulls sync.WaitGroup
	pulls.Go(func() {
		for batch := range lists {
			i.pull(ctx, batch)
		}
	})
	defer func() {
		end()
		close(lists)
		pulls.Wait()
		err = errors.Join(err, i.store.close())
	}()
	ready()
	for ctx.Err() == nil {
		i.round(ctx, lists)
		select {
		case <-time.After(every): // counted from here, so that rounds are never closer
		case <-ctx.Done():
		}
	}
	return nil
}

// round looks at the directory once. It imports archives that have changed, and hands over lists
// that have unless others wait already.
func (i *importer) round(ctx context.Context, pulls chan<- []file) {
	archives, lists, err := i.scan()
	i.sayOnce(i.Dir, "cannot read the directory of images", err)
	if err != nil {
		return
	}
	if due := i.lists.look(lists); len(due) > 0 {
		select {
		case pulls <- due:
			for _, list := range due {
				i.lists.done(list)
			}
		default:
		}
	}
	due := i.archives.look(archives)
	if i.forget(archives) {
		i.remember()
	}
	if len(due) == 0 && len(i.untold) == 0 || !i.store.answers(ctx) {
		return // an archive is not to blame for a containerd that is not there
	}
	err = i.importFiles(ctx, due)
	if len(due) > 0 {
		i.remember()
	}
	if err == nil && len(i.untold) > 0 { // else ctx has ended, and the next start does the rest
		err = i.tell(ctx)
		if ctx.Err() == nil {
			i.sayOnce(i.StateFile, "cannot say that all pods may use the images of new archives", err)
		}
	}
}
