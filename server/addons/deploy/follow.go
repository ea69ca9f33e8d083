package deploy

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// lookEvery is how often the directory is looked at without being told of
	// a change: some file systems do not tell.
	lookEvery = 15 * time.Second
	// gather is the pause between a change and a look, for more to come.
	gather = 250 * time.Millisecond
	// Pauses before what was refused is tried again.
	firstRetry = 2 * time.Second
	lastRetry  = 5 * time.Minute
)

// state is what is known of a file of the directory.
type state struct {
	stamp stamp
	sum   string
	// due is when it has to be applied, zero if it is as it should be or
	// cannot be.
	due time.Time
	// retry is the pause after the next failure.
	retry time.Duration
	// told is the problem that was last told.
	told string
}

// follow keeps the API as the files of the directory say.
func (d *deployer) follow(ctx context.Context, dir string) {
	var changes changes
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		d.log.WithError(err).Warnf("Changes in %s are found every %s only", dir, lookEvery)
	} else {
		defer watcher.Close() //nolint:errcheck // nothing depends on it
		changes.events, changes.errors = watcher.Events, watcher.Errors
	}
	f := &follower{deployer: d, dir: dir, files: map[string]*state{}}
	for {
		dirs, wait := f.round(ctx)
		if watcher != nil {
			for _, dir := range dirs {
				// What cannot be watched is looked at.
				_ = watcher.Add(dir)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-changes.events:
			changes.drain(ctx)
		case <-changes.errors: // some changes may not have been told
			changes.drain(ctx)
		}
	}
}

// changes are what a watcher tells, nothing if there is none.
type changes struct {
	events <-chan fsnotify.Event
	errors <-chan error
}

// drain takes what comes together with a change.
func (c changes) drain(ctx context.Context) {
	over := time.NewTimer(gather)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.events:
		case <-c.errors:
		case <-over.C:
			return
		}
	}
}

// follower knows the files of the directory.
type follower struct {
	*deployer
	dir   string
	files map[string]*state
	told  string // the problem of the directory itself
}

// round looks at the directory and applies what is due. It returns the
// directories and when to look again.
func (f *follower) round(ctx context.Context) (dirs []string, wait time.Duration) {
	entries, dirs, err := list(f.dir)
	if err != nil {
		if err.Error() != f.told {
			f.log.WithError(err).Warn("The directory of manifests cannot be read")
			f.told = err.Error()
		}
		return nil, lookEvery
	}
	f.told = ""
	now := time.Now()
	f.forget(entries)
	wait = lookEvery
	var due []manifest
	for _, e := range entries {
		if e.err == nil && !e.settled(now) {
			wait = min(wait, settle)
			continue
		}
		if m, ok := f.look(e, now); ok {
			due = append(due, m)
		}
	}
	f.apply(ctx, due)
	now = time.Now()
	for _, s := range f.files {
		if !s.due.IsZero() {
			wait = min(wait, max(s.due.Sub(now), gather))
		}
	}
	return dirs, wait
}

// forget drops what is known of files that are not there or not to be looked
// at any more. Their objects stay.
func (f *follower) forget(entries []entry) {
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[e.path] = true
	}
	for path := range f.files {
		if !there[path] {
			delete(f.files, path)
			f.log.Infof("Manifest %s is gone or to be skipped; what it brought stays", path)
		}
	}
}

// look reads a file that has changed or is to be tried again.
func (f *follower) look(e entry, now time.Time) (manifest, bool) {
	s := f.files[e.path]
	if s == nil {
		s = &state{retry: firstRetry}
		f.files[e.path] = s
	}
	due := !s.due.IsZero() && !now.Before(s.due)
	if s.stamp == e.stamp && e.err == nil && !due {
		return manifest{}, false
	}
	m := manifest{of: recordFile, file: e.path, err: e.err}
	var text []byte
	if m.err == nil {
		text, m.err = readFile(filepath.Join(f.dir, filepath.FromSlash(e.path)))
	}
	if errors.Is(m.err, fs.ErrNotExist) {
		return manifest{}, false
	}
	s.stamp = e.stamp
	if m.err != nil {
		m.err = unread{m.err}
		return m, true
	}
	if m.sum = checksum(text); m.sum == s.sum && !due {
		return manifest{}, false // only touched
	}
	if m.sum != s.sum {
		*s = state{stamp: e.stamp, sum: m.sum, retry: firstRetry}
	}
	if m.objects, m.err = parse(e.path, text); m.err != nil {
		m.err = unparsed{m.err}
	}
	return m, true
}

// unread and unparsed are why a file cannot be applied. Another attempt makes
// sense only of the first.
type (
	unread   struct{ error }
	unparsed struct{ error }
)

// apply applies what is due and decides when to try again.
func (f *follower) apply(ctx context.Context, due []manifest) {
	if len(due) == 0 {
		return
	}
	errs := f.deploy(ctx, due)
	for i, m := range due {
		s, err := f.files[m.file], errs[i]
		if err == nil {
			s.due, s.told, s.retry = time.Time{}, "", firstRetry
			continue
		}
		if ctx.Err() != nil {
			return
		}
		reason, again := reasonRefused, true
		switch {
		case errors.As(err, new(unread)):
			reason = reasonUnread
		case errors.As(err, new(unparsed)):
			reason, again = reasonUnparsed, false
		}
		first := s.retry == firstRetry && s.due.IsZero()
		s.due = time.Time{}
		if again {
			s.due = time.Now().Add(s.retry)
			s.retry = min(2*s.retry, lastRetry)
		}
		// What others of the same file bring may just not be there yet.
		if first && passing(err) {
			continue
		}
		if s.told != err.Error() {
			s.told = err.Error()
			f.failed(ctx, m, reason, err)
		}
	}
}
