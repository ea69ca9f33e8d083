//go:build linux

package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/a4s-io/a4s/scripts/ociarchive"
)

// pair splits the value of a flag of the form source=/path.
func pair(name, value string) (source, target string, err error) {
	source, target, ok := strings.Cut(value, "=")
	if !ok || source == "" || !strings.HasPrefix(target, "/") {
		return "", "", fmt.Errorf("--%s %q: want source=/absolute/path", name, value)
	}
	return source, target, nil
}

func dirs(_ context.Context, o *options) ([]ociarchive.File, error) {
	var files []ociarchive.File
	for _, d := range o.dirs {
		name, octal, given := strings.Cut(d, "=")
		mode := uint64(0o755)
		var err error
		if given {
			mode, err = strconv.ParseUint(octal, 8, 12)
		}
		if err != nil || !strings.HasPrefix(name, "/") {
			return nil, fmt.Errorf("--dir %q: want /absolute/path or /absolute/path=mode, such as /tmp=1777", d)
		}
		files = append(files, ociarchive.File{Path: name, Mode: fs.ModeDir | fileMode(mode)})
	}
	return files, nil
}

// fileMode turns the twelve bits of a Unix mode into Go's.
func fileMode(unix uint64) fs.FileMode {
	mode := fs.FileMode(unix & 0o777)
	if unix&0o4000 != 0 {
		mode |= fs.ModeSetuid
	}
	if unix&0o2000 != 0 {
		mode |= fs.ModeSetgid
	}
	if unix&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

func links(_ context.Context, o *options) ([]ociarchive.File, error) {
	var files []ociarchive.File
	for _, l := range o.links {
		target, name, err := pair("link", l)
		if err != nil {
			return nil, err
		}
		files = append(files, ociarchive.File{Path: name, Mode: fs.ModeSymlink | 0o777, Link: target})
	}
	return files, nil
}

// goFiles builds the Go packages without cgo: the image need hold nothing else.
func goFiles(ctx context.Context, o *options) ([]ociarchive.File, error) {
	if len(o.goPackages) == 0 {
		return nil, nil
	}
	tmp, err := os.MkdirTemp("", "a4s-mkimage-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	var files []ociarchive.File
	for i, g := range o.goPackages {
		pkg, name, err := pair("go", g)
		if err != nil {
			return nil, err
		}
		bin := filepath.Join(tmp, strconv.Itoa(i))
		cmd := exec.CommandContext(ctx, "go", "build",
			"-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", bin, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+o.image.Architecture)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("--go %s: %w\n%s", g, err, strings.TrimSpace(string(out)))
		}
		data, err := os.ReadFile(bin)
		if err != nil {
			return nil, fmt.Errorf("--go %s: is it a main package? %w", g, err)
		}
		files = append(files, ociarchive.File{Path: name, Mode: 0o755, Data: data})
	}
	return files, nil
}

// hostFiles reads files and directory trees. They belong to root in the image,
// whoever builds it.
func hostFiles(_ context.Context, o *options) ([]ociarchive.File, error) {
	var files []ociarchive.File
	for _, f := range o.files {
		source, target, err := pair("file", f)
		if err != nil {
			return nil, err
		}
		// The source itself may be a link, as many files of a system are; in
		// a tree below it a link stays one.
		if source, err = filepath.EvalSymlinks(source); err != nil {
			return nil, fmt.Errorf("--file %s: %w", f, err)
		}
		err = filepath.WalkDir(source, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(source, name)
			if err != nil {
				return err
			}
			file, err := hostFile(name, d, path.Join(target, filepath.ToSlash(rel)))
			files = append(files, file)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("--file %s: %w", f, err)
		}
	}
	return files, nil
}

func hostFile(name string, d fs.DirEntry, target string) (ociarchive.File, error) {
	fi, err := d.Info()
	if err != nil {
		return ociarchive.File{}, err
	}
	f := ociarchive.File{Path: target, Mode: fi.Mode()}
	switch {
	case fi.Mode().IsRegular():
		f.Data, err = os.ReadFile(name)
	case fi.Mode()&fs.ModeSymlink != 0:
		f.Link, err = os.Readlink(name)
	}
	return f, err
}
