package initrd

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// File is a file of an archive. Its directories are made.
type File struct {
	// Path is relative to the root.
	Path string
	// Mode has the permissions only.
	Mode uint32
	Data []byte
}

const (
	regular   = 0o100000
	directory = 0o040000
	character = 0o020000

	// alignment is what an archive, a name and a file's content are padded to.
	alignment = 4
)

// writer writes an archive in cpio's "newc" format.
type writer struct {
	w     *bufio.Writer
	n     int64
	inode int
	dirs  map[string]bool
}

func (a *writer) write(s []byte) {
	n, _ := a.w.Write(s) // the error is kept until Flush
	a.n += int64(n)
}

func (a *writer) pad() {
	if rest := a.n % alignment; rest != 0 {
		a.write(make([]byte, alignment-rest))
	}
}

func (a *writer) entry(name string, mode uint32, major, minor int, data []byte) {
	a.inode++
	links := 1
	if mode&directory != 0 && mode&regular == 0 {
		links = 2
	}
	if mode == 0 { // the trailer
		a.inode = 0
	}
	a.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		a.inode, mode, 0, 0, links, 0, len(data), 0, 0, major, minor, len(name)+1, 0))
	a.write(append([]byte(name), 0))
	a.pad()
	a.write(data)
	a.pad()
}

func (a *writer) parents(name string) {
	dir := path.Dir(name)
	if dir == "." || a.dirs[dir] {
		return
	}
	a.parents(dir)
	a.dirs[dir] = true
	a.entry(dir, directory|0o755, 0, 0, nil)
}

// Write writes an archive with the files, and with /dev/console, without which
// the init program would have no output.
func Write(w io.Writer, files []File) error {
	a := &writer{w: bufio.NewWriter(w), dirs: map[string]bool{}}
	a.parents("dev/console")
	a.entry("dev/console", character|0o600, 5, 1, nil)
	files = slices.Clone(files)
	slices.SortFunc(files, func(x, y File) int { return strings.Compare(x.Path, y.Path) })
	for _, f := range files {
		name := strings.TrimPrefix(path.Clean("/"+f.Path), "/")
		if name == "" || name != strings.TrimPrefix(f.Path, "/") {
			return fmt.Errorf("path %q of a file in an initial RAM disk", f.Path)
		}
		a.parents(name)
		a.entry(name, regular|f.Mode&0o7777, 0, 0, f.Data)
	}
	a.entry("TRAILER!!!", 0, 0, 0, nil)
	return a.w.Flush()
}

// Assemble writes the initial RAM disk of a machine: the kernel's modules, which
// may be compressed, and the init program.
func Assemble(w io.Writer, modules io.Reader, init []byte) error {
	n, err := io.Copy(w, modules)
	if err != nil {
		return err
	}
	if rest := n % alignment; rest != 0 {
		if _, err := w.Write(make([]byte, alignment-rest)); err != nil {
			return err
		}
	}
	return Write(w, []File{{Path: "init", Mode: 0o755, Data: init}})
}
