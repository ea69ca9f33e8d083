package supportbundle

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"time"
)

// Bounds of a bundle, before it is compressed.
const (
	maxFile = 8 << 20
	maxAll  = 128 << 20
)

// archive is the file that is being written. What is written passes the scrubber.
type archive struct {
	tar   *tar.Writer
	zip   *gzip.Writer
	dir   string
	now   time.Time
	scrub *scrubber
	left  int // bytes that there is room for
	files int
	// omitted says what is not in the archive, and err why nothing can be written any more.
	omitted []string
	err     error
}

func newArchive(w io.Writer, dir string, now time.Time, s *scrubber) *archive {
	z := gzip.NewWriter(w)
	return &archive{tar: tar.NewWriter(z), zip: z, dir: dir, now: now, scrub: s, left: maxAll}
}

// omit notes what is not in the archive.
func (a *archive) omit(format string, args ...any) {
	a.omitted = append(a.omitted, a.scrub.text(fmt.Sprintf(format, args...)))
}

// add writes a file, as much of its beginning as there is room for.
func (a *archive) add(name string, data []byte) {
	if a.err != nil || len(data) == 0 {
		return
	}
	data = []byte(a.scrub.text(string(data)))
	if most := min(maxFile, a.left); len(data) > most {
		a.omit("%s: %d of %d bytes, there is no room for more", name, len(data)-most, len(data))
		data = data[:most]
	}
	if len(data) == 0 {
		return
	}
	a.write(name, data)
}

func (a *archive) write(name string, data []byte) {
	a.err = a.tar.WriteHeader(&tar.Header{Name: path.Join(a.dir, name), Mode: 0o600, Size: int64(len(data)),
		ModTime: a.now, Format: tar.FormatPAX})
	if a.err == nil {
		_, a.err = a.tar.Write(data)
	}
	a.left -= len(data)
	a.files++
}

// close writes what was left out, and the end.
func (a *archive) close(contents string) error {
	if a.err == nil {
		a.write("CONTENTS.txt", []byte(contents))
	}
	for _, end := range []func() error{a.tar.Close, a.zip.Close} {
		if a.err == nil {
			a.err = end()
		}
	}
	if a.err != nil {
		return fmt.Errorf("writing the bundle: %w", a.err)
	}
	return nil
}
