package ociarchive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Image is the content of one single-platform image.
type Image struct {
	// Ref is the full reference, "registry/repository:tag".
	Ref string
	// Architecture is a GOARCH; empty means amd64.
	Architecture string

	// Entrypoint, Cmd, Env, User and WorkingDir are the image's run-time
	// configuration; Env entries are "NAME=value".
	Entrypoint []string
	Cmd        []string
	Env        []string
	User       string
	WorkingDir string
	// Labels are the image's labels.
	Labels map[string]string

	// Files are the content of the only layer, in any order. Directories that
	// are missing on the way to a file are added with mode 0755. Of two files
	// with one path the later wins, two directories are one.
	Files []File
	// Plain leaves the layer uncompressed.
	Plain bool
}

// File is one entry of a layer.
type File struct {
	// Path is the place in the image; a leading slash is optional.
	Path string
	// Mode holds the type (regular, directory or symbolic link), the
	// permissions and the set-id and sticky bits.
	Mode fs.FileMode
	// UID and GID own the file.
	UID, GID int
	// Data is the content of a regular file.
	Data []byte
	// Link is the target of a symbolic link as it is, or, with HardLink, the
	// path of a file of this image.
	Link string
	// HardLink makes the entry another name of the file at Link.
	HardLink bool
}

// epoch is the time of every entry. Not zero, because some tools take a zero
// time for a missing one.
var epoch = time.Unix(1, 0).UTC()

// layer renders the files as an uncompressed tar.
func layer(files []File) ([]byte, error) {
	byPath := map[string]File{}
	for _, f := range files {
		p, err := cleanPath(f.Path)
		if err != nil {
			return nil, err
		}
		if p == "." {
			continue
		}
		f.Path = p
		if t := f.Mode.Type(); t&^(fs.ModeDir|fs.ModeSymlink) != 0 {
			return nil, fmt.Errorf("file %s: %s is not a regular file, directory or symbolic link", f.Path, t)
		}
		byPath[p] = f
	}
	for _, f := range files {
		p, err := cleanPath(f.Path)
		if err != nil {
			return nil, err
		}
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			parent, ok := byPath[dir]
			switch {
			case !ok:
				byPath[dir] = File{Path: dir, Mode: fs.ModeDir | 0o755}
			case !parent.Mode.IsDir():
				return nil, fmt.Errorf("file %s: %s on the way to it is not a directory", p, dir)
			}
		}
	}

	sorted := make([]File, 0, len(byPath))
	for _, f := range byPath {
		sorted = append(sorted, f)
	}
	slices.SortFunc(sorted, func(a, b File) int {
		// A hard link must come after the file that it names.
		if a.HardLink != b.HardLink {
			if a.HardLink {
				return 1
			}
			return -1
		}
		return strings.Compare(a.Path, b.Path)
	})

	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, f := range sorted {
		h, err := header(f, byPath)
		if err != nil {
			return nil, err
		}
		if err := tw.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("file %s: %w", f.Path, err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := tw.Write(f.Data); err != nil {
				return nil, fmt.Errorf("file %s: %w", f.Path, err)
			}
		}
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// header renders the tar header of one file.
func header(f File, byPath map[string]File) (*tar.Header, error) {
	h := &tar.Header{
		Name:    f.Path,
		Mode:    unixMode(f.Mode),
		Uid:     f.UID,
		Gid:     f.GID,
		ModTime: epoch,
	}
	switch {
	case f.HardLink:
		target, err := cleanPath(f.Link)
		if err != nil {
			return nil, err
		}
		if t, ok := byPath[target]; !ok || t.HardLink || !t.Mode.IsRegular() {
			return nil, fmt.Errorf("file %s: hard link to %s, which is not a regular file of the image",
				f.Path, f.Link)
		}
		h.Typeflag, h.Linkname = tar.TypeLink, target
	case f.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, f.Path+"/"
	case f.Mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
	default:
		h.Typeflag, h.Size = tar.TypeReg, int64(len(f.Data))
	}
	return h, nil
}

// unixMode renders permissions and set-id bits as tar holds them.
func unixMode(m fs.FileMode) int64 {
	mode := int64(m.Perm())
	if m&fs.ModeSetuid != 0 {
		mode |= 0o4000
	}
	if m&fs.ModeSetgid != 0 {
		mode |= 0o2000
	}
	if m&fs.ModeSticky != 0 {
		mode |= 0o1000
	}
	return mode
}

// cleanPath returns p relative to the image's root.
func cleanPath(p string) (string, error) {
	if p == "" {
		return "", fmt.Errorf("a file of the image has no path")
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return "", fmt.Errorf("file %s: a path in an image must not contain %q", p, "..")
		}
	}
	if p = path.Clean("/" + p); p == "/" {
		return ".", nil
	}
	return p[1:], nil
}
