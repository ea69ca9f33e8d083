package images

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
)

// archiveSuffixes are the names of archives; the content decides about the
// compression.
var archiveSuffixes = []string{".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"}

// listSuffix is the name of a list of images to pull, one a line.
const listSuffix = ".txt"

// file is a file of the directory as it was when it was looked at.
type file struct {
	path    string
	size    int64
	modTime time.Time
}

func (f file) same(g file) bool {
	return f.path == g.path && f.size == g.size && f.modTime.Equal(g.modTime)
}

func statFile(path string) (file, error) {
	st, err := os.Stat(path)
	if err != nil {
		return file{}, err
	}
	return file{path: path, size: st.Size(), modTime: st.ModTime()}, nil
}

// scan returns the operator's archives and pull lists in alphabetical order. It logs once what it
// does not take.
func (i *importer) scan() (archives, lists []file, err error) {
	entries, err := os.ReadDir(i.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("importing images: %w", err)
	}
	before := i.said
	i.said = map[string]string{}
	for _, entry := range entries {
		path := filepath.Join(i.Dir, entry.Name())
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		isArchive := slices.ContainsFunc(archiveSuffixes, func(s string) bool { return strings.HasSuffix(path, s) })
		st, err := os.Stat(path) // through a link
		switch {
		case errors.Is(err, fs.ErrNotExist) && gone(path):
		case err != nil:
			i.say(before, path, logrus.ErrorLevel, fmt.Sprintf("cannot read this file of images: %v", err))
		case st.Mode().IsRegular() && isArchive:
			archives = append(archives, file{path: path, size: st.Size(), modTime: st.ModTime()})
		case st.Mode().IsRegular() && strings.HasSuffix(path, listSuffix):
			lists = append(lists, file{path: path, size: st.Size(), modTime: st.ModTime()})
		default:
			i.say(before, path, logrus.WarnLevel,
				fmt.Sprintf("ignored: an image archive is a file named %s, a list of images is named *%s",
					"*"+strings.Join(archiveSuffixes, ", *"), listSuffix))
		}
	}
	return archives, lists, nil
}

// gone says whether a name is not there any more: it is no link to nothing.
func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// say logs something about a path unless that was said of it before.
func (i *importer) say(before map[string]string, path string, level logrus.Level, text string) {
	i.said[path] = text
	if before[path] != text {
		i.Log.WithField("file", path).Log(level, text)
	}
}

// sayOnce logs that something does not work until it does or fails otherwise.
func (i *importer) sayOnce(about, what string, err error) {
	if err == nil {
		delete(i.troubles, about)
		return
	}
	if i.troubles[about] != err.Error() {
		i.troubles[about] = err.Error()
		i.Log.WithError(err).WithField("file", about).Error(what)
	}
}

// changes are files, and as which something was done about each.
type changes struct {
	seen, handled map[string]file
}

// look returns the files about which nothing was done since they changed, and which are as they
// were at the look before: those that somebody still writes are not. It forgets what is gone.
func (c *changes) look(files []file) (due []file) {
	seen, handled := map[string]file{}, map[string]file{}
	for _, f := range files {
		seen[f.path] = f
		if was, ok := c.handled[f.path]; ok {
			handled[f.path] = was
		}
		if !f.same(handled[f.path]) && f.same(c.seen[f.path]) {
			due = append(due, f)
		}
	}
	c.seen, c.handled = seen, handled
	return due
}

// done says that what is to be done about a file was done, or is in vain until it changes.
func (c *changes) done(f file) { c.handled[f.path] = f }
